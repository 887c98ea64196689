"""The session service: messages in, replies out, and the sessions around them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from checkrail.channels.protocol import Address
from checkrail.config.sessions import ChannelConfig, SessionsConfig
from checkrail.runs.approvals import QUESTION
from checkrail.runs.errors import NotFoundError, RequestError
from checkrail.runs.events.hub import Wakeup
from checkrail.runs.finish.finish_hooks import FinishHooks
from checkrail.runs.finish.question_ends import QUESTION_ENDED
from checkrail.runs.finish.session_ends import (
    POINT,
    SessionEndHooks,
    end_idle_sessions,
    end_session,
)
from checkrail.runs.run_service import Runs
from checkrail.sessions.channel_host import ChannelHost
from checkrail.sessions.handling import MessageHandler
from checkrail.sessions.incoming import Inbox, Incoming
from checkrail.sessions.message_worker import MessageWorker
from checkrail.sessions.replies import REPLY, ChannelSet, ReplySender, TypingSigns, conversation_key
from checkrail.store import messages, sessions
from checkrail.store.database import Tx
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.messages import Message

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

log = logging.getLogger("checkrail.sessions")

_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost
_MINUTE = 60.0


async def last_of(changes: AsyncIterator[Message]) -> Message:
    """Return a message that is followed, when it has ended."""
    async for row in changes:
        found = row
    return found


class Sessions:
    """Takes in messages, handles them, and ends sessions."""

    def __init__(
        self,
        runs: Runs,
        config: SessionsConfig,
        configs: Sequence[ChannelConfig],
    ) -> None:
        self._runs = runs
        self._parts = runs.parts
        self._config = config
        channels = ChannelSet({each.name: each.make_channel() for each in configs})
        self._typing = TypingSigns(runs.parts, channels)
        self.handler = MessageHandler(
            runs, config, channels.capabilities, on_run=self._typing.start
        )
        self.worker = MessageWorker(runs.parts, self.handler)
        self.inbox = Inbox(runs.parts, config, self.worker)
        self.host = ChannelHost(
            runs.parts,
            inbox=self.inbox,
            approver=runs.approver,
            stop=self.stop_conversation,
            channels=channels,
            configs=configs,
        )
        self._finish = FinishHooks(runs.hook_runs)
        runs.deliverer.add_kind(REPLY, ReplySender(channels).send)
        runs.deliverer.add_kind(QUESTION, self.host.questions.post)
        runs.deliverer.add_kind(QUESTION_ENDED, self.host.questions.close)
        runs.deliverer.add_kind(str(POINT), SessionEndHooks(runs.parts, self._finish).fire)

    async def accept(self, incoming: Incoming) -> Message:
        """Store a message, and return it; one that came before is as it is now."""
        [row] = await self.inbox.accept([incoming])
        return row

    async def get_message(self, message_id: str) -> Message:
        """Return a message as it is now."""
        row = await self._parts.database.read(lambda reads: messages.get(reads, message_id))
        if row is None:
            raise NotFoundError(f"message {message_id!r} not found")
        return row

    async def follow_message(self, message_id: str) -> AsyncGenerator[Message]:
        """Yield a message as it is now, whenever it may have changed, until it has ended.

        One that has not changed for a while is yielded too.
        """
        with Wakeup(self._parts.hub, ("message", message_id)) as bell:
            while True:
                row = await self.get_message(message_id)
                yield row
                if row.ended_at is not None:
                    return
                await bell.wait(_LOOK_EVERY)

    async def wait_for_reply(self, message_id: str) -> Message:
        """Return a message when it has ended."""
        return await last_of(self.follow_message(message_id))

    async def has_session(self, session_id: str) -> bool:
        """Return whether there is a session of an id."""
        found = await self._parts.database.read(lambda reads: sessions.get(reads, session_id))
        return found is not None

    def can_stream(self, row: Message) -> bool:
        """Return whether a reply may be shown as it is made: no hook may change or refuse it."""
        return self.handler.can_stream(row)

    async def end(self, session_id: str, reason: str) -> bool:
        """End a session: its runs are cancelled first; False: it has ended already."""
        await self._stop_runs(session_id)
        ended: bool = await self._parts.database.write(
            lambda tx: end_session(tx, self._parts, session_id, reason)
        )
        await self._stop_runs(session_id)  # one that was admitted just before
        return ended

    async def _stop_runs(self, session_id: str) -> None:
        with contextlib.suppress(RequestError):  # it does nothing now, or not any more
            await self._runs.stop_session(session_id)

    async def stop_conversation(self, address: Address, sender: str) -> None:
        """Stop what an agent does for somebody in a conversation, and for nobody else there."""
        key = conversation_key(address, sender)
        place = await self._parts.database.read(
            lambda reads: messages.find_conversation(reads, key)
        )
        if place is not None:
            await self._stop_runs(place[0])

    async def serve(self) -> None:
        """End sessions that are idle for too long and recover what others left, until cancelled."""
        while True:
            try:
                await self.worker.recover()
                while await self._end_idle():
                    pass
                await self.host.open_channels()
            except DatabaseUnavailableError:
                pass  # it is logged where it is found out
            except Exception:
                log.exception("something about sessions failed; it is tried again")
            await asyncio.sleep(self._sweep_every)

    @property
    def _sweep_every(self) -> float:
        idle, beat = self._config.idle_minutes * _MINUTE, self._parts.settings.beat
        return min(beat, max(0.05, idle / 4)) if idle else beat

    async def _end_idle(self) -> int:
        idle = self._config.idle_minutes * _MINUTE
        if not idle:
            return 0
        return await self._parts.database.write(partial(self._end_idle_in_tx, idle=idle))

    def _end_idle_in_tx(self, tx: Tx, idle: float) -> int:
        return end_idle_sessions(tx, self._parts, tx.time() - idle, "idle")

    async def close(self) -> None:
        """Receive nothing more, and finish what is under way."""
        await self._typing.close()
        await self.host.close()
        await self.worker.close()
        if self._config.end_at_shutdown and self._parts.alone:
            while await self._parts.database.write(self._end_all_in_tx):
                pass
        await self._finish.close()

    def _end_all_in_tx(self, tx: Tx) -> int:
        return end_idle_sessions(tx, self._parts, tx.time(), "shutdown")


@contextlib.asynccontextmanager
async def open_sessions(
    runs: Runs, config: SessionsConfig, channels: Sequence[ChannelConfig] = ()
) -> AsyncIterator[Sessions]:
    """Open the session service of a server, and serve until closed."""
    service = Sessions(runs, config, channels)
    await service.host.open_channels()
    works: list[Coroutine[Any, Any, None]] = [service.worker.serve(), service.serve()]
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        yield service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await service.close()
