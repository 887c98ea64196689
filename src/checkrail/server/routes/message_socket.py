"""Conversations over a WebSocket: messages in, and what becomes of them as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import WebSocket
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketDisconnect

from checkrail.runs import jsons
from checkrail.runs.errors import SOON, InvalidError, RequestError, TooManyError
from checkrail.server.auth import AuthError, caller_of, revoked_error
from checkrail.server.conversations import (
    ExternalId,
    Label,
    MessageFields,
    accept_message,
    find_message,
    message_frames,
)
from checkrail.server.deferred import Router
from checkrail.server.outages import DatabaseUnavailable
from checkrail.server.renderers import render_message
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import reserve_stream
from checkrail.store.health import find_trouble
from checkrail.store.messages import Message

log = logging.getLogger("checkrail.server")

router = Router(tags=["messages"])

SUBPROTOCOL = "checkrail.chat.v1"
WEBSOCKET = "websocket"
"""The channel of messages whose sender names none."""

_AT_ONCE = 32  # messages of a socket that are followed
_MOST_FRAMES = 256
_MOST_BYTES = 4 * 1024 * 1024
_TRY_AGAIN_LATER = 1013


class SocketMessage(MessageFields):
    """Something to say to an agent; the same `id` twice is the same message."""

    type: Literal["message"]
    id: ExternalId
    channel: Label = WEBSOCKET


class SocketResume(BaseModel):
    """A message to go on following."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["resume"]
    message_id: UUID


_SENT: TypeAdapter[SocketMessage | SocketResume] = TypeAdapter(
    Annotated[SocketMessage | SocketResume, Field(discriminator="type")]
)


@router.websocket("/messages/ws")
async def hold_conversation(socket: WebSocket) -> None:
    """Take messages, and send what becomes of each."""
    served = await services_of(socket)
    if SUBPROTOCOL not in socket.scope["subprotocols"]:
        raise AuthError(
            f"This socket speaks {SUBPROTOCOL}: name it as its subprotocol",
            status=400,
            error="bad_request",
        )
    await socket.accept(SUBPROTOCOL)
    try:
        with reserve_stream(served):
            await MessageSocket(served, socket).serve()
    except TooManyError as error:
        await socket.close(4000 + error.status, str(error)[:120])


@dataclass(slots=True)
class _Waiting:
    """A frame that waits; of one with text, the pieces that were put together in it."""

    frame: dict[str, Any]
    size: int
    texts: list[str]


class FrameQueue:
    """Frames that wait until their client has read those before, as many as there is room for.

    Text that goes on with the last frame is put into that one.
    """

    def __init__(self, most_frames: int = _MOST_FRAMES, most_bytes: int = _MOST_BYTES) -> None:
        self._most_frames = most_frames
        self._most_bytes = most_bytes
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self.overflowed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def put(self, frame: dict[str, Any]) -> None:
        """Add a frame; one for which there is no room marks the queue, and is dropped."""
        size = len(jsons.dumps(frame))
        goes_on = self._goes_on(frame)
        has_room = goes_on or len(self._waiting) < self._most_frames
        if self._waiting and not (has_room and self._bytes + size <= self._most_bytes):
            if not self.overflowed.done():
                self.overflowed.set_result(None)
            return
        if not goes_on:
            self._waiting.append(_Waiting(frame, 0, []))
        last = self._waiting[-1]
        last.size += size
        self._bytes += size
        if frame["type"] == "delta":
            last.texts.append(frame["text"])
        self._filled.set()

    def _goes_on(self, frame: dict[str, Any]) -> bool:
        """Return whether a frame has more text of what the last one is about."""
        if not self._waiting:
            return False
        last = self._waiting[-1].frame
        names = {frame["type"], last["type"]}
        return names == {"delta"} and bool(frame["message_id"] == last["message_id"])

    async def take(self) -> str:
        """Return the next frame as it is sent, as soon as there is one."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        first = self._waiting.popleft()
        self._bytes -= first.size
        if first.texts:
            first.frame["text"] = "".join(first.texts)
        return jsons.dumps(first.frame).decode()


class MessageSocket:
    """A conversation with one client: what it says is followed until it goes."""

    def __init__(self, served: Services, socket: WebSocket) -> None:
        self._served = served
        self._socket = socket
        self._queue = FrameQueue()
        self._followed: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Take messages and send frames, until the client goes, or may not or cannot go on."""
        loop = asyncio.get_running_loop()
        receiving = loop.create_task(self._receive_all())
        sending = loop.create_task(self._send_all())
        overflowed = self._queue.overflowed
        try:
            with self._served.key_watch.watch_key(caller_of(self._socket)) as revoked:
                ends = {receiving, sending, overflowed, revoked}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = [receiving, sending, *self._followed.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if revoked.done():
            error = revoked_error()
            await self._close(4000 + error.status, error.message)
        elif overflowed.done():
            log.warning("a client of /messages/ws does not read what it is sent: it is closed")
            why = "the frames were not read: connect again, and resume"
            await self._close(_TRY_AGAIN_LATER, why)

    async def _close(self, code: int, why: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client was quicker
            await self._socket.close(code, why[:120])

    async def _receive_all(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._handle(message.get("text"))

    async def _send_all(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await self._socket.send_text(await self._queue.take())

    async def _handle(self, text: str | None) -> None:
        """Do what a client wants; what is wrong with that is sent, and the socket goes on."""
        given: Any = None
        try:
            given = _load_json(text)
            await self._acknowledge(_parse_sent(given))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is sent and logged
            number = given.get("id") if isinstance(given, dict) else None
            self._put_error(error, number if isinstance(number, str) else None)

    async def _acknowledge(self, sent: SocketMessage | SocketResume) -> None:
        if len(self._followed) >= _AT_ONCE:
            raise TooManyError(
                f"{_AT_ONCE} messages of this socket are not replied to yet. Wait for a reply",
                retry_after=SOON,
            )
        if isinstance(sent, SocketResume):
            row = await find_message(self._socket, self._served, sent.message_id)
        else:
            row = await accept_message(self._socket, self._served, sent, sent.id)
        self._queue.put({"type": "ack", "id": row.external_id, "message": render_message(row)})
        if row.message_id not in self._followed:
            task = asyncio.get_running_loop().create_task(self._follow(row))
            self._followed[row.message_id] = task

    async def _follow(self, row: Message) -> None:
        """Send what becomes of a message, until it is replied to."""
        try:
            async with contextlib.aclosing(message_frames(self._served, row)) as frames:
                async for frame in frames:
                    if frame is not None and frame.name != "message":
                        data = {"message": frame.data} if frame.name == "reply" else frame.data
                        about = {"type": frame.name, "message_id": row.message_id}
                        self._queue.put(about | data)
        except Exception as error:  # noqa: BLE001 - as above
            self._put_error(error, row.external_id)
        finally:
            del self._followed[row.message_id]

    def _put_error(self, error: Exception, number: str | None) -> None:
        known = _known_error(error)
        if known is None:
            log.error("a message over /messages/ws failed", exc_info=error)
            known = RequestError(
                f"The server failed to answer this ({type(error).__name__}): its log says why",
                status=500,
                error="internal",
            )
        told = {"error": known.error, "message": known.message, "status": known.status}
        self._queue.put({"type": "error", "id": number, **told})


def _known_error(error: Exception) -> RequestError | AuthError | None:
    """Return an error as the client is sent it, unless it is the server's own fault."""
    if isinstance(error, RequestError | AuthError):
        return error
    trouble = find_trouble(error)
    return None if trouble is None else DatabaseUnavailable(trouble)


def _load_json(text: str | None) -> Any:
    try:
        return jsons.loads(text or "")
    except ValueError:
        raise InvalidError("What is sent is one JSON object in a text frame") from None


def _parse_sent(given: Any) -> SocketMessage | SocketResume:
    try:
        return _SENT.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise InvalidError(f"This does not fit: {where}: {first['msg']}") from None
