"""Checkrail's agent loop against one written by hand, and what hooks add to a run of it."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

from checkrail import Agent, AssistantMessage, HookRegistry, ModelRequest, ToolCall, tool
from checkrail.testing import ScriptedModel
from measure import BARE, Measured, Timing
from scripted_run import (
    ANSWER,
    ITEMS,
    MODEL_SECONDS,
    QUERY,
    TOOL_SECONDS,
    Once,
    bare_run,
    compare_loops,
    lookup,
    wanted,
)

POINTS = (
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
    "query_end",
)
HOOKS = 10
PLAIN = "checkrail"
HOOKED = f"checkrail, {HOOKS} hooks at every point"
STREAMED = "checkrail, streaming"

A_TURN = 1 + len(ITEMS)
"""Messages that an iteration adds: an answer, and each result."""
USAGE = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}

WALL_ROUNDS = 61


def measure_loop() -> Measured:
    plain, hooked = whole(), whole(hooks())
    return Measured(
        version=None,
        sections={
            "loops": compare_loops(
                {BARE: bare_run, PLAIN: plain, HOOKED: hooked, STREAMED: streamed()}
            ),
            "hooked_cpu": compare_loops({PLAIN: plain, HOOKED: hooked}, hooks=HOOKS),
            "hooked_wall": asyncio.run(
                compare_on_the_wall(whole(waits=True), whole(hooks(), waits=True))
            ),
        },
    )


def whole(registry: HookRegistry | None = None, *, waits: bool = False) -> Once:
    agent, model = _agent(registry, waits=waits)

    async def once() -> object:
        response = await agent.run(QUERY)
        model.requests.clear()
        return response.content

    return once


def streamed() -> Once:
    agent, model = _agent(None, waits=False)

    async def once() -> object:
        stream = agent.stream(QUERY)
        async for _ in stream:
            pass
        model.requests.clear()
        return stream.response.content

    return once


def hooks() -> HookRegistry:
    registry = HookRegistry()
    for point in POINTS:
        for number in range(HOOKS):
            registry.register(_make_hook(), point, name=f"{point}_{number}")
    return registry


async def compare_on_the_wall(plain: Once, hooked: Once) -> list[Timing]:
    """Time a run that mostly waits, without and with hooks, another one first in each round."""
    spent: dict[Once, list[int]] = {plain: [], hooked: []}
    order = [plain, hooked]
    for _ in range(WALL_ROUNDS):
        order.reverse()
        for once in order:
            spent[once].append(await _spend(once))
    ratios = [more / base for base, more in zip(*spent.values(), strict=True)]
    return [
        Timing(PLAIN, HOOKS, statistics.median(spent[plain]), 1.0),
        Timing(HOOKED, HOOKS, statistics.median(spent[hooked]), statistics.median(ratios)),
    ]


async def _spend(once: Once) -> int:
    started = perf_counter_ns()
    said = await once()
    spent = perf_counter_ns() - started
    assert said == ANSWER, said
    return spent


def _agent(registry: HookRegistry | None, *, waits: bool) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(_answer_later if waits else _answer)
    look = tool(_lookup_later, name="lookup") if waits else tool(lookup)
    return Agent(model, tools=[look], hooks=registry), model


async def _answer(request: ModelRequest) -> AssistantMessage:
    calls = [
        ToolCall(id=call_id, name="lookup", args=args)
        for call_id, args in wanted((len(request.messages) - 1) // A_TURN)
    ]
    return AssistantMessage("" if calls else ANSWER, tool_calls=calls, usage=USAGE)


async def _answer_later(request: ModelRequest) -> AssistantMessage:
    await asyncio.sleep(MODEL_SECONDS)
    return await _answer(request)


async def _lookup_later(item: str) -> str:
    """Say what an item costs."""
    await asyncio.sleep(TOOL_SECONDS)
    return await lookup(item)


def _make_hook() -> Callable[[object, object], Awaitable[None]]:
    async def hook(event: object, value: object) -> None:
        return None

    return hook


if __name__ == "__main__":
    measure_loop().print()
