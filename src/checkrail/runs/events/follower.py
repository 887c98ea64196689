"""Following one run or all of them, from any point on, wherever they are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from checkrail.runs.errors import NotFoundError
from checkrail.runs.events.hub import Hub, Wakeup
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.services import RunServices
from checkrail.store import events, records, runs
from checkrail.store.database import Database, Reads
from checkrail.store.events import RunEvent
from checkrail.store.records import StoredRecord
from checkrail.store.runs import Run

_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost
_FIRST_LOOK = 1.0  # seconds: others may have begun with a new run before the bell was there
_AT_ONCE = 500  # records
_LATE = 60.0  # seconds in which a write that has begun is kept, or never
_MOST_MISSING = 1000

Told = tuple[int, list[StoredRecord]]
"""Where to go on from, and what there is to tell."""


class Follower:
    """Reads the events of runs."""

    def __init__(self, parts: RunServices) -> None:
        self._parts = parts
        self._read = partial(parts.database.read, patient=True)  # who follows waits with us

    async def wait_for_end(self, run_id: str) -> Run:
        """Wait until a run has ended, and return it."""
        live = self._parts.live.get(run_id)
        if live is not None:
            await asyncio.wait([live.ended])
            if not live.ended.cancelled():
                return live.ended.result()
        with Wakeup(self._parts.hub, ("run", run_id)) as bell:
            while True:
                row = await self._read(partial(_load_run, run_id=run_id))
                if row is None:
                    raise NotFoundError(f"the run {run_id!r} is gone: it was rolled back")
                if row.ended_at is not None:
                    return row
                await bell.wait(_LOOK_EVERY)

    async def follow(
        self, run_id: str, after: int = 0, *, is_new: bool = False
    ) -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of a run after a number, as they come, up to its end.

        A run that is gone, or whose events were forgotten, ends with what there is. An empty list
        says that for a while there was nothing. Of one that `is_new`, which nobody had begun with
        just now, nothing is looked for until there is word of it.
        """
        with Wakeup(self._parts.hub, ("run", run_id)) as bell:
            if is_new and run_id not in self._parts.live:
                await bell.wait(_FIRST_LOOK)
            while True:
                live = self._parts.live.get(run_id)
                source = (
                    self._live_batches(live, bell, after)
                    if live
                    else self._stored_batches(run_id, after)
                )
                async for batch in source:
                    if batch:
                        after = batch[-1].seq
                    yield batch
                    if batch and batch[-1].event == "end":
                        return
                if live or run_id in self._parts.live:
                    continue
                if await self._is_over(run_id, after):
                    return
                if not await bell.wait(_LOOK_EVERY):
                    yield []

    async def follow_thread(
        self, thread_id: str, after: int
    ) -> AsyncGenerator[tuple[Run | None, list[RunEvent]]]:
        """Yield the events of a thread's runs, one run after the other, for ever.

        Begins with the run that a number of the thread falls into, from its first event on. No
        run and no events says that this is all for now, or that for a while there was nothing.
        """
        read = self._read
        with Wakeup(self._parts.hub, ("thread", thread_id)) as bell:
            row = await read(lambda reads: runs.started_at_or_before(reads, thread_id, after))
            last = (0, 0)
            if row is not None and row.ended_at and row.base_seq + row.last_seq <= after:
                last, row = (row.base_seq, row.seq), None
            while True:
                while row is not None:
                    async for batch in self.follow(row.run_id):
                        yield row, batch
                    last = (row.base_seq, row.seq)
                    row = await read(partial(_find_next_run, thread_id=thread_id, last=last))
                yield None, []
                await bell.wait(_LOOK_EVERY)
                row = await read(partial(_find_next_run, thread_id=thread_id, last=last))

    async def _is_over(self, run_id: str, after: int) -> bool:
        """Return whether nothing more will come: all events up to the last one were yielded."""
        row = await self._read(partial(_load_run, run_id=run_id))
        if row is None:
            return True
        if row.ended_at is None:
            return False
        return not await self._read(partial(_load_events, run_id=run_id, seq=after))

    async def _stored_batches(self, run_id: str, after: int) -> AsyncGenerator[list[RunEvent]]:
        while True:
            found = await self._read(partial(_load_events, run_id=run_id, seq=after))
            if not found:
                return
            yield found
            after = found[-1].seq

    async def _live_batches(
        self, live: LiveRun, bell: Wakeup, after: int
    ) -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of a run that is here: those that are stored, then those that come."""
        tap = live.add_tap(bell.trigger)
        try:
            if after or not _has_all_events(live, tap.waiting[0].seq if tap.waiting else None):
                async for batch in self._stored_batches(live.run_id, after):
                    after = batch[-1].seq
                    yield batch
            while not tap.lagging:
                batch = [event for event in tap.waiting if event.seq > after]
                tap.clear()
                if batch:
                    after = batch[-1].seq
                    yield batch
                elif live.run_id not in self._parts.live:
                    return
                elif not await bell.wait(_LOOK_EVERY):
                    yield []
        finally:
            live.taps.discard(tap)


def _has_all_events(live: LiveRun, first: int | None) -> bool:
    """Return whether a live run has stored nothing yet, so that there is nothing to be read."""
    return first == 1 or (first is None and live.seq == 0)


def _load_run(reads: Reads, *, run_id: str) -> Run | None:
    return runs.get(reads, run_id)


def _load_events(reads: Reads, *, run_id: str, seq: int) -> list[RunEvent]:
    return events.load_after(reads, run_id, seq)


def _find_next_run(reads: Reads, *, thread_id: str, last: tuple[int, int]) -> Run | None:
    return runs.find_next_with_events(reads, thread_id, *last)


class Feed:
    """Reads the sequence from some number on.

    Numbers are given when a write begins, and by several servers, so a lower one may be kept after
    a higher one. What is missing is looked for until it has to be nothing; until then one who
    comes back is sent to the number before it, and may be told some things twice, but never misses
    any.
    """

    def __init__(
        self,
        database: Database,
        hub: Hub,
        after: int,
        only: records.FeedFilter = records.EVERYTHING,
    ) -> None:
        self._only = only
        self._database = database
        self._hub = hub
        self._last = after
        self._missing: dict[int, float] = {}

    async def follow(self) -> AsyncGenerator[Told]:
        """Yield rows as they come, for ever; an empty list means that there were none."""
        with Wakeup(self._hub, records.FEED) as bell:
            while True:
                rows = await self._read_rows()
                if rows:
                    yield self._safe_seq, rows
                if not rows and not await bell.wait(_LOOK_EVERY):
                    yield self._safe_seq, []

    @property
    def _safe_seq(self) -> int:
        """The number up to which nothing is missing."""
        return min(self._missing) - 1 if self._missing else self._last

    async def _read_rows(self) -> list[StoredRecord]:
        now = self._database.time()
        self._missing = {seq: since for seq, since in self._missing.items() if since > now - _LATE}
        last, missing = self._last, [*self._missing]
        rows = await self._database.read(
            lambda reads: records.load_after(reads, last, missing, _AT_ONCE, self._only),
            patient=True,
        )
        for row in rows:
            self._note_row(row, now)
        return rows

    def _note_row(self, row: StoredRecord, now: float) -> None:
        seq = row.seq
        if seq <= self._last:
            self._missing.pop(seq, None)
            return
        recent = self._database.postgres and row.created_at > now - _LATE
        if recent and seq - self._last <= _MOST_MISSING:
            self._missing |= dict.fromkeys(range(self._last + 1, seq), now)
        self._last = seq
