"""The sink: every hook record goes into the database with the next write, and to who listens."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from checkrail.engine.records import HookRecord
from checkrail.runs import jsons
from checkrail.runs.eventlog import EventLog
from checkrail.runs.hub import Hub
from checkrail.runs.live import LiveRun

_AROUND = ("before_run", "after_run", "on_run_error")
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
        row = row_of(record, self._worker_id)
        if threading.get_ident() == self._thread:
            self._take(row)
        elif not self._hub.loop.is_closed():
            self._hub.loop.call_soon_threadsafe(self._take, row)

    def _take(self, row: dict[str, Any]) -> None:
        """Keep a record; within an execution it is an event of the run as well."""
        live = self._live.get(row["run_id"] or "")
        if live is not None:
            live.note(row["event_type"], row["record"])
        self._log.keep(row, elsewhere=live is None and row["point"] not in _AROUND)


def row_of(record: HookRecord, worker_id: str) -> dict[str, Any]:
    """Return a record of a worker's hook as a row."""
    told = record.wire()
    return {
        "record_id": told["record_id"],
        "event_type": told["event_type"],
        "run_id": told.get("run_id"),
        "thread_id": told.get("thread_id"),
        "owner": told.get("user_id"),
        "worker_id": worker_id,
        "call_id": f"{worker_id} {record.started!r} {record.point} {record.hook}",
        "point": told["point"],
        "hook": record.hook,
        "created_at": record.time,
        "record": jsons.dumps(told),
    }
