"""The hub: wakes whoever waits for something in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Self

Key = tuple[str, str]
Heard = Callable[[], object]

WORK: Key = ("work", "")
"""Somewhere a run or a delivery is ready to be taken."""


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
