"""Typing: while an agent works on an answer, its channel shows that one is being written."""

from __future__ import annotations

import asyncio
import logging

from checkrail.channels.protocol import Address
from checkrail.runs.services import RunServices
from checkrail.sessions.sending import ChannelSet, call_channel
from checkrail.store import messages, runs
from checkrail.store.database import Reads
from checkrail.store.messages import RUNNING, Message

log = logging.getLogger("checkrail.sessions")

_SOON = 1.0  # seconds: an answer that is there by then needs no sign
_WAITING = 30.0  # seconds between looks at a run that waits for somebody


class TypingSigns:
    """Shows on channels that agents are at work."""

    def __init__(self, parts: RunServices, channels: ChannelSet) -> None:
        self._parts = parts
        self._channels = channels
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, row: Message) -> None:
        """Show it from now on where a message came from, until its run has ended."""
        if row.address is None:
            return
        address = Address(**row.address)
        if self._channels.capabilities(address.channel).typing:
            task = asyncio.get_running_loop().create_task(self._show(row, address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Show it no more."""
        for task in (tasks := [*self._tasks]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _is_working(self, row: Message) -> bool | None:
        return await self._parts.database.read(lambda reads: _works(reads, row))

    async def _show(self, row: Message, address: Address) -> None:
        lasts = self._channels.capabilities(address.channel).typing_seconds
        await asyncio.sleep(_SOON)
        try:
            while (works := await self._is_working(row)) is not None:
                if works:
                    async with self._channels.use(address.channel) as channel:
                        await call_channel(channel.show_typing(address))
                await asyncio.sleep(lasts if works else _WAITING)
        except Exception as error:  # noqa: BLE001 - the answer comes all the same
            log.debug("typing is not shown on %s: %s", address.channel, type(error).__name__)


def _works(reads: Reads, row: Message) -> bool | None:
    """Return whether the run of a message is at work, and does not wait; None: it has ended."""
    now, run = messages.get(reads, row.message_id), runs.get(reads, row.run_id)
    if now is None or now.status != RUNNING or run is None or run.ended_at is not None:
        return None
    return bool(run.phase != "waiting")
