"""Following runs: their events from any point on, wherever they are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from checkrail.runs.errors import NotFoundError
from checkrail.runs.hub import Bell
from checkrail.runs.live import LiveRun
from checkrail.runs.parts import Parts
from checkrail.store import events, runs
from checkrail.store.database import Reads
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row

_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost


class Follower:
    """Reads what runs tell."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._read = partial(parts.database.read, patient=True)  # who follows waits with us

    async def ended(self, run_id: str) -> Row:
        """Wait until a run has ended, and give it."""
        live = self._parts.live.get(run_id)
        if live is not None:
            await asyncio.wait([live.ended])
            if not live.ended.cancelled():
                return live.ended.result()
        with Bell(self._parts.hub, ("run", run_id)) as bell:
            while True:
                row = await self._read(partial(_get, run_id=run_id))
                if row is None:
                    raise NotFoundError(f"the run {run_id!r} is gone: it was rolled back")
                if row["ended_at"] is not None:
                    return row
                await bell.wait(_LOOK_EVERY)

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of a run after a number, as they come, up to its end.

        A run that is gone, or whose events were forgotten, ends with what there is. An empty list
        says that for a while there was nothing.
        """
        with Bell(self._parts.hub, ("run", run_id)) as bell:
            while True:
                live = self._parts.live.get(run_id)
                source = self._live(live, bell, after) if live else self._kept(run_id, after)
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
    ) -> AsyncGenerator[tuple[Row | None, list[RunEvent]]]:
        """Yield the events of a thread's runs, one run after the other, for ever.

        Begins with the run that a number of the thread falls into, from its first event on. No
        run and no events says that for a while there was nothing.
        """
        read = self._read
        with Bell(self._parts.hub, ("thread", thread_id)) as bell:
            row = await read(lambda reads: runs.started_at_or_before(reads, thread_id, after))
            last = (0, 0)
            if row is not None and row["ended_at"] and row["base_seq"] + row["last_seq"] <= after:
                last, row = (row["base_seq"], row["seq"]), None
            while True:
                while row is not None:
                    async for batch in self.follow(row["run_id"]):
                        yield row, batch
                    last = (row["base_seq"], row["seq"])
                    row = await read(partial(_next, thread_id=thread_id, last=last))
                if not await bell.wait(_LOOK_EVERY):
                    yield None, []
                row = await read(partial(_next, thread_id=thread_id, last=last))

    async def _is_over(self, run_id: str, after: int) -> bool:
        """Return whether nothing more will come: all events up to the last one were given."""
        row = await self._read(partial(_get, run_id=run_id))
        if row is None:
            return True
        if row["ended_at"] is None:
            return False
        return not await self._read(partial(_after, run_id=run_id, seq=after))

    async def _kept(self, run_id: str, after: int) -> AsyncGenerator[list[RunEvent]]:
        while True:
            found = await self._read(partial(_after, run_id=run_id, seq=after))
            if not found:
                return
            yield found
            after = found[-1].seq

    async def _live(self, live: LiveRun, bell: Bell, after: int) -> AsyncGenerator[list[RunEvent]]:
        """Yield the events of a run that is here: those that were kept, then those that come."""
        tap = live.tap(bell.ring)
        try:
            if after or not _all_there(live, tap.waiting[0].seq if tap.waiting else None):
                async for batch in self._kept(live.run_id, after):
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


def _all_there(live: LiveRun, first: int | None) -> bool:
    """Return whether a live run has kept nothing yet, so that there is nothing to be read."""
    return first == 1 or (first is None and live.seq == 0)


def _get(reads: Reads, *, run_id: str) -> Row | None:
    return runs.get(reads, run_id)


def _after(reads: Reads, *, run_id: str, seq: int) -> list[RunEvent]:
    return events.after(reads, run_id, seq)


def _next(reads: Reads, *, thread_id: str, last: tuple[int, int]) -> Row | None:
    return runs.told_after(reads, thread_id, *last)
