"""The worker: takes runs that are ready, as many as it can carry, and gives back what it cannot."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from functools import partial

from checkrail.runs.delivering import Deliverer
from checkrail.runs.execution import Executor
from checkrail.runs.hub import WORK, Bell
from checkrail.runs.lease import Beat, Lease
from checkrail.runs.leftovers import Leftovers
from checkrail.runs.live import LiveRun
from checkrail.runs.parts import Parts
from checkrail.runs.recovery import give_up
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_AT_ONCE = 100  # runs that are made ready
_STARTS = 16  # runs whose start hooks are asked for runners, above the capacity
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost


@dataclass(slots=True)
class _Taken:
    """What was claimed: results to finish, runs to carry out, and runs only to start."""

    finish: list[Row] = field(default_factory=list)
    whole: list[Row] = field(default_factory=list)
    start: list[Row] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether there may be more of what capacity is not for."""
        return len(self.finish) == _AT_ONCE or len(self.start) == _STARTS


def _nothing(_needs: str) -> bool:
    return False


class Worker:
    """Carries out the runs of this process."""

    def __init__(self, parts: Parts, deliverer: Deliverer) -> None:
        settings = parts.settings
        self._parts = parts
        self._executor = Executor(parts)
        self._deliverer = deliverer
        self._bell = Bell(parts.hub, WORK)
        self._backlog = False
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._leftovers = Leftovers(parts.checkpointer)
        self._strays: dict[str, float] = {}
        self.promised: set[str] = set()  # runs that are being admitted, and will be taken here
        self._lease = Lease(
            parts.database,
            parts.worker_id,
            settings.lease,
            settings.beat,
            self._beaten,
            about={"tags": sorted(settings.tags)},
        )

    @property
    def room(self) -> int:
        """How many more runs it can take."""
        if self._closing or not self._lease.sound:
            return 0
        return max(0, self._parts.settings.capacity - len(self._parts.live) - len(self.promised))

    @property
    def takes_more(self) -> bool:
        """Whether it can take a run above its capacity."""
        return not self._closing and self._lease.sound

    def begin(self) -> None:
        """Enter this process among the workers."""
        self._lease.begin()

    async def serve(self) -> None:
        """Take runs as they become ready, until it is closed."""
        while not self._closing:
            room = self.room
            looks = room > 0 or (self.takes_more and not self._parts.alone)
            taken = await self._claim(room) if looks else _Taken()
            self._backlog = len(taken.whole) == room
            for row in (*taken.finish, *taken.whole):
                self.take(row)
            for row in taken.start:
                self.take(row, passes=True)
            if not taken.whole or len(taken.whole) < room:
                await self._bell.wait(0 if taken.is_full else _LOOK_EVERY)

    async def _claim(self, room: int) -> _Taken:
        parts = self._parts
        straight = not parts.has("on_run_start")
        try:
            return await parts.database.write(lambda tx: self._claimed(tx, room, straight=straight))
        except Exception:
            log.exception("no runs could be claimed; it is tried again")
            await asyncio.sleep(1)
            return _Taken()

    def _claimed(self, tx: Tx, room: int, *, straight: bool) -> _Taken:
        """Claim runs; those that others have to carry out are made ready for them.

        Capacity is for whole runs. What runners wait for, or have done, is seen to at any time.
        """
        parts, now = self._parts, time.time()
        made = runs.make_ready(tx, _AT_ONCE, now) if straight else 0
        taken = _Taken(runs.claim_reported(tx, parts.worker_id, _AT_ONCE, now))
        if room > 0:
            starts = not straight
            taken.whole = runs.claim(tx, parts.worker_id, room, now, fits=parts.fits, starts=starts)
        elif not straight:
            taken.start = runs.claim(tx, parts.worker_id, _STARTS, now, fits=_nothing)
        if made > len(taken.whole):
            tx.tell("work", "")
        return taken

    def take(self, row: Row, *, passes: bool = False) -> LiveRun:
        """Begin with a run that is ours; one that `passes` is ours for its start hooks only."""
        parts = self._parts
        if (older := parts.live.get(row["run_id"])) is not None:
            older.mute = True
            older.stop("lost")  # we were taken for dead, and now have it again
        live = LiveRun(row, parts.settings.limits, parts.log.dirty, self._is_sound)
        parts.live[live.run_id] = live
        live.passes = passes
        over = "ended" in (row.get("kept") or ())  # its runner has stopped it, or it failed there
        if row["cancel"] is not None and not over:
            live.stop("rollback" if row["cancel"] == "rollback" else "interrupt")
        parts.hub.tell([("run", live.run_id), ("thread", live.thread_id)])
        task = asyncio.get_running_loop().create_task(self._carry(live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return live

    def cancel(self, run_id: str, action: str) -> None:
        """Stop a run if it is here."""
        if (live := self._parts.live.get(run_id)) is not None:
            live.stop("rollback" if action == "rollback" else "interrupt")

    def stop(self) -> None:
        """Take no more runs; never in the middle of a claim, or nobody would begin with them."""
        self._closing = True
        self._bell.ring()

    async def close(self) -> None:
        """Let the runs that are here end for a while, and hand back the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._parts.settings.stop_grace)
        for live in tuple(self._parts.live.values()):
            live.stop("handover")
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._leftovers.close()
        self._bell.close()

    def end(self) -> None:
        """Leave the workers: what this process held is done, or handed back."""
        self._lease.end()

    def _is_sound(self) -> bool:
        return self._lease.sound

    async def _carry(self, live: LiveRun) -> None:
        debts = None
        try:
            debts = await self._executor.carry_out(live)
            if debts is None and not live.left:
                await self._give_up(live)
        except Exception:
            log.exception("run %s could not be carried out", live.run_id)
            await self._give_up(live)
        finally:
            if self._parts.live.get(live.run_id) is live:
                del self._parts.live[live.run_id]
            if self._backlog:
                self._bell.ring()
            if not live.ended.done():
                live.ended.cancel()
            self._parts.hub.tell([("run", live.run_id), ("thread", live.thread_id)])
        if debts is None:
            return
        self._deliverer.take(debts)
        if live.row["temporary"]:
            self._leftovers.add(live.thread_id)

    async def _give_up(self, live: LiveRun) -> None:
        """Hand back a run that is still ours, and was not ended."""
        lost = live.ending != "handover"
        row = live.row | {"worker_id": self._parts.worker_id}
        await self._parts.log.flush()
        await self._parts.database.write(lambda tx: give_up(tx, self._parts, row, lost=lost))

    def _beaten(self, beat: Beat) -> None:
        if not self._parts.hub.loop.is_closed():
            self._parts.hub.loop.call_soon_threadsafe(self._heard, beat)

    def _heard(self, beat: Beat) -> None:
        self._parts.alone = beat.others == 0
        for run_id, action in beat.cancels:
            self.cancel(run_id, action)
        for live in tuple(self._parts.live.values()):
            if live.since < beat.began and live.run_id not in beat.held:
                live.stop("lost")
        self._find_strays(beat.held - self._parts.live.keys())
        if self._backlog:
            self._bell.ring()

    def _find_strays(self, run_ids: frozenset[str]) -> None:
        """Give back runs that are said to be ours, but that nobody here works on."""
        now = time.monotonic()
        self._strays = {run_id: self._strays.get(run_id, now) for run_id in run_ids}
        for run_id, since in self._strays.items():
            if now - since > self._parts.settings.beat / 2:
                log.warning("run %s is nobody's work here, and is given back", run_id)
                self._parts.database.write_soon(partial(self._give_back, run_id=run_id))

    def _give_back(self, tx: Tx, run_id: str) -> None:
        row = runs.get(tx, run_id)
        if row is not None and row["worker_id"] == self._parts.worker_id:
            give_up(tx, self._parts, row, lost=True)
