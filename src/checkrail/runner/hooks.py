"""The hooks of a run on a runner: the server's, which are asked where they are."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

from checkrail.engine.asks import AnswerLater, Question, is_inside
from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Event, dispatch_of
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.outcomes import UNSET, Continue, Outcome
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import plain
from checkrail.runs.remote.verdicts import IDS, RemoteVerdict, parse_verdict
from checkrail.store.runs import Run

PREFIX = "server:"

Ask = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks the server about a point, and gives its answer."""

Broken = Callable[[str], object]
"""Is told that hooks cannot be asked, so that nothing of the run may go on."""


class RemoteHooks:
    """Stands at every point where the server has hooks, and has their whole verdict at once.

    What they redacted, changed and decided is said by three hooks in a row, so that each has the
    effect here that it has there.
    """

    def __init__(self, points: Mapping[str, str], ask: Ask, broken: Broken) -> None:
        self.registry = HookRegistry(max_retries=sys.maxsize)
        self._blocked_by: dict[HookPoint, str] = {}  # the last one at each point
        self._failed_by: dict[HookPoint, str] = {}  # the first one: it has ended the run
        self.leaves = False  # whether the body is one that can be entered again
        self._approvals: dict[str, Mapping[str, Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._ask = ask
        self._broken = broken
        self._told: dict[int, RemoteVerdict] = {}
        for point, lane in points.items():
            self._register_point(HookPoint(point), Lane(lane))

    def _register_point(self, point: HookPoint, lane: Lane) -> None:
        steps: tuple[Callable[..., Any], ...] = (
            self._fire_remote,
            self._apply_change,
            self._apply_decision,
        )
        if lane is Lane.OBSERVE:
            steps = (self._observe,)
        elif lane is Lane.GATE:
            steps = (self._gate,)
        for number, step in enumerate(steps):
            self.registry.register(
                step,
                point,
                name=f"{PREFIX}{point}:{number}",
                lane=lane,
                priority=number,
                timeout=math.inf,
                max_retries=sys.maxsize,
            )

    async def _observe(self, event: Event[Any]) -> None:
        await self._fetch_verdict(event)

    async def _gate(self, event: Event[Any]) -> Outcome | None:
        return (await self._fetch_verdict(event)).to_outcome()

    async def _fire_remote(self, event: Event[Any]) -> Outcome | None:
        told = await self._fetch_verdict(event)
        if told.approval is not None:
            return told.to_outcome()
        self._told[_dispatch_key(event)] = told
        return None if told.redacted is UNSET else Continue(told.redacted, redacted=True)

    def _apply_change(self, event: Event[Any]) -> Outcome | None:
        told = self._told[_dispatch_key(event)]
        return None if told.subject is UNSET else Continue(told.subject)

    def _apply_decision(self, event: Event[Any]) -> Outcome | None:
        return self._told.pop(_dispatch_key(event)).to_outcome()

    async def suspend_for_answer(self, question: Question) -> NoReturn:
        """Suspend the run: the server has put the question to somebody."""
        later = AnswerLater(question.reason)
        later.told = self._approvals.pop(question.reason)
        raise later

    def find_server_hook(self, name: str, *, failed: bool) -> str | None:
        """Return the server's hook that ended a run, by the name of the one that stood for it."""
        point = HookPoint(name.removeprefix(PREFIX).partition(":")[0])
        return (self._failed_by if failed else self._blocked_by).get(point)

    async def _fetch_verdict(self, event: Event[Any]) -> RemoteVerdict:
        if asyncio.get_running_loop() is self._loop:
            return await self._request_verdict(event)
        asking = asyncio.run_coroutine_threadsafe(self._request_verdict(event), self._loop)
        return await asyncio.wrap_future(asking)

    async def _request_verdict(self, event: Event[Any]) -> RemoteVerdict:
        try:
            told = parse_verdict(
                event.point, await self._ask(self._render_request(event)), event.value
            )
        except (CheckrailError, ValueError, TypeError, KeyError) as error:
            self._broken(f"the hooks at {event.point} could not be asked: {error}")
            await self._loop.create_future()  # the run is stopped, and nothing of it goes on
            raise
        if told.hook is not None and told.decision is Decision.BLOCK:
            self._blocked_by[event.point] = told.hook
        if told.hook is not None and told.decision is Decision.FAIL:
            self._failed_by.setdefault(event.point, told.hook)
        if told.approval is not None:
            self._approvals[told.reason] = told.approval
        return told

    def _render_request(self, event: Event[Any]) -> dict[str, Any]:
        dispatch = dispatch_of(event)
        ids = {name: getattr(event, name) for name in IDS}
        ids |= {name: event.metadata.get(name) for name in MODEL_NAMES}
        return {
            "point": str(event.point),
            "value": plain(event.value),
            "ids": {name: said for name, said in ids.items() if said is not None},
            "levels": [level.label for level in dispatch.scope.levels if level.label],
            "leaves": self.leaves and not is_inside(dispatch),
        }


def _dispatch_key(event: Event[Any]) -> int:
    return id(dispatch_of(event))


def run_ids(row: Run) -> dict[str, Any]:
    """Return the ids of a run, as events carry them."""
    same = ("run_id", "session_id", "parent_run_id", "thread_id", "assistant_id", "agent_name")
    metadata = {
        "config": row.kwargs.get("config") or {},
        "graph_id": row.agent_name,
        "run_metadata": row.metadata,
    }
    return {
        **{name: getattr(row, name) for name in same},
        "user": row.user,
        "attempt": row.attempt,
        "metadata": metadata,
    }
