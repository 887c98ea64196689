"""Runners: processes elsewhere that claim runs, say what becomes of them, and ask at points."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from checkrail.runs import jsons
from checkrail.runs.errors import RequestError
from checkrail.runs.events.hub import WORK, Hub
from checkrail.runs.recovery import give_up
from checkrail.runs.remote import claims, leases, reports
from checkrail.runs.remote.leases import RunLease
from checkrail.runs.remote.points import ReachedPoint, fire_remote_point
from checkrail.runs.services import RunServices, has_tags
from checkrail.store import runs, workers
from checkrail.store.database import Reads, Tx
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run
from checkrail.store.tables import LAST_CHANCE
from checkrail.store.workers import Worker
from checkrail.times import uuid7


class PollTicket:
    """The place of one poll in its line."""

    def __init__(self, line: PollLine) -> None:
        self._line = line
        self._woken = asyncio.Event()

    @property
    def is_woken(self) -> bool:
        """Whether there may be something to do that it has not looked for yet."""
        return self._woken.is_set()

    def wake(self) -> None:
        """Have it look."""
        self._woken.set()

    def mark_looking(self) -> None:
        """Note that it looks now."""
        self._woken.clear()

    def wake_follower(self) -> None:
        """Wake the next one: something was found, and there may be more."""
        self._line.wake_next(self)

    async def wait(self) -> None:
        """Wait until it is to look."""
        await self._woken.wait()


class PollLine(OrderedDict[PollTicket, None]):
    """Polls that can do the same, the longest waiting first."""

    def wake_next(self, but: PollTicket | None = None) -> None:
        """Wake the first of them."""
        for ticket in self:
            if ticket is not but:
                ticket.wake()
                return


class WaitingPolls:
    """All polls that wait in this process."""

    def __init__(self, hub: Hub) -> None:
        self._lines: dict[Hashable, PollLine] = {}
        self._stop = hub.listen(WORK, self.wake_lines)

    def wake_lines(self) -> None:
        """Wake one poll of each line: there may be work, and it calls others if there is."""
        for line in self._lines.values():
            line.wake_next()

    def wake_all(self) -> None:
        """Have every poll look."""
        for line in self._lines.values():
            for ticket in line:
                ticket.wake()

    @contextmanager
    def enter_line(self, ability: Hashable) -> Iterator[PollTicket]:
        """Stand in the line of those that can do the same."""
        line = self._lines.setdefault(ability, PollLine())
        ticket = PollTicket(line)
        line[ticket] = None
        try:
            yield ticket
        finally:
            del line[ticket]
            if ticket.is_woken:  # it leaves without having looked
                line.wake_next()
            if not line and self._lines.get(ability) is line:
                del self._lines[ability]

    def close(self) -> None:
        """Listen no more."""
        self._stop()


KINDS = ("graph", "autonomous", "procedural")

T = TypeVar("T")

POLL = 25.0
"""The most seconds that a poll is held open while there is nothing to do."""

_AT_ONCE = 100  # runs that are made ready


@dataclass(frozen=True, slots=True)
class PollRequest:
    """A runner's poll: how many more runs it can take, and which it has.

    Of those that it is `stopping` it has been told.
    """

    room: int
    holding: frozenset[str] = frozenset()
    stopping: frozenset[str] = frozenset()


@dataclass(slots=True)
class PollResult:
    """The result of a poll: runs for the runner, and runs of its that are to be cancelled."""

    claimed: list[Run] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    stops: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.stops)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _ability_key(runner: Worker, asked: PollRequest) -> Hashable:
    """Return what a runner can take: those that can take the same are woken one after the other."""
    told = runner.registration
    if asked.room <= 0:  # only what its own runs wait for
        return str(runner.worker_id)
    return tuple(tuple(sorted(told[name])) for name in ("kinds", "agents", "tags"))


async def _wait_for_work(ticket: PollTicket, seconds: float, gone: asyncio.Future[Any]) -> None:
    """Wait until a poll is to look again, its runner is gone, or it has waited long enough."""
    waking = asyncio.get_running_loop().create_task(ticket.wait())
    waits: set[asyncio.Future[Any]] = {waking, gone}
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waking.cancel()


class Runners:
    """Serves runners. All that it knows of them is in the database."""

    def __init__(self, parts: RunServices, note_others: Callable[[], None]) -> None:
        self._parts = parts
        self._note_others = note_others
        self._waiting = WaitingPolls(parts.hub)
        self._polls: dict[str, asyncio.Future[None]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closing = False

    @property
    def _poll_seconds(self) -> float:
        """How long a poll is held open: it beats when it comes, and not while it waits."""
        return min(POLL, self._parts.settings.lease * 2 / 3)

    async def register(self, owner: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Enter a runner, and return its id and how often it has to report."""
        parts, runner_id = self._parts, uuid7()
        await parts.database.write(
            lambda tx: leases.insert_runner(tx, parts, runner_id, owner, told)
        )
        self._note_others()
        return {
            "runner_id": runner_id,
            "lease_seconds": parts.settings.lease,
            "beat_seconds": parts.settings.beat,
            "poll_seconds": self._poll_seconds,
        }

    async def list_workers(self) -> list[dict[str, Any]]:
        """Return all workers that are alive, with the runs that they hold."""
        now = self._parts.database.now()

        def find_workers(reads: Reads) -> list[tuple[Worker, list[str]]]:
            found = workers.find_alive(reads, now)
            return [(row, runs.held_ids(reads, row.worker_id)) for row in found]

        return [
            {
                "runner_id": row.worker_id,
                "kind": row.kind,
                "name": (row.registration or {}).get("name") or row.host,
                "host": row.host,
                "tags": (row.registration or {}).get("tags", []),
                "agents": (row.registration or {}).get("agents"),
                "capacity": (row.registration or {}).get("capacity"),
                "run_ids": held,
                "started_at": row.started_at,
                "last_seen_at": row.renewed_at,
                "lease_expires_at": row.expires_at,
                "kinds": (row.registration or {}).get("kinds", KINDS),
                "version": (row.registration or {}).get("version"),
            }
            for row, held in await self._parts.database.read(find_workers)
        ]

    async def describe_queue(self) -> list[dict[str, Any]]:
        """Return what the runs that wait for somebody need, and who has that."""
        now = self._parts.database.now()

        def find_waiting(reads: Reads) -> tuple[list[runs.Waiting], list[Worker]]:
            return runs.waiting_by_needs(reads), workers.find_alive(reads, now)

        waiting, alive = await self._parts.database.read(find_waiting)
        return [self._describe_needs(each, alive) for each in waiting]

    def _describe_needs(self, each: runs.Waiting, alive: Sequence[Worker]) -> dict[str, Any]:
        kind, _, rest = each.needs.partition("/")
        agent, _, tags = rest.rpartition("/")
        wanted = tags.split(",") if tags else []
        matching = [row for row in alive if self._can_carry(row, each.needs)]
        has = {tag for row in alive for tag in (row.registration or {}).get("tags", ())}
        return {
            "kind": kind,
            "agent_name": agent,
            "tags": wanted,
            "waiting": each.waiting,
            "oldest": each.oldest,
            "runners": [row.worker_id for row in matching],
            "missing_tags": [] if matching else [tag for tag in wanted if tag not in has],
        }

    def _can_carry(self, row: Worker, needs: str) -> bool:
        told = row.registration or {}
        if row.kind == workers.RUNNER:
            return claims.runner_matcher(self._parts, told)(needs)
        return has_tags(needs, frozenset(told.get("tags", ())))

    async def _write_or_raise(self, job: Callable[[Tx], T]) -> T:
        """Write something; a refusal is raised here, where it spoils nobody else's write."""

        def catch_refusal(tx: Tx) -> T | RequestError:
            try:
                return job(tx)
            except RequestError as refused:  # before anything was written
                return refused

        answer = await self._parts.database.write(catch_refusal)
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def require_runner(self, runner_id: str, owner: str) -> Worker:
        """Return a runner of somebody's, or raise that there is none."""
        return await self._parts.database.read(
            lambda reads: leases.require_runner(reads, runner_id, owner)
        )

    async def poll(
        self, runner: Worker, asked: PollRequest, gone: asyncio.Future[Any]
    ) -> PollResult:
        """Wait until there is something to do for a runner, but not for long.

        Whoever is `gone` gets nothing: what was claimed for it is given back.
        """
        runner_id = runner.worker_id
        if (older := self._polls.get(runner_id)) is not None:
            _resolve(older)  # nobody waits for that answer any more
        lock = self._locks.setdefault(runner_id, asyncio.Lock())
        async with lock:
            over = self._polls[runner_id] = asyncio.get_running_loop().create_future()
            gone.add_done_callback(lambda _gone: _resolve(over))
            try:
                return await self._poll_until_found(runner, asked, over)
            finally:
                if self._polls.get(runner_id) is over:
                    del self._polls[runner_id]

    async def _poll_until_found(
        self, runner: Worker, asked: PollRequest, gone: asyncio.Future[None]
    ) -> PollResult:
        until = time.monotonic() + self._poll_seconds
        await self._write_or_raise(lambda tx: leases.renew_lease(tx, self._parts, runner.worker_id))
        with self._waiting.enter_line(_ability_key(runner, asked)) as ticket:
            while True:
                ticket.mark_looking()
                found = await self._write_or_raise(
                    partial(self._claim_for, runner=runner, asked=asked)
                )
                if found is None:
                    await self._parts.reload_agents()
                    ticket.wake()
                    continue
                if found.claimed:
                    ticket.wake_follower()
                if gone.done() and found.claimed:
                    await self._give_back(found.claimed)
                    return PollResult()
                left = min(until - time.monotonic(), self._parts.settings.lease / 3)
                if found or gone.done() or self._closing or left <= 0:
                    return found
                await _wait_for_work(ticket, left, gone)

    def _claim_for(self, tx: Tx, runner: Worker, asked: PollRequest) -> PollResult | None:
        """Claim what there is for a runner; None: the agents have to be brought up to date."""
        parts, runner_id, now = self._parts, runner.worker_id, tx.time()
        if not parts.is_current(tx, parts.catalogue.version):
            return None
        leases.require_runner(tx, runner_id, runner.owner or "")
        if not workers.has_lease(
            tx, runner_id, parts.database.now()
        ):  # it is frozen, or this server was: it gets runs when it has beaten
            return PollResult()
        runs.make_ready(tx, _AT_ONCE, now, parts.has_start_hooks)
        can = {
            "fits": claims.runner_matcher(parts, runner.registration),
            "has_start_hooks": parts.has_start_hooks,
        }
        held = runs.held_by(tx, runner_id)
        found = PollResult()
        if asked.room > 0:
            found.claimed += runs.claim(tx, runner_id, asked.room, now, starts=False, **can)
        if len(found.claimed) < asked.room and not any(row.lost >= LAST_CHANCE for row in held):
            found.claimed += runs.claim_suspect(
                tx, runner_id, now, fits=can["fits"], executes_only=True
            )
        if held:
            found.claimed += runs.claim_beneath(tx, runner_id, now, **can)
        # What it should hold and does not was lost on the way to it.
        strays = [row for row in held if row.run_id not in asked.holding]
        found.runs = [claims.start_claimed(tx, parts, row) for row in (*strays, *found.claimed)]
        cancelled = [row for row in held if row.cancel is not None]
        found.stops = [
            {"run_id": row.run_id, "attempt": row.attempt, "cancel": row.cancel}
            for row in cancelled
            if row.run_id in asked.holding.difference(asked.stopping)
        ]
        return found

    async def _give_back(self, rows: Sequence[Run]) -> None:
        def give_back_rows(tx: Tx) -> None:
            for row in rows:
                leases.give_back(tx, row)

        await self._parts.database.write(give_back_rows)

    def wake_polls(self) -> None:
        """Have all polls look again: a run is to be cancelled, or this server shuts down."""
        self._waiting.wake_all()

    def close(self) -> None:
        """Let no poll wait any longer."""
        self._closing = True
        self._waiting.close()
        self.wake_polls()

    async def beat(self, runner_id: str, run_id: str, attempt: int) -> dict[str, Any]:
        """Renew a runner's lease, and return the state of all runs that it holds."""

        def renew_lease(tx: Tx) -> list[Run]:
            leases.renew_lease(tx, self._parts, runner_id)
            return runs.held_by(tx, runner_id)

        rows = await self._write_or_raise(renew_lease)
        held = {row.run_id: row for row in rows}
        if run_id not in held or held[run_id].attempt != attempt:
            raise leases.lease_lost(run_id)
        told = {name: {"attempt": row.attempt, "cancel": row.cancel} for name, row in held.items()}
        return {"cancel": held[run_id].cancel, "runs": told}

    async def store_events(
        self, lease: RunLease, told: Sequence[RunEvent], usage: Mapping[str, Any] | None = None
    ) -> None:
        """Store the events of a run, and what its models have used so far."""
        limits = self._parts.settings.limits

        def store_batch(tx: Tx) -> None:
            row = leases.require_held(tx, lease)
            reports.store_events(tx, row, told, limits)
            if usage:
                runs.update_owned(tx, *lease, usage=jsons.dumps(usage))

        await self._write_or_raise(store_batch)

    async def fire_point(self, lease: RunLease, reached: ReachedPoint) -> dict[str, Any]:
        """Fire a point of a run, and return what the hooks decided."""
        row = await self._parts.read_current(lambda reads: leases.require_held(reads, lease))
        return await fire_remote_point(self._parts, row, reached)

    async def report(self, lease: RunLease, kept: Mapping[str, Any]) -> None:
        """Take the result of a run; a server ends it."""
        await self._write_or_raise(lambda tx: reports.store_report(tx, lease, kept))

    async def suspend(self, lease: RunLease, kept: Mapping[str, Any]) -> None:
        """Take a run that is suspended until somebody has answered, with where it stands."""
        await self._write_or_raise(lambda tx: reports.store_suspended(tx, lease, kept))

    async def deregister(self, runner_id: str, holding: frozenset[str]) -> None:
        """Take back what a runner holds, and forget it; all but `holding` it never had."""

        def give_up_runs(tx: Tx) -> None:
            for row in runs.held_by(tx, runner_id):
                if row.run_id in holding:
                    give_up(tx, self._parts, row, lost=False)
                else:
                    leases.give_back(tx, row)
            workers.remove(tx, runner_id)

        await self._write_or_raise(give_up_runs)
