"""The clock: runs and crons whose time has come, workers that are gone, and what is too old."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from checkrail.engine.values import User
from checkrail.runs.admit.admission import Admission
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.approvals import expire_questions
from checkrail.runs.cron_schedule import next_time
from checkrail.runs.errors import KeyRevokedError, RequestError
from checkrail.runs.events.hub import Wakeup
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.finisher import end_unclaimed_run
from checkrail.runs.recovery import recover_orphans
from checkrail.runs.remote.claims import runner_matcher
from checkrail.runs.retention import Retention
from checkrail.runs.services import RunServices, has_tags
from checkrail.store import approvals, crons, keys, runs, threads, workers
from checkrail.store.crons import Cron
from checkrail.store.database import Reads, Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.runs import Run
from checkrail.store.workers import Worker

log = logging.getLogger("checkrail.runs")


class UnclaimedRuns:
    """Ends runs that have been ready for long, while no worker could take them.

    A runner that is only busy, or gone for a moment, is one who can.
    """

    def __init__(self, parts: RunServices) -> None:
        self._parts = parts
        self._since: dict[str, float] = {}  # when nobody was there for these needs, monotonic

    async def end_late_runs(self) -> None:
        """End those that nobody could take for too long."""
        await self._parts.database.write(self._end_in_tx)

    def _end_in_tx(self, tx: Tx) -> None:
        parts, now = self._parts, time.monotonic()
        wanted = runs.find_needs(tx)
        if not wanted:
            self._since.clear()
            return
        there = workers.find_alive(tx, parts.database.now())
        without = [needs for needs in wanted if not self._has_worker(there, needs)]
        self._since = {needs: self._since.get(needs, now) for needs in without}
        patience = parts.settings.unclaimed_after
        late = {needs for needs, since in self._since.items() if now - since >= patience}
        if not late:
            return
        for row in runs.find_unclaimed(tx, tx.time() - patience, sorted(late)):
            reason = _reason(row, there, patience)
            log.warning("run %s: %s", row.run_id, reason)
            ended = outcomes.error_outcome(reason, "NoRunner")
            end_unclaimed_run(tx, parts, row, ended, phase="ready", worker_id=None)

    def _has_worker(self, there: Sequence[Worker], needs: str) -> bool:
        return any(self._can_run(worker, needs) for worker in there)

    def _can_run(self, worker: Worker, needs: str) -> bool:
        told = worker.registration or {}
        if worker.kind == workers.RUNNER:
            return runner_matcher(self._parts, told)(needs)
        return has_tags(needs, frozenset(told.get("tags", ())))


def _reason(row: Run, there: Sequence[Worker], patience: float) -> str:
    kind, _, rest = row.needs.partition("/")
    tags = rest.rpartition("/")[2]
    wanted = f"the {kind} agent {row.agent_name!r}"
    if tags:
        wanted += f" and has the tags {', '.join(tags.split(','))}"
    known = "; ".join(map(_describe_worker, there)) or "nobody"
    needs = f"it needs a runner that knows {wanted}"
    remedy = "Start one with `checkrail runner`"
    return (
        f"nobody could carry this run out for {patience:g} s: {needs}. There is: {known}. {remedy}"
    )


def _describe_worker(worker: Worker) -> str:
    told = worker.registration or {}
    tags = ", ".join(told.get("tags", ())) or "no tags"
    if worker.kind != workers.RUNNER:
        return f"the server itself ({tags})"
    agents = ", ".join(told["agents"][:8]) or "none"
    more = f" and {len(told['agents']) - 8} more" if len(told["agents"]) > 8 else ""
    return f"runner {told['name']!r} ({tags}; agents {agents}{more})"


_MINUTE = 60.0
_CRONS = "crons"
_AT_ONCE = 20
_PAUSE = 5.0  # seconds
_ASKING = ("member", "admin")
"""Roles of keys that may ask for runs."""


class Scheduler:
    """Does what is due."""

    def __init__(self, parts: RunServices, admission: Admission) -> None:
        self._parts = parts
        self._admission = admission
        self._bell = Wakeup(parts.hub, ("clock", ""))
        self._retention = Retention(parts)
        self._unclaimed = UnclaimedRuns(parts)
        self._starting: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Do what is due, until cancelled."""
        try:
            await self._serve_loop()
        finally:
            for task in self._starting:
                task.cancel()
            await asyncio.gather(*self._starting, return_exceptions=True)
            worker = self._parts.worker_id
            with contextlib.suppress(DatabaseUnavailableError):  # then others find it out
                await self._parts.database.write(lambda tx: crons.release_held(tx, worker))

    async def _serve_loop(self) -> None:
        chores: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (self._parts.settings.beat, self._recover),
            (self._parts.settings.beat, self._unclaimed.end_late_runs),
            (self._parts.settings.beat, self._void_unheld),
            (self._parts.settings.sweep_every, self._retention.clean),
        ]
        due = [0.0] * len(chores)
        while True:
            await self._run_safely(self._start_scheduled)
            await self._run_safely(self._start_crons)
            await self._run_safely(self._expire_questions)
            now = time.monotonic()
            for number, (every, chore) in enumerate(chores):
                if now >= due[number]:
                    due[number] = now + every
                    await self._run_safely(chore)
            await self._bell.wait(min(await self._seconds_to_next(), max(0.01, min(due) - now)))

    async def _run_safely(self, chore: Callable[[], Awaitable[object]]) -> None:
        try:
            await chore()
        except DatabaseUnavailableError:
            await asyncio.sleep(0.5)  # it is logged where it is found out
        except Exception:
            log.exception("something that was due failed; it is tried again")
            await asyncio.sleep(0.5)

    async def _seconds_to_next(self) -> float:
        worker = self._parts.worker_id

        def find_next_due(reads: Reads) -> float | None:
            found = (runs.next_due(reads), crons.next_due(reads, worker), approvals.next_due(reads))
            return min((each for each in found if each is not None), default=None)

        try:
            due = await self._parts.database.read(find_next_due)
        except Exception:  # noqa: BLE001 - said where it is used
            return 1.0
        return _MINUTE if due is None else max(0.005, due - self._parts.database.time())

    async def _recover(self) -> None:
        seen = self._parts.see_agents()  # what becomes of a run is its agent's to say
        while await self._parts.write_current(seen, self._recover_in_tx) is None:
            seen = self._parts.see_agents()

    def _recover_in_tx(self, tx: Tx) -> bool:
        recover_orphans(tx, self._parts)
        return True

    async def _start_scheduled(self) -> None:
        await self._parts.database.write(_ready_scheduled)

    async def _expire_questions(self) -> None:
        """Let runs go on whose questions nobody has answered in time."""
        await self._parts.database.write(expire_questions)

    async def _void_unheld(self) -> None:
        """Withdraw what the gateway asks for callers whose process is gone."""
        await self._parts.database.write(lambda tx: approvals.void_unheld(tx, tx.time()))

    async def _start_crons(self) -> None:
        """Start the crons that are due; nothing waits for their hooks."""
        for row in await self._claim_crons():
            task = asyncio.get_running_loop().create_task(self._start_safely(row))
            self._starting.add(task)
            task.add_done_callback(partial(self._finish_start, row))

    async def _claim_crons(self) -> list[Cron]:
        """Take the crons that are due; of those that processes have died with, one at a time."""
        worker, last_chance = self._parts.worker_id, self._parts.last_chance
        suspects = last_chance.start_search(_CRONS)
        suspect: list[Cron] = []

        def claim_crons(tx: Tx) -> tuple[list[Cron], list[Cron]]:
            first = _claim_due_crons(tx, worker, 1, suspected=True) if suspects else []
            return first, _claim_due_crons(tx, worker, _AT_ONCE)

        try:
            suspect, rest = await self._parts.database.write(claim_crons)
        finally:
            if suspects:
                last_chance.hold(_CRONS, next((row.cron_id for row in suspect), None))
        return suspect + rest

    async def _start_safely(self, row: Cron) -> None:
        """Start a cron, and again after a while if that failed for no reason of its own."""
        try:
            await self._start_cron(row)
        except Exception as error:
            if not isinstance(error, DatabaseUnavailableError):  # logged where it is found out
                log.exception("the run of cron %s could not be asked for yet", row.cron_id)
            await asyncio.sleep(_PAUSE)
            await self._parts.database.write(
                lambda tx: crons.release_held(tx, self._parts.worker_id, [row.cron_id]),
                patient=True,
            )
            self._bell.trigger()

    def _finish_start(self, row: Cron, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if self._parts.last_chance.release(row.cron_id):
            self._bell.trigger()

    async def _start_cron(self, row: Cron) -> None:
        """Request a cron's run as its owner would; a refusal is stored as the cron's last error."""
        asker = Principal(User(**row.user) if row.user else User(identity=row.owner or ""))
        once = Idempotency(f"{row.cron_id}:{row.occurrence}", "cron", "")
        error = None
        try:
            await self._check_key(row.key_id)
            await self._admission.admit([build_cron_request(row)], asker, once)
        except RequestError as refused:
            error = f"{refused.status}: {refused}"
            log.warning("the run of cron %s was refused: %s", row.cron_id, error)
        await self._parts.database.write(lambda tx: crons.end_request(tx, row, error), patient=True)

    async def _check_key(self, key_id: str | None) -> None:
        """Raise if the key that vouches for a cron could not request a run itself any more."""
        if key_id is None:
            return
        roles = await self._parts.database.read(lambda reads: keys.roles_in_force(reads, [key_id]))
        if roles.get(key_id) not in _ASKING:
            raise KeyRevokedError(
                f"the API key {key_id} that made or last changed this cron was revoked, or may "
                "only read. Change the cron with a key that is in force, and it goes on"
            )


def build_cron_request(row: Cron) -> RunRequest:
    """Return the run that a cron requests."""
    metadata = {**(row.payload.get("metadata") or {}), "cron_id": row.cron_id}
    known = RunRequest.__dataclass_fields__
    given = {key: value for key, value in row.payload.items() if key in known}
    return RunRequest(
        **given
        | {
            "assistant_id": row.assistant_id,
            "thread_id": row.thread_id,
            "metadata": metadata,
            "origin": "cron",
            "keep_thread": row.on_run_completed == "keep",
        }
    )


def _ready_scheduled(tx: Tx) -> None:
    """Let scheduled runs that are due into their threads."""
    now = tx.time()
    for row in runs.find_due(tx, now):
        free = True
        changed: dict[str, object] = {"due_at": None, "updated_at": now}
        if not row.temporary:
            thread = threads.lock(tx, row.thread_id)
            changed["base_seq"] = 0 if thread is None else thread.last_seq
            free = runs.slot_holder(tx, row.thread_id) is None
            threads.update_thread(tx, row.thread_id, status="busy", updated_at=now)
        phase = "starting" if free else "queued"
        runs.update_if(tx, row.run_id, {"phase": "scheduled"}, phase=phase, **changed)
        if free:
            tx.publish("work", "")


def _claim_due_crons(tx: Tx, worker_id: str, most: int, *, suspected: bool = False) -> list[Cron]:
    """Take the crons that are due, and set each to its next time."""
    now = tx.time()
    taken = []
    for row in crons.lock_due(tx, worker_id, now, most, suspected=suspected):
        changed = _claimed_columns(row, now) | {"updated_at": now}
        asked = changed.get("occurrence", row.occurrence) is not None
        changed["worker_id"] = worker_id if asked else None
        if asked:
            taken.append(replace(row, **changed))
        crons.update_cron(tx, row.cron_id, **changed)
    return taken


def _claimed_columns(row: Cron, now: float) -> dict[str, Any]:
    """Return what changes of a cron that is taken; one that was left behind is taken as it was."""
    if row.next_run_at is None or row.next_run_at > now or not row.enabled:
        return {}
    over = row.end_at is not None and row.end_at <= now
    following = None if over else next_time(row.schedule, row.timezone, now)
    if following is not None and row.end_at is not None and following > row.end_at:
        following = None
    return {"next_run_at": following, "occurrence": None if over else row.next_run_at}
