"""The hooks of a run on a runner: the server's, which are asked where they are."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

from checkrail.engine.asks import AnswerLater, Question, is_inside
from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Event
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.outcomes import UNSET, Continue, Outcome
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import plain
from checkrail.runs.outside.verdicts import IDS, Told, heard

PREFIX = "server:"

Ask = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Asks the server about a point, and gives its answer."""

Broken = Callable[[str], object]
"""Is told that hooks cannot be asked, so that nothing of the run may go on."""


class RemoteHooks:
    """Stands at every point where the server has hooks, and has their whole verdict at once.

    What they redacted, changed and decided is said by three hooks in a row, so that each has the
    effect here that it has there. `named` are those who decided, by what they gave as a reason.
    """

    def __init__(self, points: Mapping[str, str], ask: Ask, broken: Broken) -> None:
        self.registry = HookRegistry(max_retries=sys.maxsize)
        self.named: dict[str, str] = {}
        self.leaves = False  # whether the body is one that can be entered again
        self._approvals: dict[str, Mapping[str, Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._ask = ask
        self._broken = broken
        self._told: dict[int, Told] = {}
        for point, lane in points.items():
            self._stand(HookPoint(point), Lane(lane))

    def _stand(self, point: HookPoint, lane: Lane) -> None:
        steps: tuple[Callable[..., Any], ...] = (self._asked, self._changed, self._decided)
        if lane is Lane.OBSERVE:
            steps = (self._observed,)
        elif lane is Lane.GATE:
            steps = (self._gated,)
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

    async def _observed(self, event: Event[Any]) -> None:
        await self._verdict(event)

    async def _gated(self, event: Event[Any]) -> Outcome | None:
        return (await self._verdict(event)).outcome()

    async def _asked(self, event: Event[Any]) -> Outcome | None:
        told = await self._verdict(event)
        if told.approval is not None:
            return told.outcome()
        self._told[_key(event)] = told
        return None if told.redacted is UNSET else Continue(told.redacted, redacted=True)

    def _changed(self, event: Event[Any]) -> Outcome | None:
        told = self._told[_key(event)]
        return None if told.subject is UNSET else Continue(told.subject)

    def _decided(self, event: Event[Any]) -> Outcome | None:
        return self._told.pop(_key(event)).outcome()

    async def desk(self, question: Question) -> NoReturn:
        """Leave the run: the server has put the question to somebody."""
        later = AnswerLater(question.reason)
        later.told = self._approvals.pop(question.reason)
        raise later

    async def _verdict(self, event: Event[Any]) -> Told:
        if asyncio.get_running_loop() is self._loop:
            return await self._heard(event)
        asking = asyncio.run_coroutine_threadsafe(self._heard(event), self._loop)
        return await asyncio.wrap_future(asking)

    async def _heard(self, event: Event[Any]) -> Told:
        try:
            told = heard(event.point, await self._ask(self._request(event)), event.value)
        except (CheckrailError, ValueError, TypeError, KeyError) as error:
            self._broken(f"the hooks at {event.point} could not be asked: {error}")
            await self._loop.create_future()  # the run is stopped, and nothing of it goes on
            raise
        if told.hook is not None:
            self.named[told.reason] = told.hook
        if told.approval is not None:
            self._approvals[told.reason] = told.approval
        return told

    def _request(self, event: Event[Any]) -> dict[str, Any]:
        d = event._d  # noqa: SLF001 - only the engine knows the agents at work, and whose work it is
        ids = {name: getattr(event, name) for name in IDS}
        ids |= {name: event.metadata.get(name) for name in MODEL_NAMES}
        return {
            "point": str(event.point),
            "value": plain(event.value),
            "ids": {name: said for name, said in ids.items() if said is not None},
            "levels": [level.label for level in d.scope.levels if level.label],
            "leaves": self.leaves and not is_inside(d),
        }


def _key(event: Event[Any]) -> int:
    return id(event._d)  # noqa: SLF001 - what tells one dispatch from another


def ids_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids of a run, as events carry them."""
    same = ("run_id", "session_id", "parent_run_id", "thread_id", "assistant_id", "agent_name")
    metadata = {
        "config": row["kwargs"].get("config") or {},
        "graph_id": row["agent_name"],
        "run_metadata": row["metadata"],
    }
    return {
        **{name: row[name] for name in same},
        "user": row["user"],
        "attempt": row["attempt"],
        "metadata": metadata,
    }
