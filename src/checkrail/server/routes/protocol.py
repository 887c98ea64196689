"""The event protocol: commands to a thread, and the stream of its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Query, Request, WebSocket
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from checkrail.runs import jsons
from checkrail.runs.errors import InvalidError, RequestError
from checkrail.server.answers import Json
from checkrail.server.auth import AuthError
from checkrail.server.commands import Commands, Refusal
from checkrail.server.documents import PROBLEMS, STREAM
from checkrail.server.finding import after_of, found_thread
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import EventStream
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.commands import failure, parse_command, success
from checkrail.server.streams.errors import ProtocolError
from checkrail.server.streams.modes import StreamModeError
from checkrail.server.streams.sse import frame
from checkrail.server.streams.threads import ThreadView
from checkrail.server.thread_streams import Envelopes, last_seq, thread_frames

router = APIRouter(tags=["threads"])

Served = Annotated[Services, Depends(services_of)]


@router.get("/threads/{thread_id}/stream", responses=STREAM)
async def stream_thread(
    request: Request,
    served: Served,
    thread_id: UUID,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    last_event: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """Stream the events of all runs of a thread, until the client goes."""
    await found_thread(request, served, thread_id, "read")
    name = str(thread_id)
    after = await last_seq(served, name) if last_event is None else after_of(last_event)
    try:
        view = ThreadView(name, [mode for mode in stream_mode or () if mode], after=after)
    except StreamModeError as error:
        raise InvalidError(str(error)) from None
    return EventStream(served, thread_frames(served, name, view))


@router.post("/threads/{thread_id}/commands", responses=PROBLEMS)
async def command(
    request: Request, served: Served, thread_id: UUID, body: Annotated[Any, Body()]
) -> Response:
    """Carry out a command of the event protocol."""
    try:
        return Json(await Commands(request, served, thread_id).carry_out(parse_command(body)))
    except ProtocolError as error:
        return Json(failure(error.id, error.code, error.message))
    except Refusal as refusal:
        told = failure(refusal.id, refusal.code, str(refusal))
        return Json({**told, "detail": refusal.error.detail}, status_code=refusal.error.status)


@router.post("/threads/{thread_id}/stream/events", responses=STREAM)
async def stream_events(
    request: Request, served: Served, thread_id: UUID, body: Annotated[Any, Body()]
) -> Response:
    """Stream the events of a thread that a subscription wants, until the client goes.

    The thread need not exist yet: a client may listen before its first run.
    """
    wanted = _subscription(body)
    await found_thread(request, served, thread_id, "read", may_be_new=True)
    return EventStream(served, _frames(Envelopes(served, str(thread_id), wanted)), heard=True)


def _subscription(body: Any) -> Subscription:
    try:
        return Subscription.of(body)
    except ProtocolError as error:
        raise InvalidError(error.message) from None


async def _frames(envelopes: Envelopes) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(envelopes.stream()) as source:
        async for batch in source:
            yield b"".join(frame(each["event_id"], each["method"], each) for each in batch)


@router.websocket("/threads/{thread_id}/stream/events")
async def stream_events_socket(socket: WebSocket, thread_id: UUID) -> None:
    """Stream the same over a WebSocket; its first message is the subscription."""
    served = await services_of(socket)
    try:
        await found_thread(socket, served, thread_id, "read", may_be_new=True)
    except (RequestError, AuthError) as error:
        await socket.accept()
        await socket.close(4000 + error.status, str(error)[:120])
        return
    await socket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        await _converse(socket, served, str(thread_id))


async def _converse(socket: WebSocket, served: Services, thread_id: str) -> None:
    try:
        number, wanted = _first(await socket.receive_text())
    except ProtocolError as error:
        await _say(socket, failure(error.id, error.code, error.message))
        await socket.close(4000 + error.status)
        return
    greeting = success(number, {"subscription_id": f"{thread_id}:{number}"})
    loop = asyncio.get_running_loop()
    sending = loop.create_task(_send_all(socket, Envelopes(served, thread_id, wanted), greeting))
    listening = loop.create_task(_until_closed(socket))
    await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    for task in (sending, listening):
        task.cancel()
    await asyncio.gather(sending, listening, return_exceptions=True)


def _first(message: str) -> tuple[int, Subscription]:
    """Read the first message of a socket, which says what it is for."""
    try:
        given = jsons.loads(message)
    except ValueError:
        raise ProtocolError("invalid_argument", "a message is a JSON object") from None
    command = parse_command(given)
    if not isinstance(command.params, Subscription):
        told = "the first message is subscription.subscribe"
        raise ProtocolError("invalid_argument", told, id=command.id)
    return command.id, command.params


async def _send_all(socket: WebSocket, envelopes: Envelopes, greeting: dict[str, Any]) -> None:
    async with contextlib.aclosing(envelopes.stream()) as source:
        await anext(source)
        await _say(socket, greeting)
        async for batch in source:
            for each in batch:
                await _say(socket, each)


async def _say(socket: WebSocket, told: dict[str, Any]) -> None:
    await socket.send_text(jsons.dumps(told).decode())


async def _until_closed(socket: WebSocket) -> None:
    while True:
        await socket.receive()
        if socket.client_state.name == "DISCONNECTED":
            return
