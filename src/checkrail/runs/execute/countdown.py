"""The time that a run may take, which does not pass while somebody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Countdown:
    """Calls back when a time is over; it is paused while somebody is asked."""

    def __init__(self, over: Callable[[], object]) -> None:
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._left: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = 0

    def start(self, seconds: float | None) -> None:
        """Count from now on; without seconds there is no end."""
        self._left = seconds
        self._start_timer()

    def finish(self) -> float | None:
        """Count no more, and return the seconds that are left."""
        self._cancel_timer()
        left, self._left = self._left, None
        return left

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the countdown inside; several may be inside at once."""
        self._paused += 1
        self._cancel_timer()
        try:
            yield
        finally:
            self._paused -= 1
            self._start_timer()

    def _start_timer(self) -> None:
        if self._left is not None and self._timer is None and not self._paused:
            self._timer = self._loop.call_later(self._left, self._over)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None
