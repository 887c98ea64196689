"""Runners: processes elsewhere that claim runs, say what becomes of them, and ask at points."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from checkrail.engine.records import uuid7
from checkrail.runs import jsons
from checkrail.runs.errors import RequestError
from checkrail.runs.outside import claims, leases, reports
from checkrail.runs.outside.leases import Lease
from checkrail.runs.outside.points import Reached, decide
from checkrail.runs.outside.waiting import Ticket, Waiting
from checkrail.runs.parts import Parts
from checkrail.runs.recovery import give_up
from checkrail.store import runs, workers
from checkrail.store.database import Reads, Tx
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row
from checkrail.store.tables import LAST_CHANCE

T = TypeVar("T")

POLL = 25.0
"""The most seconds that a poll is held open while there is nothing to do."""

_AT_ONCE = 100  # runs that are made ready


@dataclass(frozen=True, slots=True)
class Asked:
    """What a runner says when it asks: how many more runs it can take, and which it has.

    Of those that it is `stopping` it has been told.
    """

    room: int
    holding: frozenset[str] = frozenset()
    stopping: frozenset[str] = frozenset()


@dataclass(slots=True)
class Found:
    """What a poll has found: runs for the runner, and runs of its that are to be stopped."""

    claimed: list[Row] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    stops: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.stops)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _ability(runner: Row, asked: Asked) -> Hashable:
    """Return what a runner can take: those that can take the same are woken one after the other."""
    told = runner["told"]
    if asked.room <= 0:  # only what its own runs wait for
        return str(runner["worker_id"])
    return tuple(tuple(sorted(told[name])) for name in ("kinds", "agents", "tags"))


async def _woken(ticket: Ticket, seconds: float, gone: asyncio.Future[Any]) -> None:
    """Wait until a poll is to look again, its runner is gone, or it has waited long enough."""
    waking = asyncio.get_running_loop().create_task(ticket.wait())
    waits: set[asyncio.Future[Any]] = {waking, gone}
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waking.cancel()


class Runners:
    """Answers runners. All that it knows of them is in the database."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting = Waiting(parts.hub)
        self._polls: dict[str, asyncio.Future[None]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closing = False

    @property
    def _patience(self) -> float:
        """How long a poll is held open: it beats when it comes, and not while it waits."""
        return min(POLL, self._parts.settings.lease * 2 / 3)

    async def register(self, owner: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Enter a runner, and tell it under which id and how often it is to be heard of."""
        parts, runner_id = self._parts, uuid7()
        await parts.database.write(lambda tx: leases.entered(tx, parts, runner_id, owner, told))
        parts.alone = False
        return {
            "runner_id": runner_id,
            "lease_seconds": parts.settings.lease,
            "beat_seconds": parts.settings.beat,
            "poll_seconds": self._patience,
        }

    async def listed(self) -> list[dict[str, Any]]:
        """Return all who are heard of, with the runs that they hold."""
        now = self._parts.database.now()

        def find(reads: Reads) -> list[tuple[Row, list[str]]]:
            found = workers.alive(reads, now)
            return [(row, runs.held_ids(reads, row["worker_id"])) for row in found]

        return [
            {
                "runner_id": row["worker_id"],
                "kind": row["kind"],
                "name": (row["told"] or {}).get("name") or row["host"],
                "host": row["host"],
                "tags": (row["told"] or {}).get("tags", []),
                "agents": (row["told"] or {}).get("agents"),
                "capacity": (row["told"] or {}).get("capacity"),
                "run_ids": held,
                "started_at": row["started_at"],
            }
            for row, held in await self._parts.database.read(find)
        ]

    async def _write(self, job: Callable[[Tx], T]) -> T:
        """Write something; what is refused is raised here, where it spoils nobody else's write."""

        def done(tx: Tx) -> T | RequestError:
            try:
                return job(tx)
            except RequestError as refused:  # before anything was written
                return refused

        answer = await self._parts.database.write(done)
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def known(self, runner_id: str, owner: str) -> Row:
        """Find a runner of somebody's, or raise that there is none."""
        return await self._parts.database.read(
            lambda reads: leases.known(reads, self._parts, runner_id, owner)
        )

    async def poll(self, runner: Row, asked: Asked, gone: asyncio.Future[Any]) -> Found:
        """Wait until there is something to do for a runner, but not for long.

        Whoever is `gone` gets nothing: what was claimed for it is given back.
        """
        runner_id = runner["worker_id"]
        if (older := self._polls.get(runner_id)) is not None:
            _settle(older)  # nobody waits for that answer any more
        lock = self._locks.setdefault(runner_id, asyncio.Lock())
        async with lock:
            over = self._polls[runner_id] = asyncio.get_running_loop().create_future()
            gone.add_done_callback(lambda _gone: _settle(over))
            try:
                return await self._polled(runner, asked, over)
            finally:
                if self._polls.get(runner_id) is over:
                    del self._polls[runner_id]

    async def _polled(self, runner: Row, asked: Asked, gone: asyncio.Future[None]) -> Found:
        until = time.monotonic() + self._patience
        await self._write(lambda tx: leases.beat(tx, self._parts, runner["worker_id"]))
        with self._waiting.entered(_ability(runner, asked)) as ticket:
            while True:
                ticket.looks()
                found = await self._write(partial(self._look, runner=runner, asked=asked))
                if found is None:
                    await self._parts.reload_agents()
                    ticket.wake()
                    continue
                if found.claimed:
                    ticket.found()
                if gone.done() and found.claimed:
                    await self._give_back(found.claimed)
                    return Found()
                left = min(until - time.monotonic(), self._parts.settings.lease / 3)
                if found or gone.done() or self._closing or left <= 0:
                    return found
                await _woken(ticket, left, gone)

    def _look(self, tx: Tx, runner: Row, asked: Asked) -> Found | None:
        """Claim what there is for a runner; None: the agents have to be brought up to date."""
        parts, runner_id, now = self._parts, runner["worker_id"], tx.time()
        if not parts.is_current(tx, parts.catalogue.version):
            return None
        known = leases.known(tx, parts, runner_id, runner["owner"])
        if not known["alive"]:  # it is frozen, or this server was: it gets runs when it has beaten
            return Found()
        runs.make_ready(tx, _AT_ONCE, now, parts.has_start_hooks)
        can = {
            "fits": claims.fitting(parts, runner["told"]),
            "has_start_hooks": parts.has_start_hooks,
        }
        held = runs.held_by(tx, runner_id)
        found = Found()
        if asked.room > 0:
            found.claimed += runs.claim(tx, runner_id, asked.room, now, starts=False, **can)
        if len(found.claimed) < asked.room and not any(row["lost"] >= LAST_CHANCE for row in held):
            found.claimed += runs.claim_suspect(
                tx, runner_id, now, fits=can["fits"], executes_only=True
            )
        if held:
            found.claimed += runs.claim_beneath(tx, runner_id, now, **can)
        # What it should hold and does not was lost on the way to it.
        strays = [row for row in held if row["run_id"] not in asked.holding]
        found.runs = [claims.begin(tx, parts, row) for row in (*strays, *found.claimed)]
        cancelled = [row for row in held if row["cancel"] is not None]
        found.stops = [
            {name: row[name] for name in ("run_id", "attempt", "cancel")}
            for row in cancelled
            if row["run_id"] in asked.holding.difference(asked.stopping)
        ]
        return found

    async def _give_back(self, rows: Sequence[Row]) -> None:
        def back(tx: Tx) -> None:
            for row in rows:
                leases.give_back(tx, row)

        await self._parts.database.write(back)

    def look(self) -> None:
        """Have those who wait look again: a run is to be stopped, or this server stops."""
        self._waiting.wake_all()

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._closing = True
        self._waiting.close()
        self.look()

    async def beat(self, runner_id: str, run_id: str, attempt: int) -> dict[str, Any]:
        """Renew a runner's lease, and tell it of this run and of all others that it holds."""

        def renew(tx: Tx) -> list[Row]:
            leases.beat(tx, self._parts, runner_id)
            return runs.held_by(tx, runner_id)

        rows = await self._write(renew)
        held = {row["run_id"]: row for row in rows}
        if run_id not in held or held[run_id]["attempt"] != attempt:
            raise leases.lost(run_id)
        told = {
            name: {"attempt": row["attempt"], "cancel": row["cancel"]} for name, row in held.items()
        }
        return {"cancel": held[run_id]["cancel"], "runs": told}

    async def tell(
        self, lease: Lease, told: Sequence[RunEvent], usage: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what a run tells, and what its models have used so far."""
        limits = self._parts.settings.limits

        def keep(tx: Tx) -> None:
            row = leases.held(tx, lease)
            reports.keep_events(tx, row, told, limits)
            if usage:
                runs.change_owned(tx, *lease, usage=jsons.dumps(usage))

        await self._write(keep)

    async def decide(self, lease: Lease, reached: Reached) -> dict[str, Any]:
        """Call the hooks at a point of a run, and give what they decided."""
        row = await self._parts.read_current(lambda reads: leases.held(reads, lease))
        return await decide(self._parts, row, reached)

    async def report(self, lease: Lease, kept: Mapping[str, Any]) -> None:
        """Take what came of a run; its end is a server's."""
        await self._write(lambda tx: reports.keep(tx, lease, kept))

    async def leave(self, lease: Lease, kept: Mapping[str, Any]) -> None:
        """Take a run that is left until somebody has answered, with where it is left."""
        await self._write(lambda tx: reports.leave(tx, lease, kept))

    async def deregister(self, runner_id: str, holding: frozenset[str]) -> None:
        """Take back what a runner holds, and forget it; all but `holding` it never had."""

        def leave(tx: Tx) -> None:
            for row in runs.held_by(tx, runner_id):
                if row["run_id"] in holding:
                    give_up(tx, self._parts, row, lost=False)
                else:
                    leases.give_back(tx, row)
            workers.remove(tx, runner_id)

        await self._write(leave)
