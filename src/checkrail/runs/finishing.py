"""Finish hooks: who is told of a run's end, and each of those outside by a delivery of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound
    from checkrail.engine.records import HookRecord
    from checkrail.runs.hook_runs import HookRuns
    from checkrail.runs.parts import Parts

log = logging.getLogger("checkrail.runs")

AGENT = "agent"
OUTSIDE = (AGENT, "http")
"""Types of hooks whose delivery may have to be tried again, whatever became of the others."""


class UnreachedError(Exception):
    """A hook outside could not be reached, and is to be told later."""


def _standing(scope: Scope, point: str) -> Iterator[Bound]:
    """Yield the hooks at a point."""
    chain = scope.chain(point)
    if chain is not None:
        for _, entries in chain.lanes:
            yield from (entry[0] for entry in entries)
        yield from (entry[0] for entry in chain.background)


def shares(parts: Parts, row: Mapping[str, Any], point: str) -> list[dict[str, Any]]:
    """Say for whom a delivery is: one for each hook outside, and one for all the others.

    One in the background has its own too, which is owed until the hook has ended.
    """
    hooks = [*_standing(parts.scope(row), point)]
    own = [bound.key for bound in hooks if _is_outside(bound) or bound.spec.background]
    found: list[dict[str, Any]] = [{"hook": key} for key in own]
    if len(own) < len(hooks):
        found.insert(0, {"without": own})
    return found


def _is_outside(bound: Bound) -> bool:
    return bound.spec.target_type in OUTSIDE


class FinishHooks:
    """Tells hooks outside of a run's end."""

    def __init__(self, hook_runs: HookRuns) -> None:
        self._hook_runs = hook_runs
        self._following: set[asyncio.Task[Any]] = set()

    async def tell(self, scope: Scope, key: str, point: str, value: Any, delivery_id: str) -> None:
        """Tell one hook; one that is an agent has been told when its run exists."""
        bound = next((bound for bound in _standing(scope, point) if bound.key == key), None)
        if bound is None:
            log.warning("the finish hook %s is gone, and is not told", key)
            return
        seen: list[HookRecord] = []
        alone = _alone(scope, bound, seen)
        if bound.spec.target_type != AGENT:
            await _told(alone, point, value)
            _judge(bound, seen)
            return
        loop = asyncio.get_running_loop()
        exists = asyncio.Event()
        self._hook_runs.when_exists(delivery_id, exists.set)
        following = loop.create_task(self._followed(alone, point, value, bound, seen))
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        existing = loop.create_task(exists.wait())
        try:
            await asyncio.wait({following, existing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hook_runs.forget(delivery_id)
            existing.cancel()
        if not exists.is_set():
            following.result()

    async def _followed(
        self, alone: Scope, point: str, value: Any, bound: Bound, seen: list[HookRecord]
    ) -> None:
        await _told(alone, point, value)
        _judge(bound, seen)

    async def close(self) -> None:
        """Follow no run any more; those runs go on."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)


def _alone(scope: Scope, bound: Bound, seen: list[HookRecord]) -> Scope:
    """Return a scope with one hook only; an agent has the time that its run has."""
    spec = bound.spec
    if spec.target_type == AGENT:
        spec = dataclasses.replace(spec, timeout=math.inf)
    level = HookRegistry(
        [*scope.sinks, seen.append], history=scope.history, label=bound.level.label
    )
    level.swap([spec])
    return Scope((level,), scope.context, scope.budget, (None,))


async def _told(alone: Scope, point: str, value: Any) -> None:
    await alone.fire(point, value)
    await alone.outermost.aclose()


def _judge(bound: Bound, seen: list[HookRecord]) -> None:
    """Say how it went; what could not be reached is tried again."""
    failed = next((record for record in seen if record.failure is not None), None)
    if failed is None:
        return
    say = log.error if "block" in bound.spec.on_error.values() else log.warning
    say(
        "finish hook %s of run %s failed: %s",
        bound.spec.name,
        failed.ids.get("run_id"),
        failed.error,
    )
    if failed.failure == "unreachable" and _is_outside(bound):
        raise UnreachedError(failed.error or "it could not be reached")
