"""The event protocol: commands to a thread, and the stream of its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Depends, Header, Query, Request, WebSocket
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from checkrail.runs import jsons
from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import InvalidError, NotFoundError, RequestError, TooManyError
from checkrail.server.auth import AuthError, caller_of, revoked_error
from checkrail.server.auth.errors import error_body
from checkrail.server.deferred import Router
from checkrail.server.lookups import check_thread
from checkrail.server.openapi_models import PROBLEMS, STREAM
from checkrail.server.protocol_commands import Commands, Refusal
from checkrail.server.responses import JsonResponse, error_headers
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import EventStream, reserve_stream
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.commands import error_reply, parse_command, success_reply
from checkrail.server.streams.errors import ProtocolError
from checkrail.server.streams.modes import StreamModeError
from checkrail.server.streams.sse import encode_frame, join_frames
from checkrail.server.streams.threads import ThreadCursor, ThreadView
from checkrail.server.thread_streams import Envelopes, newest_cursor, thread_frames

router = Router(tags=["threads"])

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
    asker = await check_thread(request, served, thread_id, "read")
    name = str(thread_id)
    if last_event is None:
        after = await newest_cursor(served, name)
    else:
        after = ThreadCursor.parse(last_event)
    try:
        view = ThreadView(name, [mode for mode in stream_mode or () if mode], after=after)
    except StreamModeError as error:
        raise InvalidError(str(error)) from None
    return EventStream(served, thread_frames(served, name, view, asker))


@router.post("/threads/{thread_id}/commands", responses=PROBLEMS)
async def command(
    request: Request, served: Served, thread_id: UUID, body: Annotated[Any, Body()]
) -> Response:
    """Carry out a command of the event protocol."""
    try:
        return JsonResponse(await Commands(request, served, thread_id).execute(parse_command(body)))
    except ProtocolError as error:
        told = error_reply(error.id, error.code, error.message)
        return JsonResponse(told, status_code=400 if error.unreadable else 200)
    except Refusal as refusal:
        told = error_reply(refusal.id, refusal.code, str(refusal))
        return JsonResponse(
            {**error_body("", str(refusal), refusal.error.detail), **told},
            status_code=refusal.error.status,
            headers=error_headers(refusal.error),
        )


@router.post("/threads/{thread_id}/stream/events", responses=STREAM)
async def stream_events(
    request: Request, served: Served, thread_id: UUID, body: Annotated[Any, Body()]
) -> Response:
    """Stream the events of a thread that a subscription wants, until the client goes.

    The thread need not exist yet: a client may listen before its first run.
    """
    wanted = _parse_subscription(body)
    asker = await check_thread(request, served, thread_id, "read", may_be_new=True)
    marks = _leaves_marks(request)
    envelopes = Envelopes(served, str(thread_id), wanted, asker, marks=marks)
    return EventStream(served, _envelope_frames(envelopes), heard=True)


def _leaves_marks(connection: HTTPConnection) -> bool:
    """Return whether a stream notes what was watched; one who only reads leaves no trace."""
    return caller_of(connection).has_role("member")


def _parse_subscription(body: Any) -> Subscription:
    try:
        return Subscription.parse(body)
    except ProtocolError as error:
        raise InvalidError(error.message) from None


async def _envelope_frames(envelopes: Envelopes) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(envelopes.stream()) as source:
        async for batch in source:
            if not batch:
                yield b""
            for piece in join_frames(
                encode_frame(each["event_id"], each["method"], each) for each in batch
            ):
                yield piece


@router.websocket("/threads/{thread_id}/stream/events")
async def stream_events_socket(socket: WebSocket, thread_id: UUID) -> None:
    """Stream the same over a WebSocket; its first message is the subscription."""
    served = await services_of(socket)
    try:
        asker = await check_thread(socket, served, thread_id, "read", may_be_new=True)
    except (RequestError, AuthError) as error:
        await socket.accept()
        await socket.close(4000 + error.status, str(error)[:120])
        return
    await socket.accept()
    try:
        with reserve_stream(served), contextlib.suppress(WebSocketDisconnect):
            await _serve_socket(socket, served, thread_id, asker)
    except TooManyError as error:
        await socket.close(4000 + error.status, str(error)[:120])


async def _serve_socket(
    socket: WebSocket, served: Services, thread_id: UUID, asker: Principal
) -> None:
    try:
        number, wanted = _parse_first(await _first_message(served, socket))
    except ProtocolError as error:
        await _send_json(socket, error_reply(error.id, error.code, error.message))
        await socket.close(4000 + error.status)
        return
    greeting = success_reply(number, {"subscription_id": f"{thread_id}:{number}"})
    loop = asyncio.get_running_loop()
    marks = _leaves_marks(socket)
    envelopes = Envelopes(served, str(thread_id), wanted, asker, marks=marks)
    sending = loop.create_task(_send_all(socket, envelopes, greeting))
    listening = loop.create_task(_until_closed(socket))
    with served.key_watch.watch_key(caller_of(socket)) as revoked:
        ends = {sending, listening, revoked}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    told_all = sending.done() and not sending.exception()
    for task in (sending, listening):
        task.cancel()
    await asyncio.gather(sending, listening, return_exceptions=True)
    refusal: AuthError | RequestError | None = None
    if revoked.done():
        refusal = revoked_error()
    elif told_all:
        refusal = NotFoundError(f"thread {str(thread_id)!r} not found")
    if refusal is not None:
        await socket.close(4000 + refusal.status, refusal.message[:120])


async def _first_message(served: Services, socket: WebSocket) -> str:
    """Return the first message of a socket, which has to come as soon as headers have to."""
    patience = served.config.limits.header_seconds
    try:
        async with asyncio.timeout(patience or None):
            message = await socket.receive()
    except TimeoutError:
        told = f"the first message did not come within {patience:g} s, limits.header_seconds"
        raise ProtocolError("invalid_argument", told) from None
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message["code"])
    return message.get("text") or ""


def _parse_first(message: str) -> tuple[int, Subscription]:
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
        await _send_json(socket, greeting)
        async for batch in source:
            for each in batch:
                await _send_json(socket, each)


async def _send_json(socket: WebSocket, told: dict[str, Any]) -> None:
    await socket.send_text(jsons.dumps(told).decode())


async def _until_closed(socket: WebSocket) -> None:
    while True:
        await socket.receive()
        if socket.client_state.name == "DISCONNECTED":
            return
