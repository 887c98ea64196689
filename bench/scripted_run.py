"""The run that every agent loop here makes, and the same run written by hand.

The model asks for two look-ups at a time, three times, and then answers. It can tell how
far a conversation has come, and so a run that ends with `ANSWER` has made all of them.
Standard library only, so that a peer's own environment can run it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from measure import BARE, Measured, Run, Timing, compare

Once = Callable[[], Awaitable[object]]
"""Makes one run, and gives its answer."""

ITERATIONS = 3
ITEMS = ("tea", "rice")
QUERY = "What do tea and rice cost?"
ANSWER = "Tea costs 4 euros and rice 4 euros."

AT_A_TIME = 5
"""Runs in a row: the first is slower, as the caches are still full of what ran before."""

MODEL_SECONDS = 0.010
TOOL_SECONDS = 0.001
"""What an answer and a look-up take where a run is to wait, as real ones do."""


async def lookup(item: str) -> str:
    """Say what an item costs."""
    return "4 euros"


def wanted(iteration: int) -> list[tuple[str, dict[str, str]]]:
    """The calls, by id and arguments, that the model makes after so many iterations."""
    if iteration == ITERATIONS:
        return []
    return [(f"call_{iteration}_{item}", {"item": item}) for item in ITEMS]


async def bare_run() -> str:
    """The loop that people write themselves: nothing is checked and nothing is kept."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUERY}]
    while True:
        answer = await _answer(messages)
        messages.append(answer)
        calls = answer["tool_calls"]
        if not calls:
            return str(answer["content"])
        results = await asyncio.gather(*(lookup(**args) for _, args in calls))
        messages += [
            {"role": "tool", "tool_call_id": call_id, "content": result}
            for (call_id, _), result in zip(calls, results, strict=True)
        ]


def compare_loops(loops: Mapping[str, Once], *, hooks: int = 0) -> list[Timing]:
    """Give the CPU time of a run; the first loop is what the others are held against."""
    timings = compare({name: _repeated(once) for name, once in loops.items()}, hooks=hooks)
    return [replace(t, dispatch_ns=t.dispatch_ns / AT_A_TIME) for t in timings]


def print_loop(package: str, name: str, once: Once) -> None:
    """Measure a peer's loop with the bare one beside it, and print what was found."""
    Measured(version(package), {"loops": compare_loops({BARE: bare_run, name: once})}).print()


def _repeated(once: Once) -> Run:
    async def run(times: int) -> None:
        for _ in range(times * AT_A_TIME):
            said = await once()
            assert said == ANSWER, said

    return run


async def _answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    calls = wanted((len(messages) - 1) // (1 + len(ITEMS)))
    content = "" if calls else ANSWER
    return {"role": "assistant", "content": content, "tool_calls": calls}
