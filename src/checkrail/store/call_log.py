"""The log of the gateway's calls: written many at once, by a writer for whom no call waits."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections import deque
from functools import partial

from checkrail.llm.call_record import CallRecord
from checkrail.store import gateway_calls
from checkrail.store.database import PATIENCE, Database

log = logging.getLogger("checkrail.gateway")

_AT_ONCE = 500
MOST = 20_000
"""How many calls wait for a database that is away, before the oldest of them are dropped."""


class CallLog:
    """Takes the records of calls, from any thread, and writes them.

    What comes in while a write is under way goes into the next one.
    """

    def __init__(self, database: Database, *, most: int = MOST) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: deque[CallRecord] = deque()
        self._most = most
        self._busy = False
        self._idle = threading.Event()
        self._idle.set()
        self._dropped = 0

    def __call__(self, record: CallRecord) -> None:
        """Take a record."""
        with self._lock:
            self._waiting.append(record)
            if len(self._waiting) > self._most:
                self._waiting.popleft()
                self._dropped += 1
            begin, self._busy = not self._busy, True
            self._idle.clear()
        if begin:
            self._write_next()

    def close(self) -> None:
        """Wait until all is written, unless the database is away."""
        self._idle.wait(PATIENCE)

    def _write_next(self) -> None:
        """Write what waits, if anything does."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            self._busy = bool(batch)
            if not batch:
                self._idle.set()
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("%d calls were not recorded: the database was away for too long", dropped)
        if batch:
            add = partial(gateway_calls.add, rows=batch)
            written = self._database.write_soon(add, patient=True)
            written.add_done_callback(partial(self._note_written, len(batch)))

    def _note_written(self, count: int, done: concurrent.futures.Future[None]) -> None:
        if (error := done.exception()) is not None:
            log.error("%d calls could not be recorded (%s)", count, type(error).__name__)
        self._write_next()
