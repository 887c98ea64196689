"""Notices: word from one server process to the others, through PostgreSQL."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable

from sqlalchemy import Engine, text

from checkrail.store.database import CHANNEL
from checkrail.store.health import find_trouble

log = logging.getLogger("checkrail.runs")

Notice = tuple[str, str]

_PAUSE = 0.005  # seconds in which notices of one kind become one
_SEND = text("SELECT pg_notify(:channel, :notice)")


class Notices:
    """Sends notices, each of them once in a while, and receives those of others."""

    def __init__(self, engine: Engine, heard: Callable[[list[Notice]], object]) -> None:
        self._engine = engine
        self._heard = heard
        self._waiting: queue.SimpleQueue[Notice | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"checkrail-{name}", daemon=True)
            for name, work in (("notify", self._send_loop), ("listen", self._listen_loop))
        ]
        for thread in self._threads:
            thread.start()

    def send(self, notices: Iterable[Notice]) -> None:
        """Send notices to other processes; from any thread, and without waiting."""
        for notice in notices:
            self._waiting.put(notice)

    def close(self) -> None:
        """Send what waits, and end."""
        self._stopping.set()
        self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _send_loop(self) -> None:
        more = True
        while more:
            batch: dict[Notice, None] = {}
            item = self._waiting.get()
            time.sleep(_PAUSE)
            while item is not None:
                batch[item] = None
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    break
            more = item is not None
            try:
                with self._engine.begin() as connection:
                    rows = [{"channel": CHANNEL, "notice": ":".join(each)} for each in batch]
                    if rows:
                        connection.execute(_SEND, rows)
            except Exception as error:  # noqa: BLE001 - whoever waits looks by itself, if later
                if find_trouble(error) is None:
                    log.warning("other servers could not be told: %s", type(error).__name__)

    def _listen_loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._receive()
            except Exception as error:  # noqa: BLE001 - the database may come back
                if find_trouble(error) is None:
                    log.warning("listening to other servers failed: %s", type(error).__name__)
                self._stopping.wait(1)

    def _receive(self) -> None:
        with contextlib.closing(self._engine.raw_connection()) as pooled:
            connection = pooled.driver_connection
            assert connection is not None  # noqa: S101
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}")
            try:
                while not self._stopping.is_set():
                    found = [
                        _parse_notice(notice.payload)
                        for notice in connection.notifies(timeout=0.5, stop_after=1)
                    ]
                    if found:
                        self._heard(found)
            finally:
                pooled.invalidate()


def _parse_notice(payload: str) -> Notice:
    topic, _, key = payload.partition(":")
    return topic, key
