"""Leftovers: the checkpoints of stateless runs that are over, deleted for many of them at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from checkrail.runs.graphs.thread_rows import delete_thread
from checkrail.store.health import find_trouble

log = logging.getLogger("checkrail.runs")

_EVERY = 0.2  # seconds
_MOST = 100


class CheckpointCleanup:
    """Deletes the checkpoints of stateless runs, which nobody needs any more."""

    def __init__(self, checkpointer: Any) -> None:
        self._checkpointer = checkpointer
        self._waiting: list[str] = []
        self._closing = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None

    def add(self, thread_id: str) -> None:
        """Delete the checkpoints of a thread, soon; without graphs, there are none."""
        if self._checkpointer is None:
            return
        self._waiting.append(thread_id)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def close(self) -> None:
        """Delete what waits, now."""
        self._closing.set()
        if self._sweeping is not None:
            await self._sweeping

    async def _sweep(self) -> None:
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._closing.wait()
            batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                await delete_thread(self._checkpointer, *batch)
            except Exception as error:
                if find_trouble(error) is not None and not self._closing.is_set():
                    self._waiting = batch + self._waiting  # until the database is back
                    continue
                log.exception("the checkpoints of %s stateless runs stay behind", len(batch))
        self._sweeping = None
