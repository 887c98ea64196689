"""The hub wakes whoever waits for something in this process; notices wake other processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Self

from sqlalchemy import Engine, text

from checkrail.store.database import CHANNEL
from checkrail.store.health import find_trouble

Key = tuple[str, str]
Heard = Callable[[], object]

WORK: Key = ("work", "")
"""Somewhere a run or a delivery is ready to be taken."""

log = logging.getLogger("checkrail.runs")

Notice = tuple[str, str]

_PAUSE = 0.005  # seconds in which notices of one kind become one
_SEND = text("SELECT pg_notify(:channel, :notice)")


class Hub:
    """Calls back whoever listens for a key; all in one loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._listeners: dict[Key, set[Heard]] = {}

    def listen(self, key: Key, heard: Heard) -> Callable[[], None]:
        """Call back whenever a key is notified, until what is returned is called."""
        listeners = self._listeners.setdefault(key, set())
        listeners.add(heard)

        def unsubscribe() -> None:
            listeners.discard(heard)
            if not listeners and self._listeners.get(key) is listeners:
                del self._listeners[key]

        return unsubscribe

    def has_listeners(self, key: Key) -> bool:
        """Return whether anybody listens for a key."""
        return key in self._listeners

    def notify(self, keys: Iterable[Key]) -> None:
        """Wake the listeners of some keys."""
        if self._listeners:
            for key in keys:
                for heard in tuple(self._listeners.get(key, ())):
                    heard()

    def notify_soon(self, keys: Iterable[Key]) -> None:
        """Wake listeners, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.notify, keys)


class Wakeup:
    """An event that says that something may have changed since one last looked."""

    def __init__(self, hub: Hub, *keys: Key) -> None:
        self._rung = asyncio.Event()
        self._stops = [hub.listen(key, self._rung.set) for key in keys]

    async def wait(self, seconds: float) -> bool:
        """Wait until it is triggered, but not for ever: a notification may be lost."""
        is_late = False

        def give_up() -> None:
            nonlocal is_late
            is_late = True
            self._rung.set()

        if not self._rung.is_set():
            timer = asyncio.get_running_loop().call_later(seconds, give_up)
            try:
                await self._rung.wait()
            finally:
                timer.cancel()
        self._rung.clear()
        return not is_late

    def trigger(self) -> None:
        """Wake whoever waits."""
        self._rung.set()

    def close(self) -> None:
        """Listen no more."""
        for stop in self._stops:
            stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


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
