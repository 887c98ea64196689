"""The project's channels: opened, closed, and received for by one process where that has to be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from checkrail.channels.protocol import (
    Address,
    Channel,
    IdReused,
    Inbound,
    Reply,
    WebRequest,
)
from checkrail.config.sessions import ChannelConfig
from checkrail.engine.values import User
from checkrail.llm.timeouts import run_with_timeout
from checkrail.runs.admit.requests import Principal
from checkrail.runs.approvals import Approver
from checkrail.runs.errors import (
    SOON,
    ConflictError,
    InvalidError,
    NotFoundError,
    RequestError,
    TooManyError,
)
from checkrail.runs.services import RunServices
from checkrail.sessions.incoming import Inbox, Incoming
from checkrail.sessions.questions import ChannelQuestions
from checkrail.sessions.replies import ChannelSet, close_channel
from checkrail.store import messages

log = logging.getLogger("checkrail.sessions")

StopConversation = Callable[[Address, str], Awaitable[None]]
"""Stops what an agent does for a sender in a conversation."""

_OPENING = 15.0  # seconds
_ALBUM = 1.0  # seconds: the pictures of one come one by one


class ChannelClosedError(RequestError):
    """A channel takes nothing yet, or not in this process."""

    status = 503
    error = "channel_closed"
    retry_after = SOON


class ChannelHost:
    """Runs the channels of a project."""

    def __init__(
        self,
        parts: RunServices,
        *,
        inbox: Inbox,
        approver: Approver,
        stop: StopConversation,
        channels: ChannelSet,
        configs: Sequence[ChannelConfig],
    ) -> None:
        self._parts = parts
        self._inbox = inbox
        self._stop = stop
        self._configs = {each.name: each for each in configs}
        self.channels = channels.by_name
        self._channel_set = channels
        self._open: set[str] = set()
        self._failures: dict[str, str] = {}
        self.questions = ChannelQuestions(parts, approver, channels, self._configs)
        for channel in self.channels.values():
            channel.outbound = parts.outbound

    async def open_channels(self) -> None:
        """Open every channel that this process may receive for, and is not open yet.

        One for which another process receives by now, because this one was away, is let go.
        """
        for name in [each for each in self._open if self.channels[each].singleton]:
            if not await self._hold(name):
                await self._let_go(name)
        closed = [channel for name, channel in self.channels.items() if name not in self._open]
        await asyncio.gather(*map(self._open_channel, closed))

    async def _open_channel(self, channel: Channel) -> None:
        name = channel.name
        if channel.singleton and not await self._hold(name):
            return
        try:
            await run_with_timeout(_OPENING, channel.open(partial(self._accept, channel)))
        except Exception as error:
            if self._failures.get(name) != str(error):  # once for each way to fail
                log.exception("channel %s could not be opened; it is tried again", name)
            self._failures[name] = str(error)
        else:
            self._failures.pop(name, None)
            self._open.add(name)

    async def _let_go(self, name: str) -> None:
        """Receive no more for a channel; what is sent on it goes out all the same."""
        log.warning("another process receives for channel %s by now, and this one ends", name)
        self._open.discard(name)
        old = self.channels[name]
        self._channel_set.replace(self._make_channel(name))
        await close_channel(old, self._parts.settings.stop_grace)

    def _make_channel(self, name: str) -> Channel:
        channel: Channel = self._configs[name].make_channel()
        channel.outbound = self._parts.outbound
        return channel

    async def answer(self, name: str, request: WebRequest) -> Reply:
        """Answer a request of the service behind a channel."""
        channel = self.channels.get(name)
        if channel is None:
            raise NotFoundError(f"channel {name!r} not found")
        if name not in self._open:
            raise ChannelClosedError(f"channel {name!r} is not open here. Try again soon")
        return await channel.answer(request)

    async def close(self) -> None:
        """Close all channels, and let other processes receive for them."""
        self._open.clear()
        await self._channel_set.close(self._parts.settings.stop_grace)
        worker = self._parts.worker_id
        await self._parts.database.write(lambda tx: messages.release_receivers(tx, worker))

    async def _hold(self, name: str) -> bool:
        worker = self._parts.worker_id
        return await self._parts.database.write(lambda tx: messages.hold_receiver(tx, name, worker))

    async def _accept(self, channel: Channel, arrived: Sequence[Inbound]) -> None:
        """Store what has arrived on a channel; when this returns, it is safe."""
        for each in arrived:
            if each.kind == "answer":
                await self.questions.take_answer(channel, each)
            elif each.kind == "stop":
                await self._stop(each.address, each.sender)
            elif each.kind == "message":
                await self._accept_message(channel, each)
            else:
                log.info("channel %s: nothing is done about this kind: %s", channel.name, each.kind)

    async def _accept_message(self, channel: Channel, inbound: Inbound) -> None:
        try:
            await self._inbox.accept([self._to_incoming(channel, inbound)])
        except ConflictError as error:
            if inbound.digest is not None:  # the sender chose the id, and is told
                raise IdReused(str(error)) from None
            log.warning("a message on channel %s is left out: %s", channel.name, error)
        except (InvalidError, NotFoundError) as error:  # it would be the same the next time
            log.warning("a message on channel %s is left out: %s", channel.name, error)
        except TooManyError as error:
            if not channel.singleton:
                raise
            # Where messages are fetched, one that is not taken holds up those of everybody else.
            log.warning(
                "a message of %s on %s is left out: %s", inbound.sender, channel.name, error
            )

    def _to_incoming(self, channel: Channel, inbound: Inbound) -> Incoming:
        config = self._configs.get(channel.name)
        return Incoming(
            channel=channel.name,
            account=inbound.address.account,
            external_id=inbound.external_id,
            sender=Principal(User(inbound.sender), inbound.sender),
            text=inbound.text,
            agent_name=None if config is None else config.agent,
            keeps_unanswered=True,
            address=inbound.address,
            attachments=[
                {"name": each.name, "content_type": each.content_type, "size": each.size}
                | {"reference": dict(each.reference)}
                for each in inbound.attachments
            ],
            metadata=inbound.metadata,
            group=inbound.group,
            settle=_settle_seconds(config, inbound),
            body_digest=inbound.digest,
        )


def _settle_seconds(config: ChannelConfig | None, inbound: Inbound) -> float:
    """Return how long a message waits for what belongs to it."""
    pause = 0.0 if config is None else config.debounce_seconds
    return max(pause, _ALBUM) if inbound.group is not None else pause
