"""Replies on channels: the sign that one is written, and its parts, in order for each address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from checkrail.actions.errors import OutboundRefused, OutboundUnreachable
from checkrail.channels.protocol import (
    Address,
    Capabilities,
    Channel,
    ChannelError,
    Outbound,
    Refused,
    RetryLater,
    Unknown,
)
from checkrail.channels.text_parts import Measures, split_text
from checkrail.engine.errors import CodeExited, error_type
from checkrail.llm.timeouts import WorkCancelledItself, WorkTimedOut, run_with_timeout
from checkrail.runs import jsons
from checkrail.runs.finish.deliverer import DeliveryError, DeliveryRefused
from checkrail.runs.services import RunServices
from checkrail.store import messages, runs
from checkrail.store.database import Reads
from checkrail.store.deliveries import Delivery
from checkrail.store.messages import RUNNING, Message
from checkrail.times import uuid7

log = logging.getLogger("checkrail.sessions")

T = TypeVar("T")

_CALLING = 60.0  # seconds that a call of a channel may take

REPLY = "reply"
"""The kind of deliveries that are parts of a reply."""


def plain_address(address: Address) -> dict[str, Any]:
    """Return an address as it is stored."""
    return {name: getattr(address, name) for name in Address.__slots__}


def address_key(address: Address) -> str:
    """Return what tells one address from all others."""
    return jsons.dumps([*plain_address(address).values()]).decode()


def conversation_key(address: Address, sender: str) -> str:
    """Return what tells what one person says at an address from all else."""
    return jsons.dumps([*plain_address(address).values(), sender]).decode()


def build_parts(row: Message, text: str | None, measures: Measures, now: float) -> list[Delivery]:
    """Return what is owed to the channel of a message for its reply."""
    if row.address is None or not text:
        return []
    address = Address(**row.address)
    return [
        Delivery(
            delivery_id=uuid7(),
            run_id=row.run_id,
            session_id=row.session_id,
            address=address_key(address),
            kind=REPLY,
            payload=jsons.dumps({"address": row.address, "text": part}),
            status="owed",
            attempts=0,
            due_at=now,
            created_at=now,
        )
        for part in split_text(text, measures(address.channel))
    ]


_ANYTHING = Capabilities(max_text=1_000_000)


class ChannelSet:
    """The channels of a project, for whoever sends something on them."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self.by_name = dict(channels)
        self._in_use = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._closed = False

    def replace(self, channel: Channel) -> None:
        """Use a channel in place of the one that had its name."""
        self.by_name[channel.name] = channel

    def capabilities(self, name: str) -> Capabilities:
        """Return what a channel can do."""
        channel = self.by_name.get(name)
        return _ANYTHING if channel is None else channel.capabilities

    @contextlib.asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Channel]:
        """Use a channel; what it raises is raised as what a delivery does then."""
        if self._closed:
            raise DeliveryError("the server stops, and another one sends this")
        channel = self.by_name.get(name)
        if channel is None:
            raise DeliveryRefused(f"the project has no channel {name!r} any more")
        self._in_use += 1
        self._unused.clear()
        try:
            with _raise_as_delivery():
                yield channel
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._unused.set()

    async def close(self, grace: float) -> None:
        """Let nothing more be sent, finish what is under way, and close all channels."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._unused.wait(), grace)
        await asyncio.gather(*(close_channel(each, grace) for each in self.by_name.values()))


async def call_channel(work: Coroutine[Any, Any, T]) -> T:
    """Return what a channel returns for a call; it ends neither this process nor its own call."""
    try:
        return await run_with_timeout(_CALLING, work)
    except WorkTimedOut:
        raise Unknown(f"the channel took longer than {_CALLING:g} seconds") from None
    except WorkCancelledItself as error:
        raise CodeExited(asyncio.CancelledError()) from error


async def close_channel(channel: Channel, grace: float) -> None:
    """Close a channel, whatever it raises and however long it takes."""
    try:
        await run_with_timeout(grace, channel.close())
    except Exception:
        log.exception("channel %s could not be closed", channel.name)


class ReplySender:
    """Sends parts of replies on the project's channels."""

    def __init__(self, channels: ChannelSet) -> None:
        self._channels = channels

    async def send(self, row: Delivery) -> None:
        """Send one part, or raise whether it is worth trying again."""
        told: Any = row.payload
        address = Address(**told["address"])
        async with self._channels.use(address.channel) as channel:
            part = Outbound(told["text"])
            await call_channel(channel.send(address, part, delivery_id=row.delivery_id))


@contextlib.contextmanager
def _raise_as_delivery() -> Iterator[None]:
    """Raise what a channel says of a message that was not sent as what a delivery does then."""
    try:
        yield
    except Refused as error:
        raise DeliveryRefused(str(error)) from None
    except OutboundRefused:
        raise
    except ChannelError as error:
        after = error.after if isinstance(error, RetryLater) else None
        raise DeliveryError(str(error), after) from None
    except OutboundUnreachable as error:
        raise DeliveryError(str(error)) from None
    except Exception as error:
        log.exception("a channel failed to send")
        raise DeliveryError(f"the channel failed with {error_type(error)}") from None


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
