"""The event log: keeps what live runs tell, for all of them in one write, many times a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from checkrail.runs import jsons
from checkrail.runs.live import LiveRun
from checkrail.store import events, records, runs, threads
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.events import RunEvent
from checkrail.store.health import DatabaseUnavailableError

log = logging.getLogger("checkrail.runs")

_EVERY = 0.02  # seconds


class EventLog:
    """Writes the pending events of live runs, and hook records."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._database = database
        self._worker_id = worker_id
        self._dirty: set[LiveRun] = set()
        self._records: list[dict[str, Any]] = []
        self._elsewhere: list[dict[str, Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._in_flight: frozenset[LiveRun] = frozenset()

    def dirty(self, live: LiveRun) -> None:
        """Note that a run has told something."""
        self._dirty.add(live)
        self._soon()

    def keep(self, record: dict[str, Any], *, elsewhere: bool = False) -> None:
        """Keep a hook record with the next write; of a run that may be executed `elsewhere`.

        There it is an event too, whose number only the database can tell.
        """
        self._records.append(record)
        if elsewhere:
            self._elsewhere.append(record)
        self._soon()

    def keep_all(self, kept: list[dict[str, Any]]) -> None:
        """Keep hook records that were taken for a write that failed."""
        self._records = kept + self._records
        self._soon()

    def _soon(self) -> None:
        if self._timer is None and self._flushing is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._begin)

    async def taken(self, live: LiveRun) -> list[RunEvent]:
        """Return what a run that is ending has told: it goes into its last transaction."""
        while live in self._in_flight and self._flushing is not None:
            await asyncio.shield(self._flushing)
        self._dirty.discard(live)
        if self._timer is not None and not self._dirty and not self._records:
            self._timer.cancel()  # or it would go off in the middle of a run that has just begun
            self._timer = None
        return live.pending

    def taken_records(self, run_id: str) -> list[dict[str, Any]]:
        """Return the records of a run that is ending."""
        mine = [row for row in self._records if row["run_id"] == run_id]
        if mine:
            self._records = [row for row in self._records if row["run_id"] != run_id]
        return mine

    async def flush(self) -> None:
        """Write everything now."""
        while self._dirty or self._records or self._flushing is not None:
            if self._flushing is None:
                self._begin()
            await asyncio.shield(self._flushing or asyncio.sleep(0))

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None and (self._dirty or self._records):
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        dirty, self._dirty = self._dirty, set()
        kept, self._records = self._records, []
        away, self._elsewhere = self._elsewhere, []
        batches = [(live, live.pending[-1].seq) for live in dirty if live.pending]
        rows = [
            (live.attempt, row)
            for live, _ in batches
            for row in events.rows_of(live.run_id, live.thread_id, live.pending)
        ]
        used = [(live, dict(live.usage)) for live in dirty if live.usage != live.usage_kept]
        self._in_flight = frozenset(live for live, _ in (*batches, *used))

        def write(tx: Tx) -> None:
            self._write(tx, rows, kept, away)
            for live, usage in used:
                mine = live.run_id, self._worker_id, live.attempt
                runs.change_owned(tx, *mine, usage=jsons.dumps(usage))

        try:
            await self._database.write(write, patient=True)
            for live, seq in batches:
                live.kept(seq)
            for live, usage in used:
                live.usage_kept = usage
        except Exception:
            log.exception("events could not be kept; they are tried again")
            self._dirty |= self._in_flight
            self._records = kept + self._records
            self._elsewhere = away + self._elsewhere
            await asyncio.sleep(0.5)
            await self._forget_taken([live for live, _ in batches])
        finally:
            self._flushing, self._in_flight = None, frozenset()
            if self._dirty or self._records:
                self._soon()

    async def _forget_taken(self, lives: list[LiveRun]) -> None:
        """Forget events whose numbers are taken: nothing else of this process may wait for them."""

        def last(reads: Reads) -> list[int]:
            return [events.last_seq(reads, live.run_id) for live in lives]

        with contextlib.suppress(DatabaseUnavailableError):
            for live, seq in zip(lives, await self._database.read(last), strict=True):
                live.kept(seq)

    def _write(
        self,
        tx: Tx,
        rows: list[tuple[int, dict[str, Any]]],
        kept: list[dict[str, Any]],
        away: list[dict[str, Any]],
    ) -> None:
        held = runs.held_attempts(tx, self._worker_id, [row["run_id"] for _, row in rows])
        mine = [row for attempt, row in rows if held.get(row["run_id"]) == attempt]
        events.add(tx, mine)
        records.add(tx, kept)
        for run_id in dict.fromkeys(row["run_id"] for row in away if row["run_id"]):
            self._tell(tx, run_id, [row for row in away if row["run_id"] == run_id])
        for row in mine:
            tx.tell("run", row["run_id"])
            tx.tell("thread", row["thread_id"])

    def _tell(self, tx: Tx, run_id: str, told: list[dict[str, Any]]) -> None:
        """Tell of the hooks of a run that a runner executes, behind what it has told."""
        threads.hold(tx, told[0]["thread_id"] or "")  # as always, before the run
        run = runs.lock(tx, run_id)
        if run is None or run["worker_id"] in (None, self._worker_id):
            return
        events.append(
            tx, run_id, run["thread_id"], [(row["event_type"], row["record"]) for row in told]
        )
        tx.tell("run", run_id)
        tx.tell("thread", run["thread_id"])
