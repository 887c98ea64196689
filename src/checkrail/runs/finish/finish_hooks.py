"""Finish hooks that have a delivery of their own: how each is called, and called again."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from typing import TYPE_CHECKING, Any

from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.runs.finish.finisher import AGENT, is_external

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook
    from checkrail.engine.records import HookRecord
    from checkrail.runs.admit.hook_runs import HookRuns

log = logging.getLogger("checkrail.runs")


class UnreachedError(Exception):
    """A hook outside could not be reached, and is called later."""


class FinishHooks:
    """Calls hooks outside when a run has ended."""

    def __init__(self, hook_runs: HookRuns) -> None:
        self._hook_runs = hook_runs
        self._following: set[asyncio.Task[Any]] = set()

    async def call_hook(
        self, scope: Scope, key: str, point: str, value: Any, delivery_id: str
    ) -> None:
        """Call one hook; one that is an agent was called when its run exists."""
        bound = next((bound for bound in scope.bound_hooks(point) if bound.key == key), None)
        if bound is None:
            log.warning("the finish hook %s is gone, and is not told", key)
            return
        seen: list[HookRecord] = []
        alone = _scope_of_one(scope, bound, seen)
        if bound.spec.target_type != AGENT:
            await _fire_alone(alone, point, value)
            _check_finish_hook(bound, seen)
            return
        loop = asyncio.get_running_loop()
        exists = asyncio.Event()
        self._hook_runs.call_when_exists(delivery_id, exists.set)
        following = loop.create_task(self._fire_and_check(alone, point, value, bound, seen))
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

    async def _fire_and_check(
        self, alone: Scope, point: str, value: Any, bound: BoundHook, seen: list[HookRecord]
    ) -> None:
        await _fire_alone(alone, point, value)
        _check_finish_hook(bound, seen)

    async def close(self) -> None:
        """Follow no run any more; those runs go on."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)


def _scope_of_one(scope: Scope, bound: BoundHook, seen: list[HookRecord]) -> Scope:
    """Return a scope with one hook only; an agent has the time that its run has."""
    spec = bound.spec
    if spec.target_type == AGENT:
        spec = dataclasses.replace(spec, timeout=math.inf)
    level = HookRegistry(
        [*scope.sinks, seen.append], history=scope.history, label=bound.level.label
    )
    level.swap([spec])
    return Scope((level,), scope.context, scope.budget, (None,))


async def _fire_alone(alone: Scope, point: str, value: Any) -> None:
    await alone.fire_detached(point, value)
    await alone.outermost.aclose()


def _check_finish_hook(bound: BoundHook, seen: list[HookRecord]) -> None:
    """Log how a finish hook failed; raise `UnreachedError` if it could not be reached."""
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
    if failed.failure == "unreachable" and is_external(bound):
        raise UnreachedError(failed.error or "it could not be reached")
