"""pydantic-ai: N `before_tool_execute` hooks on one `Hooks` capability.

What is timed is the line that its tool manager runs before every tool,
`args = await cap.before_tool_execute(ctx, call=call, tool_def=tool_def, args=args)`.
`cap` is the root capability of a run, `Hooks` combined with those that every agent
has, and `ctx` the context of that run: both are taken from a real run of a test model.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition

from measure import Run, print_peer


def build(count: int) -> Mapping[str, Run]:
    return {
        "pydantic-ai Hooks": before_tool_execute(count, timeout=None),
        "pydantic-ai Hooks, timeout": before_tool_execute(count, timeout=5.0),
    }


def before_tool_execute(count: int, timeout: float | None) -> Run:
    hooks = Hooks[None]()
    for _ in range(count):
        hooks.on.before_tool_execute(timeout=timeout)(make_hook())
    ctx = context_of_a_run(Agent(TestModel(), capabilities=[hooks]))
    cap = ctx.root_capability
    call, tool_def = ToolCallPart("lookup", {}), ToolDefinition(name="lookup")
    args: dict[str, Any] = {}

    async def run(times: int) -> None:
        for _ in range(times):
            await cap.before_tool_execute(ctx, call=call, tool_def=tool_def, args=args)

    return run


def make_hook() -> Any:
    async def hook(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return args

    return hook


def context_of_a_run(agent: Agent[None, str]) -> RunContext[None]:
    seen: list[RunContext[None]] = []

    @agent.tool
    def lookup(ctx: RunContext[None]) -> str:
        seen.append(ctx)
        return "found"

    agent.run_sync("Look it up")
    return seen[0]


if __name__ == "__main__":
    print_peer("pydantic-ai-slim", build)
