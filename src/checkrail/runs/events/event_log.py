"""The event log: keeps what live runs tell, for all of them in one write, many times a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping

from checkrail.engine.records import HookRecord, RecordKind
from checkrail.runs import jsons
from checkrail.runs.events.hub import Hub
from checkrail.runs.execute.live_run import LiveRun
from checkrail.store import events, records, runs, threads
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.events import EventRow, RunEvent
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.records import HookCounts, StoredRecord

log = logging.getLogger("checkrail.runs")

_EVERY = 0.02  # seconds


class EventLog:
    """Writes the pending events of live runs, and hook records."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._database = database
        self._worker_id = worker_id
        self._dirty: set[LiveRun] = set()
        self._records: list[StoredRecord] = []
        self._elsewhere: list[StoredRecord] = []
        self._uncounted: list[tuple[str, HookCounts]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._in_flight: frozenset[LiveRun] = frozenset()

    def mark_dirty(self, live: LiveRun) -> None:
        """Note that a run has emitted something."""
        self._dirty.add(live)
        self._schedule_flush()

    def add_record(self, record: StoredRecord, *, elsewhere: bool = False) -> None:
        """Store a hook record with the next write; of a run that may be executed `elsewhere`.

        There it is an event too, whose number only the database can tell.
        """
        self._records.append(record)
        if elsewhere:
            self._elsewhere.append(record)
        self._schedule_flush()

    def count_later(self, run_id: str, counts: HookCounts) -> None:
        """Count calls of hooks in a run with the next write: this process does not end it."""
        if counts.calls:
            self._uncounted.append((run_id, counts))
            self._schedule_flush()

    def restore_records(self, kept: list[StoredRecord]) -> None:
        """Put back hook records that were taken for a write that failed."""
        self._records = kept + self._records
        self._schedule_flush()

    def _schedule_flush(self) -> None:
        if self._timer is None and self._flushing is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._start_flush)

    async def take_events(self, live: LiveRun) -> list[RunEvent]:
        """Return the pending events of a run that is ending: they go into its last transaction."""
        while live in self._in_flight and self._flushing is not None:
            await asyncio.shield(self._flushing)
        self._dirty.discard(live)
        if self._timer is not None and not self._has_pending:
            self._timer.cancel()  # or it would go off in the middle of a run that has just begun
            self._timer = None
        return live.pending

    def take_records(self, run_id: str) -> list[StoredRecord]:
        """Return the pending records of a run that is ending."""
        mine = [row for row in self._records if row.run_id == run_id]
        if mine:
            self._records = [row for row in self._records if row.run_id != run_id]
        return mine

    async def flush(self) -> None:
        """Write everything now."""
        while self._has_pending or self._flushing is not None:
            if self._flushing is None:
                self._start_flush()
            await asyncio.shield(self._flushing or asyncio.sleep(0))

    @property
    def _has_pending(self) -> bool:
        return bool(self._dirty or self._records or self._uncounted)

    def _start_flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None and self._has_pending:
            self._flushing = asyncio.get_running_loop().create_task(self._write_pending())

    async def _write_pending(self) -> None:
        dirty, self._dirty = self._dirty, set()
        kept, self._records = self._records, []
        away, self._elsewhere = self._elsewhere, []
        uncounted, self._uncounted = self._uncounted, []
        late = [row for row in kept if row.point in FINISH_POINTS]
        counts = [*uncounted, *records.count_by_run([*late, *away]).items()]
        batches = [(live, live.pending[-1].seq) for live in dirty if live.pending]
        rows = [
            (live.attempt, row)
            for live, _ in batches
            for row in events.rows_of(live.run_id, live.thread_id, live.pending)
        ]
        used = [(live, dict(live.usage)) for live in dirty if live.usage != live.usage_kept]
        self._in_flight = frozenset(live for live, _ in (*batches, *used))

        def write_batch(tx: Tx) -> None:
            self._insert_rows(tx, rows, kept, away)
            for run_id, more in counts:
                runs.count_hooks(tx, run_id, more)
            for live, usage in used:
                mine = live.run_id, self._worker_id, live.attempt
                runs.update_owned(tx, *mine, usage=jsons.dumps(usage))

        try:
            await self._database.write(write_batch, patient=True)
            for live, seq in batches:
                live.mark_stored(seq)
            for live, usage in used:
                live.mark_usage_stored(usage)
        except Exception:
            log.exception("events could not be kept; they are tried again")
            self._dirty |= self._in_flight
            self._records = kept + self._records
            self._elsewhere = away + self._elsewhere
            self._uncounted = uncounted + self._uncounted
            await asyncio.sleep(0.5)
            await self._drop_stale_events([live for live, _ in batches])
        finally:
            self._flushing, self._in_flight = None, frozenset()
            if self._has_pending:
                self._schedule_flush()

    async def _drop_stale_events(self, lives: list[LiveRun]) -> None:
        """Forget events whose numbers are taken: nothing else of this process may wait for them."""

        def load_last_seqs(reads: Reads) -> list[int]:
            return [events.last_seq(reads, live.run_id) for live in lives]

        with contextlib.suppress(DatabaseUnavailableError):
            for live, seq in zip(lives, await self._database.read(load_last_seqs), strict=True):
                live.mark_stored(seq)

    def _insert_rows(
        self,
        tx: Tx,
        rows: list[tuple[int, EventRow]],
        kept: list[StoredRecord],
        away: list[StoredRecord],
    ) -> None:
        held = runs.held_attempts(tx, self._worker_id, [row.run_id for _, row in rows])
        mine = [row for attempt, row in rows if held.get(row.run_id) == attempt]
        events.add(tx, mine)
        records.add(tx, kept)
        for run_id in dict.fromkeys(row.run_id for row in away if row.run_id):
            self._append_hook_events(tx, run_id, [row for row in away if row.run_id == run_id])
        for row in mine:
            tx.publish("run", row.run_id)
            tx.publish("thread", row.thread_id)

    def _append_hook_events(self, tx: Tx, run_id: str, told: list[StoredRecord]) -> None:
        """Append the hook events of a run that a runner executes, behind those that it has sent."""
        threads.lock_only(tx, told[0].thread_id or "")  # as always, before the run
        run = runs.lock(tx, run_id)
        if run is None or run.worker_id in (None, self._worker_id):
            return
        events.append_events(
            tx, run_id, run.thread_id, [(row.event_type, whole_record(row)) for row in told]
        )
        tx.publish("run", run_id)
        tx.publish("thread", run.thread_id)


FINISH_POINTS = ("after_run", "on_run_error")
_AROUND = ("before_run", *FINISH_POINTS)
"""Points of a run that are not within its execution."""


class RecordSink:
    """Takes the records of a server's hooks, from any thread."""

    def __init__(
        self, hub: Hub, log: EventLog, worker_id: str, live: Mapping[str, LiveRun]
    ) -> None:
        self._hub = hub
        self._worker_id = worker_id
        self._log = log
        self._live = live
        self._thread = threading.get_ident()

    def __call__(self, record: HookRecord) -> None:
        """Take a record."""
        row = record_row(record, self._worker_id)
        if threading.get_ident() == self._thread:
            self._add_record(row)
        elif not self._hub.loop.is_closed():
            self._hub.loop.call_soon_threadsafe(self._add_record, row)

    def _add_record(self, row: StoredRecord) -> None:
        """Store a record; within an execution it is an event of the run as well."""
        live = self._live.get(row.run_id or "")
        if live is not None:
            live.hook_counts.add(row)
            live.note_hook(row.event_type, whole_record(row), row.created_at)
        self._log.add_record(row, elsewhere=live is None and row.point not in _AROUND)


def whole_record(row: StoredRecord) -> bytes:
    """Return a record that is about to be stored, with its values, as JSON."""
    record: bytes = row.record
    return record if row.change is None else record[:-1] + b"," + row.change[1:]


_VALUES = ("before", "after")


def record_row(record: HookRecord, worker_id: str) -> StoredRecord:
    """Return a record of a worker's hook as a row."""
    told = record.wire()
    change = {name: told.pop(name) for name in _VALUES if name in told}
    is_ending = record.kind is not RecordKind.START
    return StoredRecord(
        record_id=told["record_id"],
        event_type=told["event_type"],
        run_id=told.get("run_id"),
        thread_id=told.get("thread_id"),
        owner=told.get("user_id"),
        worker_id=worker_id,
        call_id=record.call_id,
        agent_name=told.get("agent_name"),
        point=told["point"],
        hook=record.hook,
        created_at=record.time,
        record=jsons.dumps(told),
        change=jsons.dumps(change) if change else None,
        decision=told.get("decision"),
        failure=record.failure,
        changed=record.changed if is_ending else None,
        shadow=record.shadow,
        duration_ms=record.duration_ms,
    )
