"""The sink: every hook record goes into the database with the next write."""

from __future__ import annotations

import threading
from typing import Any

from checkrail.engine.records import HookRecord
from checkrail.runs import jsons
from checkrail.runs.eventlog import EventLog
from checkrail.runs.hub import Hub


class RecordSink:
    """Takes the records of a server's hooks, from any thread."""

    def __init__(self, hub: Hub, log: EventLog, worker_id: str) -> None:
        self._hub = hub
        self._worker_id = worker_id
        self._log = log
        self._thread = threading.get_ident()

    def __call__(self, record: HookRecord) -> None:
        """Take a record."""
        row = row_of(record) | {"worker_id": self._worker_id}
        if threading.get_ident() == self._thread:
            self._log.keep(row)
        elif not self._hub.loop.is_closed():
            self._hub.loop.call_soon_threadsafe(self._log.keep, row)


def row_of(record: HookRecord) -> dict[str, Any]:
    """Give a record as a row."""
    told = record.wire()
    user = told.get("user") or {}
    return {
        "record_id": told["record_id"],
        "event_type": told["event_type"],
        "run_id": told.get("run_id"),
        "thread_id": told.get("thread_id"),
        "owner": user.get("identity") if isinstance(user, dict) else None,
        "point": told["point"],
        "hook": record.hook,
        "created_at": record.time,
        "record": jsons.dumps(told),
    }
