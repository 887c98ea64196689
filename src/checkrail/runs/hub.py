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
        """Call back whenever a key is told, until what is returned is called."""
        listeners = self._listeners.setdefault(key, set())
        listeners.add(heard)

        def stop() -> None:
            listeners.discard(heard)
            if not listeners and self._listeners.get(key) is listeners:
                del self._listeners[key]

        return stop

    def has(self, key: Key) -> bool:
        """Return whether anybody listens for a key."""
        return key in self._listeners

    def tell(self, keys: Iterable[Key]) -> None:
        """Wake the listeners of some keys."""
        if self._listeners:
            for key in keys:
                for heard in tuple(self._listeners.get(key, ())):
                    heard()

    def tell_soon(self, keys: Iterable[Key]) -> None:
        """Wake listeners, from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.tell, keys)


class Bell:
    """An event that says that something may have changed since one last looked."""

    def __init__(self, hub: Hub, *keys: Key) -> None:
        self._rung = asyncio.Event()
        self._stops = [hub.listen(key, self._rung.set) for key in keys]

    async def wait(self, seconds: float) -> bool:
        """Wait until it rings, but not for ever: a word that was lost costs no more than this."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    def ring(self) -> None:
        """Ring it."""
        self._rung.set()

    def close(self) -> None:
        """Listen no more."""
        for stop in self._stops:
            stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
