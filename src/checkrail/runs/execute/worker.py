"""The worker: takes runs that are ready, as many as it can carry, and gives back what it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from checkrail.runs.events.hub import WORK, Wakeup
from checkrail.runs.execute.execution import RunExecutor
from checkrail.runs.execute.lease import BeatResult, WorkerLease
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.finish.deliverer import Deliverer
from checkrail.runs.graphs.fences import set_fence
from checkrail.runs.graphs.thread_rows import delete_thread
from checkrail.runs.recovery import give_up
from checkrail.runs.services import HOOK, RunServices
from checkrail.runs.tools import ResumeSession
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.health import DatabaseUnavailableError, find_trouble
from checkrail.store.runs import Run

log = logging.getLogger("checkrail.runs")

_AT_ONCE = 100  # runs that are made ready
_STARTS = 16  # runs whose start hooks are asked for runners, above the capacity
_RUNS = "runs"
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost
_SWEEP_EVERY = 0.2  # seconds
_MOST_SWEPT = 100  # threads


@dataclass(slots=True)
class _ClaimedRuns:
    """What was claimed: results to finish, runs to execute, and runs only to start."""

    finish: list[Run] = field(default_factory=list)
    whole: list[Run] = field(default_factory=list)
    start: list[Run] = field(default_factory=list)
    suspect: str | None = None
    beneath: list[Run] = field(default_factory=list)  # which others here wait for

    @property
    def is_full(self) -> bool:
        """Whether there may be more of what capacity is not for."""
        return len(self.finish) == _AT_ONCE or len(self.start) == _STARTS


def _fits_nothing(_needs: str) -> bool:
    return False


class Worker:
    """Executes the runs of this process."""

    def __init__(
        self, parts: RunServices, deliverer: Deliverer, resume: ResumeSession | None = None
    ) -> None:
        settings = parts.settings
        self._parts = parts
        self._executor = RunExecutor(parts, resume)
        self._deliverer = deliverer
        self._bell = Wakeup(parts.hub, WORK)
        self._backlog = False
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._leftovers = CheckpointCleanup(parts.checkpointer)
        self._strays: dict[str, float] = {}
        self._begun: dict[str, int] = {}  # the attempts at runs that this process has worked on
        self._met = 0.0  # when another server was last heard to join
        self.promised: set[str] = set()  # runs that are being admitted, and will be taken here
        self._lease = WorkerLease(
            parts.database,
            parts.worker_id,
            settings.lease,
            settings.beat,
            self._receive_beat,
            about={"tags": sorted(settings.tags)},
        )

    @property
    def room(self) -> int:
        """How many more runs it can take."""
        if self._closing or not self._lease.is_valid:
            return 0
        live = len(self._parts.live) - self._count_hook_runs
        return max(0, self._parts.settings.capacity - live - len(self.promised))

    @property
    def hook_room(self) -> int:
        """How many more runs that hooks start it can take: as many as others, beside them."""
        if not self.can_take_more:
            return 0
        return max(0, self._parts.settings.capacity - self._count_hook_runs)

    @property
    def _count_hook_runs(self) -> int:
        live = list(self._parts.live.values())  # at once: the writer's thread asks too
        return sum(each.row.origin == HOOK for each in live)

    @property
    def can_take_more(self) -> bool:
        """Whether it can take a run above its capacity."""
        return not self._closing and self._lease.is_valid

    def start(self) -> None:
        """Enter this process among the workers."""
        self._lease.start()

    async def serve(self) -> None:
        """Take runs as they become ready, until it is closed."""
        while not self._closing:
            room = self.room
            awaited = frozenset(self._parts.awaited - self._parts.live.keys())
            looks = room > 0 or (self.can_take_more and (awaited or not self._parts.alone))
            taken = await self._claim_runs(room, awaited) if looks else _ClaimedRuns()
            if taken is None:
                continue
            self._backlog = len(taken.whole) == room
            for row in (*taken.finish, *taken.whole, *taken.beneath):
                self.take(row)
            for row in taken.start:
                self.take(row, passes=True)
            if not taken.whole or len(taken.whole) < room:
                await self._bell.wait(0 if taken.is_full else _LOOK_EVERY)

    async def _claim_runs(self, room: int, awaited: frozenset[str]) -> _ClaimedRuns | None:
        """Claim runs; None: the agents were not up to date, and are now."""
        parts = self._parts
        seen, straight = parts.see_agents(), not parts.has_start_hooks()
        suspects = room > 0 and parts.last_chance.start_search(_RUNS)
        taken: _ClaimedRuns | None = _ClaimedRuns()
        try:
            taken = await parts.write_current(
                seen,
                lambda tx: self._claim_in_tx(
                    tx, room, awaited, straight=straight, suspects=suspects
                ),
            )
        except DatabaseUnavailableError:
            await asyncio.sleep(1)  # it is logged where it is found out
        except Exception:
            log.exception("no runs could be claimed; it is tried again")
            await asyncio.sleep(1)
        if suspects:
            parts.last_chance.hold(_RUNS, None if taken is None else taken.suspect)
        return taken

    def _claim_in_tx(
        self, tx: Tx, room: int, awaited: frozenset[str], *, straight: bool, suspects: bool
    ) -> _ClaimedRuns:
        """Claim runs; those that others have to execute are made ready for them.

        Capacity is for whole runs, but not for those that hooks of others here wait for. What
        runners wait for, or have done, is seen to at any time.
        """
        parts, now = self._parts, tx.time()
        made = runs.make_ready(tx, _AT_ONCE, now, parts.has_start_hooks)
        taken = _ClaimedRuns(runs.claim_reported(tx, parts.worker_id, _AT_ONCE, now))
        if suspects:
            taken.whole = runs.claim_suspect(tx, parts.worker_id, now, fits=parts.can_run)
            taken.suspect = next((row.run_id for row in taken.whole), None)
            room -= len(taken.whole)
        taken.beneath = runs.claim_awaited(
            tx,
            parts.worker_id,
            awaited,
            now,
            fits=parts.can_run,
            has_start_hooks=parts.has_start_hooks,
        )
        if room > 0:
            taken.whole += runs.claim(
                tx,
                parts.worker_id,
                room,
                now,
                fits=parts.can_run,
                starts=not straight,
                has_start_hooks=parts.has_start_hooks,
            )
        elif not straight:
            taken.start = runs.claim(tx, parts.worker_id, _STARTS, now, fits=_fits_nothing)
        if made > len(taken.whole):
            tx.publish("work", "")
        return taken

    def take(self, row: Run, *, passes: bool = False) -> LiveRun:
        """Start a run that is ours; one that `passes` is ours for its start hooks only."""
        parts = self._parts
        if (older := parts.live.get(row.run_id)) is not None:
            older.silence()
            older.abort("lost")  # we were taken for dead, and now have it again
        limits, dirty = parts.settings.limits, parts.log.mark_dirty
        live = LiveRun(row, limits, dirty, self._has_valid_lease, passes=passes)
        parts.live[live.run_id] = live
        self._begun[live.run_id] = live.attempt
        over = "ended" in (
            row.suspended_state or ()
        )  # its runner has stopped it, or it failed there
        if row.cancel is not None and not over:
            live.abort("rollback" if row.cancel == "rollback" else "interrupt")
        parts.hub.notify([("run", live.run_id), ("thread", live.thread_id)])
        task = asyncio.get_running_loop().create_task(self._execute_run(live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return live

    def cancel(self, run_id: str, action: str) -> None:
        """Abort a run if it is here."""
        if (live := self._parts.live.get(run_id)) is not None:
            live.abort("rollback" if action == "rollback" else "interrupt")

    def end_claims(self) -> None:
        """Claim no more runs; never in the middle of a claim, or nobody would start them."""
        self._closing = True
        self._bell.trigger()

    async def close(self) -> None:
        """Let the runs that are here end for a while, and hand back the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._parts.settings.stop_grace)
        for live in tuple(self._parts.live.values()):
            live.abort("handover")
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._leftovers.close()
        self._bell.close()

    def leave_workers(self) -> None:
        """Remove this process from the workers: what it held is done, or handed back."""
        self._lease.close()

    def _has_valid_lease(self) -> bool:
        return self._lease.is_valid

    async def _execute_run(self, live: LiveRun) -> None:
        set_fence(None)  # whoever asked for this run may have one of its own
        debts = None
        try:
            debts = await self._executor.execute(live)
            if debts is None and not live.left:
                await self._give_up(live)
        except Exception:
            log.exception("run %s could not be carried out", live.run_id)
            await self._give_up(live)
        finally:
            if self._parts.live.get(live.run_id) is live:
                del self._parts.live[live.run_id]
            if self._parts.last_chance.release(live.run_id) or self._backlog:
                self._bell.trigger()
            if not live.ended.done():
                live.ended.cancel()
            self._parts.hub.notify([("run", live.run_id), ("thread", live.thread_id)])
        if debts is None:
            self._parts.log.count_later(live.run_id, live.take_hook_counts())
            return
        self._deliverer.take(debts)
        if live.row.temporary:
            self._leftovers.add(live.thread_id)

    async def _give_up(self, live: LiveRun) -> None:
        """Hand back a run that is still ours, and was not ended."""
        lost = live.ending != "handover"
        row = replace(live.row, worker_id=self._parts.worker_id, usage=dict(live.usage))
        await self._parts.log.flush()
        await self._parts.database.write(
            lambda tx: give_up(tx, self._parts, row, lost=lost), patient=True
        )

    def _receive_beat(self, beat: BeatResult) -> None:
        if not self._parts.hub.loop.is_closed():
            self._parts.hub.loop.call_soon_threadsafe(self._apply_beat, beat)

    def _apply_beat(self, beat: BeatResult) -> None:
        if beat.began > self._met:  # or it may not have seen who has joined
            self._parts.alone = beat.others == 0
        for run_id, action in beat.cancels:
            self.cancel(run_id, action)
        for live in tuple(self._parts.live.values()):
            if live.since < beat.began and live.run_id not in beat.held:
                live.abort("lost")
        self._lease.confirm(beat)
        for live in tuple(self._parts.live.values()):
            live.release()
        self._release_strays(beat.held - self._parts.live.keys())
        if self._backlog:
            self._bell.trigger()

    def note_others(self) -> None:
        """Publish everything from now on: another server or a runner has joined."""
        self._met = time.monotonic()
        self._parts.alone = False
        self._bell.trigger()

    def _release_strays(self, run_ids: frozenset[str]) -> None:
        """Give back runs that are said to be ours, but that nobody here executes."""
        now = time.monotonic()
        known = self._begun.keys() & (run_ids | self._parts.live.keys())
        self._begun = {run_id: self._begun[run_id] for run_id in known}
        self._strays = {run_id: self._strays.get(run_id, now) for run_id in run_ids}
        for run_id, since in self._strays.items():
            if now - since > self._parts.settings.beat / 2:
                log.warning("run %s is nobody's work here, and is given back", run_id)
                self._parts.database.write_soon(partial(self._give_back, run_id=run_id))

    def _give_back(self, tx: Tx, run_id: str) -> None:
        """Give back a run; one that was never started here has lost nothing, and goes on."""
        row = runs.get(tx, run_id)
        if row is None or row.worker_id != self._parts.worker_id:
            return
        begun = self._begun.get(run_id) == row.attempt
        give_up(tx, self._parts, row, lost=begun, begun=begun)


class CheckpointCleanup:
    """Deletes the checkpoints of stateless runs, which nobody needs any more."""

    def __init__(self, checkpointer: Any) -> None:
        self._checkpointer = checkpointer
        self._waiting: list[str] = []
        self._closing = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None

    def add(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread, soon; without graphs, there are none."""
        if self._checkpointer is None:
            return
        self._waiting.append(thread_id)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def close(self) -> None:
        """Delete what waits, now."""
        self._closing.set()
        if self._sweeping is not None:
            await self._sweeping

    async def _sweep(self) -> None:
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_EVERY):
                    await self._closing.wait()
            batch, self._waiting = self._waiting[:_MOST_SWEPT], self._waiting[_MOST_SWEPT:]
            try:
                await delete_thread(self._checkpointer, *batch)
            except Exception as error:
                if find_trouble(error) is not None and not self._closing.is_set():
                    self._waiting = batch + self._waiting  # until the database is back
                    continue
                log.exception("the checkpoints of %s stateless runs stay behind", len(batch))
        self._sweeping = None
