"""The worker: takes runs that are ready, as many as it can carry, and gives back what it cannot."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from functools import partial

from checkrail.runs.delivering import Deliverer
from checkrail.runs.execution import Executor
from checkrail.runs.graphs.fences import set_fence
from checkrail.runs.hub import WORK, Bell
from checkrail.runs.lease import Beat, Lease
from checkrail.runs.leftovers import Leftovers
from checkrail.runs.live import LiveRun
from checkrail.runs.parts import HOOK, Parts
from checkrail.runs.recovery import give_up
from checkrail.store import runs
from checkrail.store.database import Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_AT_ONCE = 100  # runs that are made ready
_STARTS = 16  # runs whose start hooks are asked for runners, above the capacity
_RUNS = "runs"
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost


@dataclass(slots=True)
class _Taken:
    """What was claimed: results to finish, runs to carry out, and runs only to start."""

    finish: list[Row] = field(default_factory=list)
    whole: list[Row] = field(default_factory=list)
    start: list[Row] = field(default_factory=list)
    suspect: str | None = None
    beneath: list[Row] = field(default_factory=list)  # which others here wait for

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
        self._begun: dict[str, int] = {}  # the attempts at runs that this process has worked on
        self._met = 0.0  # when another server was last heard to join
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
        live = len(self._parts.live) - self._hook_runs
        return max(0, self._parts.settings.capacity - live - len(self.promised))

    @property
    def hook_room(self) -> int:
        """How many more runs that hooks start it can take: as many as others, beside them."""
        if not self.takes_more:
            return 0
        return max(0, self._parts.settings.capacity - self._hook_runs)

    @property
    def _hook_runs(self) -> int:
        return sum(live.row["origin"] == HOOK for live in self._parts.live.values())

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
            awaited = frozenset(self._parts.awaited - self._parts.live.keys())
            looks = room > 0 or (self.takes_more and (awaited or not self._parts.alone))
            taken = await self._claim(room, awaited) if looks else _Taken()
            if taken is None:
                continue
            self._backlog = len(taken.whole) == room
            for row in (*taken.finish, *taken.whole, *taken.beneath):
                self.take(row)
            for row in taken.start:
                self.take(row, passes=True)
            if not taken.whole or len(taken.whole) < room:
                await self._bell.wait(0 if taken.is_full else _LOOK_EVERY)

    async def _claim(self, room: int, awaited: frozenset[str]) -> _Taken | None:
        """Claim runs; None: the agents were not up to date, and are now."""
        parts = self._parts
        seen, straight = parts.see_agents(), not parts.has("on_run_start")
        suspects = room > 0 and parts.last_chance.look(_RUNS)
        taken: _Taken | None = _Taken()
        try:
            taken = await parts.write_current(
                seen,
                lambda tx: self._claimed(tx, room, awaited, straight=straight, suspects=suspects),
            )
        except DatabaseUnavailableError:
            await asyncio.sleep(1)  # it is logged where it is found out
        except Exception:
            log.exception("no runs could be claimed; it is tried again")
            await asyncio.sleep(1)
        if suspects:
            parts.last_chance.hold(_RUNS, None if taken is None else taken.suspect)
        return taken

    def _claimed(
        self, tx: Tx, room: int, awaited: frozenset[str], *, straight: bool, suspects: bool
    ) -> _Taken:
        """Claim runs; those that others have to carry out are made ready for them.

        Capacity is for whole runs, but not for those that hooks of others here wait for. What
        runners wait for, or have done, is seen to at any time.
        """
        parts, now = self._parts, tx.time()
        made = runs.make_ready(tx, _AT_ONCE, now, parts.has_start_hooks)
        taken = _Taken(runs.claim_reported(tx, parts.worker_id, _AT_ONCE, now))
        if suspects:
            taken.whole = runs.claim_suspect(tx, parts.worker_id, now, fits=parts.fits)
            taken.suspect = next((row["run_id"] for row in taken.whole), None)
            room -= len(taken.whole)
        taken.beneath = runs.claim_awaited(
            tx,
            parts.worker_id,
            awaited,
            now,
            fits=parts.fits,
            has_start_hooks=parts.has_start_hooks,
        )
        if room > 0:
            taken.whole += runs.claim(
                tx,
                parts.worker_id,
                room,
                now,
                fits=parts.fits,
                starts=not straight,
                has_start_hooks=parts.has_start_hooks,
            )
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
        self._begun[live.run_id] = live.attempt
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
        set_fence(None)  # whoever asked for this run may have one of its own
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
            if self._parts.last_chance.release(live.run_id) or self._backlog:
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
        row = live.row | {"worker_id": self._parts.worker_id, "usage": dict(live.usage)}
        await self._parts.log.flush()
        await self._parts.database.write(
            lambda tx: give_up(tx, self._parts, row, lost=lost), patient=True
        )

    def _beaten(self, beat: Beat) -> None:
        if not self._parts.hub.loop.is_closed():
            self._parts.hub.loop.call_soon_threadsafe(self._heard, beat)

    def _heard(self, beat: Beat) -> None:
        if beat.began > self._met:  # or it may not have seen who has joined
            self._parts.alone = beat.others == 0
        for run_id, action in beat.cancels:
            self.cancel(run_id, action)
        for live in tuple(self._parts.live.values()):
            if live.since < beat.began and live.run_id not in beat.held:
                live.stop("lost")
        self._lease.renewed(beat)
        for live in tuple(self._parts.live.values()):
            live.release()
        self._find_strays(beat.held - self._parts.live.keys())
        if self._backlog:
            self._bell.ring()

    def meet_others(self) -> None:
        """Send word of everything from now on: another server has joined."""
        self._met = time.monotonic()
        self._parts.alone = False
        self._bell.ring()

    def _find_strays(self, run_ids: frozenset[str]) -> None:
        """Give back runs that are said to be ours, but that nobody here works on."""
        now = time.monotonic()
        known = self._begun.keys() & (run_ids | self._parts.live.keys())
        self._begun = {run_id: self._begun[run_id] for run_id in known}
        self._strays = {run_id: self._strays.get(run_id, now) for run_id in run_ids}
        for run_id, since in self._strays.items():
            if now - since > self._parts.settings.beat / 2:
                log.warning("run %s is nobody's work here, and is given back", run_id)
                self._parts.database.write_soon(partial(self._give_back, run_id=run_id))

    def _give_back(self, tx: Tx, run_id: str) -> None:
        """Give back a run; one that was never begun here has lost nothing, and goes on."""
        row = runs.get(tx, run_id)
        if row is None or row["worker_id"] != self._parts.worker_id:
            return
        begun = self._begun.get(run_id) == row["attempt"]
        give_up(tx, self._parts, row, lost=begun, begun=begun)
