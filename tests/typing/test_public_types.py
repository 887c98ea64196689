"""A type checker accepts right hooks, and finds the mistakes in wrong ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = Path(__file__).with_name("right_hooks.py")

IMPORTS = """
from typing import Any
from checkrail import (
    AssistantMessage, Block, Continue, Event, Hook, HookRegistry, ModelRequest, Replace, Retry,
    RunResult, ToolCall, ToolResult,
)
from checkrail.hooks import RunContext, RunHooks
from checkrail import Hooks
from checkrail.styles import AgentStatus, HookDecision, HookContext, adapt, on
hooks = Hooks()
run_hooks = RunHooks()
"""

# After `# E:`, what mypy has to say about the line.
WRONG = """
@hooks.before_tool_call  # E: "Callable[[Event[ToolCall], ToolCall],
async def wrong_value(event: Event[ToolCall], call: ModelRequest) -> Block | None: ...

@hooks.before_tool_call(lane="gate")  # E: "Callable[[Event[ToolCall], ToolCall],
async def wrong_value_with_options(event: Event[ToolCall], call: ModelRequest) -> None: ...

@hooks.before_tool_call  # E: incompatible type
def wrong_event(event: Event[ModelRequest]) -> None: ...

@hooks.pre_tool_call  # E: "Hooks" has no attribute "pre_tool_call"
def at_an_alias(event: Event[Any], call: ToolCall) -> None: ...

@hooks.on_run_finish  # E: "Hooks" has no attribute "on_run_finish"
def at_an_alias_of_two(event: Event[Any]) -> None: ...

@hooks.before_run  # E: incompatible type
def no_parameter() -> None: ...

@hooks.before_run  # E: incompatible type
def too_many(event: Event[Any], value: Any, more: Any) -> None: ...

@hooks.before_run  # E: cannot be "dict[str, int]"
def no_decision(event: Event[Any]) -> dict[str, int]: return {}

@hooks.hook("before_run")  # E: cannot be "Callable[[Event[Any]], int]"
def no_decision_either(event: Event[Any]) -> int: return 1

@hooks.before_tool_call(lan="gate")  # E: Unexpected keyword argument "lan"
async def unknown_option(event: Event[ToolCall], call: ToolCall) -> None: ...

@hooks.before_tool_call(priority="high")  # E: matches argument type "str"
async def wrong_option(event: Event[ToolCall], call: ToolCall) -> None: ...

@hooks.before_tool_call(when=3)  # E: matches argument type "int"
async def wrong_condition(event: Event[ToolCall], call: ToolCall) -> None: ...

@hooks.hook("before_run", lan="gate")  # E: Unexpected keyword argument "lan"
async def unknown_option_for_several(event: Event[Any]) -> None: ...

@hooks.before_tool_call(lane="gatee")  # E: matches argument type
async def unknown_lane(event: Event[ToolCall], call: ToolCall) -> None: ...

@hooks.before_tool_call(mode="shadw")  # E: matches argument type
async def unknown_mode(event: Event[ToolCall], call: ToolCall) -> None: ...

@hooks.before_tool_call(on_error={"tiemout": "block"})  # E: Dict entry 0 has incompatible type
async def unknown_kind(event: Event[ToolCall], call: ToolCall) -> None: ...

HookRegistry().register(unknown_lane, "before_run", lane="gatee")  # E: has incompatible type
hooks.on("after_llm_call").handle("retyr")  # E: has incompatible type

@hooks.before_tool_call  # E: cannot be "Retry | None"
def retry_where_it_is_forbidden(event: Event[ToolCall], call: ToolCall) -> Retry | None: ...

@hooks.before_llm_call  # E: cannot be "Coroutine[Any, Any, Retry]"
async def retry_later(event: Event[ModelRequest]) -> Retry: raise NotImplementedError

@hooks.on_session_end  # E: cannot be "Block"
def block_where_it_is_over(event: Event[Any]) -> Block: raise NotImplementedError

@hooks.after_llm_call  # E: cannot be "Continue[ToolCall]"
def another_value(event: Event[AssistantMessage]) -> Continue[ToolCall]: raise NotImplementedError

@hooks.before_tool_call  # E: cannot be "Replace[AssistantMessage]"
def another_result(event: Event[ToolCall]) -> Replace[AssistantMessage]: raise NotImplementedError

def another_value_inside(event: Event[Any]) -> Continue[ToolCall]:
    return Continue(ToolResult())  # E: expected "ToolCall | Unset"

class WrongOptions(Hook):
    lane = "gatee"  # E: Incompatible types in assignment
    on_error = "blok"  # E: Incompatible types in assignment
    mode = "shadw"  # E: Incompatible types in assignment

@hooks.before_tol_call  # E: "Hooks" has no attribute "before_tol_call"
def unknown_point(event: Event[Any]) -> None: ...

Hooks(max_retrys=3)  # E: Unexpected keyword argument "max_retrys"

@run_hooks.before_run  # E: cannot be "Callable[[Event[Any]], None]"
def takes_an_event(event: Event[Any]) -> None: ...

@run_hooks.after_run(tmeout=3)  # E: Unexpected keyword argument "tmeout"
def unknown_run_option(ctx: RunContext) -> None: ...

def look(ctx: RunContext) -> None:
    ctx.run_id = "other"  # E: read-only
    ctx.extras["x"] = 1  # E: Unsupported target for indexed assignment

def holds(event: Event[Any]) -> bool: return True

on(hooks.registry, "query_end").when(holds)  # E: expected "Callable[[AgentStatus],
hooks.on("query_end").handle(effects=[holds])  # E: List item 0 has incompatible type
hooks.on("query_end").handle(prioritty=1)  # E: Unexpected keyword argument "prioritty"
HookDecision.RETYR  # E: has no attribute "RETYR"

def answers_otherwise(ctx: HookContext) -> int: return 1

adapt(answers_otherwise)  # E: incompatible type
"""


def mypy(*files: Path) -> str:
    """What mypy says, by the project's own strict settings."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout


def test_right_hooks_are_accepted_as_they_are() -> None:
    assert mypy(RIGHT) == ""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """The errors in the wrong hooks, by line."""
    file = tmp_path_factory.mktemp("types") / "wrong_hooks.py"
    file.write_text(IMPORTS + WRONG)
    errors: dict[int, list[str]] = {}
    for line in mypy(file).splitlines():
        if told := re.match(r".*wrong_hooks\.py:(\d+): error: (.*)", line):
            errors.setdefault(int(told[1]), []).append(told[2])
    return errors


def expected() -> dict[int, str]:
    lines = enumerate((IMPORTS + WRONG).splitlines(), 1)
    return {n: line.partition("# E: ")[2] for n, line in lines if "# E: " in line}


@pytest.mark.parametrize(("line", "told"), expected().items(), ids=expected().values())
def test_a_mistake_is_found(line: int, told: str, found: dict[int, list[str]]) -> None:
    assert any(told in error for error in found.get(line, [])), found.get(line)


def test_nothing_else_is_found(found: dict[int, list[str]]) -> None:
    assert found.keys() == expected().keys()
