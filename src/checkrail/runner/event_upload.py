"""Telling a server what a run tells, in its order, and until the server has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from checkrail.runner.api import RequestRefused
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.jsons import Fragment
from checkrail.store.events import RunEvent

_EVERY = 0.02  # seconds
_AT_ONCE = 500  # events
_BYTES = 1 << 20

Send = Callable[[list[Any], Mapping[str, Any] | None], Awaitable[object]]
"""Sends events, and what the run has used so far if that is news."""


class EventUpload:
    """Sends the events of one run; `refused` is called when the server does not take them."""

    def __init__(self, send: Send, refused: Callable[[RequestRefused], object]) -> None:
        self._send = send
        self._refused = refused
        self._sending: asyncio.Task[None] | None = None

    def mark_dirty(self, live: LiveRun) -> None:
        """Note that a run has emitted something."""
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._upload_loop(live))

    async def flush(self) -> None:
        """Wait until everything was taken, or refused."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    def close(self) -> None:
        """Send nothing any more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _upload_loop(self, live: LiveRun) -> None:
        try:
            await asyncio.sleep(_EVERY)
            while live.pending or live.usage != live.usage_kept:
                batch, usage = _next_batch(live.pending), dict(live.usage)
                now = time.time()
                told = [
                    (each.seq, each.event, each.ns, Fragment(each.raw), max(0.0, now - each.time))
                    for each in batch
                ]
                await self._send(told, usage if usage != live.usage_kept else None)
                live.mark_usage_stored(usage)
                if batch:
                    live.mark_stored(batch[-1].seq)
        except RequestRefused as refused:
            live.drop_pending()
            self._refused(refused)
        finally:
            self._sending = None


def _next_batch(pending: list[RunEvent]) -> list[RunEvent]:
    """Return the first events, but not too much at a time."""
    size = 0
    for number, event in enumerate(pending[:_AT_ONCE]):
        size += len(event.raw)
        if size > _BYTES and number:
            return pending[:number]
    return pending[:_AT_ONCE]
