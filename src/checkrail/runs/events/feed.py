"""The feed: what becomes of runs and what hooks do, of all runs, in one sequence."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from checkrail.runs.events.hub import Hub, Wakeup
from checkrail.store import records
from checkrail.store.database import Database
from checkrail.store.records import StoredRecord

_AT_ONCE = 500
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost
_LATE = 60.0  # seconds in which a write that has begun is kept, or never
_MOST_MISSING = 1000

Told = tuple[int, list[StoredRecord]]
"""Where to go on from, and what there is to tell."""


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
