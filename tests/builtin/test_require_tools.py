import asyncio

import pytest

from checkrail import (
    Agent,
    AssistantMessage,
    Block,
    HookRegistry,
    ToolCall,
    ToolResult,
)
from checkrail.agent import RunFailed
from checkrail.agent.tools import tool
from checkrail.builtin import BUILTINS, BuiltinConfigError, require_tools
from checkrail.builtin.require_tools import CallLog, requirer
from checkrail.config import load_text
from checkrail.engine.errors import HookRefusedError
from checkrail.testing import RecordingRegistry, ScriptedModel, assert_allowed, sample

ANSWER = AssistantMessage("It is sunny.")
NEEDED = "Before you answer, call 'lookup' successfully."


def requiring(*tools, calls=None, **config):
    registry = RecordingRegistry()
    hook = requirer({"tools": [*tools], **config}, calls=calls or CallLog())
    registry.register(hook, *BUILTINS["require_tools"].points, lane="gate")
    return registry


async def called(registry, name, run_id="run-1", *, error=None, id=""):
    result = ToolResult(id, name, "", is_error=error is not None, error=error)
    assert_allowed(await registry.fire("after_tool_call", result, run_id=run_id))
    if error:
        assert_allowed(await registry.fire("on_tool_error", result, run_id=run_id))


async def feedback(registry, run_id="run-1", point="before_final_response", value=ANSWER):
    verdict = await registry.fire(point, value, run_id=run_id)
    assert verdict.decision in ("continue", "retry"), verdict
    return verdict.reason


async def test_an_answer_is_sent_back_until_the_tool_was_called():
    registry = requiring("lookup")
    assert await feedback(registry) == NEEDED
    await called(registry, "search")
    assert await feedback(registry) == NEEDED
    await called(registry, "lookup")
    assert not await feedback(registry)


async def test_only_calls_that_went_well_count():
    registry = requiring("lookup")
    await called(registry, "lookup", error="no network")
    assert await feedback(registry) == NEEDED
    await called(registry, "lookup", id="2")
    await called(registry, "lookup", error="no network", id="3")
    assert not await feedback(registry)


async def test_calls_that_failed_count_if_that_is_said():
    registry = requiring("lookup", successful=False)
    assert await feedback(registry) == "Before you answer, call 'lookup'."
    await called(registry, "lookup", error="no network")
    assert not await feedback(registry)


async def test_a_result_that_another_gate_refused_does_not_count():
    registry = requiring("lookup")
    registry.register(lambda event: Block("leaks"), "after_tool_call", lane="gate", name="leaks")
    result = ToolResult("1", "lookup", "a secret")
    verdict = await registry.fire("after_tool_call", result, run_id="run-1")
    assert verdict.decision == "block"
    refused = ToolResult("1", "lookup", is_error=True, error=verdict.reason)
    await registry.fire("on_tool_error", refused, run_id="run-1")
    assert await feedback(registry) == NEEDED


async def test_all_tools_are_needed_and_the_missing_ones_are_named():
    registry = requiring("lookup", "check_*", "/^log/")
    await called(registry, "check_age")
    assert await feedback(registry) == (
        "Before you answer, call 'lookup' and '/^log/' successfully."
    )
    await called(registry, "lookup")
    await called(registry, "login")
    assert not await feedback(registry)


async def test_one_of_them_is_enough_if_that_is_said():
    registry = requiring("lookup", "search", any=True)
    told = "Before you answer, call 'lookup' or 'search' successfully."
    assert await feedback(registry) == told
    await called(registry, "search")
    assert not await feedback(registry)


async def test_what_the_model_is_told_can_be_said():
    registry = requiring("a", "b", feedback="First {tools}, please.")
    assert await feedback(registry) == "First 'a' and 'b', please."


async def test_runs_at_the_same_time_are_told_apart():
    registry = requiring("lookup")
    await called(registry, "lookup", "run-1")
    assert await feedback(registry, "run-2") == NEEDED
    assert not await feedback(registry, "run-1")


@pytest.mark.parametrize("point", ["before_final_response", "after_llm_call"])
async def test_without_a_run_the_work_ends_and_says_what_is_missing(point):
    registry = RecordingRegistry()
    registry.register(require_tools, point, config={"tools": ["lookup"]})
    verdict = await registry.fire(point, ANSWER)
    assert (verdict.decision, verdict.code) == ("fail", "run_id_missing")
    assert "fire its points with a run_id" in verdict.reason


async def test_a_call_without_a_run_is_nobodys():
    calls = CallLog()
    registry = requiring("lookup", calls=calls)
    assert_allowed(await registry.fire("after_tool_call", sample("after_tool_call")))
    assert len(calls) == 0


async def test_after_a_model_call_only_an_answer_is_sent_back():
    registry = RecordingRegistry()
    registry.register(requirer({"tools": ["lookup"]}, calls=CallLog()), "after_llm_call")
    calling = sample("after_llm_call")
    assert not await feedback(registry, point="after_llm_call", value=calling)
    assert await feedback(registry, point="after_llm_call") == NEEDED


async def test_retries_come_to_an_end():
    registry = requiring("lookup")
    scope = registry.scope(run_id="run-1")
    decisions = [(await scope.fire("before_final_response", ANSWER)).decision for _ in range(4)]
    assert decisions == ["retry", "retry", "retry", "fail"]


def test_the_log_forgets_the_runs_that_were_heard_of_the_longest_ago():
    log = CallLog(max_runs=2)
    for run in ("a", "b", "a", "c"):
        log.add_result(run, ToolResult("1", "lookup"))
    assert len(log) == 2
    assert [bool(log.called_tools(run, successful=True)) for run in "abc"] == [True, False, True]


async def test_as_a_plain_function_it_stands_at_all_its_points():
    registry = HookRegistry()
    registry.register(require_tools, config={"tools": ["lookup"]})
    run = "plain-function"
    assert await feedback(registry, run) == NEEDED
    await called(registry, "lookup", run)
    assert not await feedback(registry, run)


@pytest.mark.parametrize("point", ["before_final_response", "transform_response"])
async def test_in_a_file_one_entry_stands_at_all_of_its_points(point):
    loaded = load_text(
        f"""
        hooks:
          {point}: {{ builtin: require_tools, config: {{ tools: [lookup] }} }}
        """
    )
    registry = HookRegistry()
    registry.swap(loaded.specs)
    run = f"in-a-file-{point}"
    assert await feedback(registry, run) == NEEDED
    await called(registry, "lookup", run)
    assert not await feedback(registry, run)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "option 'tools' is missing"),
        ({"tools": []}, "option 'tools' is []"),
        ({"tools": "lookup"}, "option 'tools' is 'lookup', expected a valid list"),
        ({"tools": ["/(/"]}, "option 'tools[0]' is '/(/', expected a glob, or"),
        ({"tools": ["x"], "feedback": ""}, "option 'feedback' is ''"),
        ({"tools": ["x"], "successfull": True}, "(did you mean 'successful'?)"),
    ],
)
def test_a_bad_option_is_named(config, text):
    with pytest.raises(BuiltinConfigError) as caught:
        BUILTINS["require_tools"].make(config)
    assert text in str(caught.value)


def test_at_a_point_that_it_cannot_read_it_is_refused():
    with pytest.raises(HookRefusedError, match="reads AssistantMessage or ToolResult"):
        RecordingRegistry().register(require_tools, "before_llm_call", config={"tools": ["x"]})


@tool
def lookup(city: str) -> str:
    """Look a city up."""
    if city != "Paris":
        raise LookupError(city)
    return "sunny"


def agent(*replies):
    made = Agent(ScriptedModel(replies), tools=[lookup])
    made.registry.register(require_tools, config={"tools": ["lookup"]})
    return made


def calls(id, city):
    return AssistantMessage(tool_calls=[ToolCall(id, "lookup", {"city": city})])


async def test_an_agent_answers_only_when_it_has_called_its_tool():
    asked = agent("Sunny?", calls("1", "Atlantis"), "Sunny!", calls("2", "Paris"), "Sunny.")
    response = await asked.run("How is Paris?")
    assert (response.content, response.stop_reason) == ("Sunny.", "answer")
    told = [message["content"] for message in response.messages if message["role"] == "user"]
    assert told == ["How is Paris?", NEEDED, NEEDED]


async def test_a_call_in_one_run_does_not_count_in_another():
    asked = agent(calls("1", "Paris"), "Sunny.", *["Sunny."] * 4)
    await asked.run("How is Paris?")
    with pytest.raises(RunFailed, match="has used up its 3 retries"):
        await asked.run("How is Paris?")


async def test_agents_at_the_same_time_do_not_answer_for_each_other():
    diligent = agent(calls("1", "Paris"), "Sunny.")
    lazy = agent(*["Sunny."] * 4)
    shared = requirer({"tools": ["lookup"]}, calls=CallLog())
    for made in (diligent, lazy):
        made.registry.register(shared, *BUILTINS["require_tools"].points, lane="gate", name="s")
    answer, failure = await asyncio.gather(diligent.run("?"), lazy.run("?"), return_exceptions=True)
    assert answer.content == "Sunny."
    assert isinstance(failure, RunFailed)
