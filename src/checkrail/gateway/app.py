"""The gateway as a plain ASGI app: short ways, for every call of a model comes by here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson

from checkrail.config.gateway import MIB
from checkrail.config.server import LimitsConfig
from checkrail.connections.watch import apply_limits
from checkrail.engine.containment import contain_tasks
from checkrail.gateway.auth import AuthenticatedCaller, Authenticator, LocalAuthenticator
from checkrail.gateway.call import Gateway, ModelCall
from checkrail.gateway.call_tracking import CURRENT_CALL, OpenCall
from checkrail.gateway.errors import GatewayError, InvalidRequestError
from checkrail.gateway.headers import move_query_keys
from checkrail.gateway.identity import Identity
from checkrail.gateway.incoming_request import (
    ClientDisconnected,
    IncomingRequest,
    Receive,
    canonical_path,
)
from checkrail.gateway.metrics import GatewayMetrics
from checkrail.gateway.passthrough import (
    CALLED_AT,
    GEMINI_MODELS,
    MODELS,
    PassPolicy,
    detect_format,
    is_behind_prefix,
    is_of_gemini,
    pass_on,
)
from checkrail.gateway.upstreams import Upstreams
from checkrail.llm.formats import ASIDE, BY_NAME, FORMATS, open_format
from checkrail.llm.wire_format import Format, Refusal, UnreadableError

Send = Callable[[dict[str, Any]], Awaitable[None]]
Content = bytes | AsyncIterator[bytes]


class ResponseSender:
    """Sends the response to a request: `status` is there once it has begun, `ended` at its end."""

    __slots__ = ("_send", "call", "ended", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.call: OpenCall | None = None
        self.status: int | None = None
        self.ended = False

    async def send_response(
        self, status: int, headers: list[tuple[bytes, bytes]], content: Content
    ) -> None:
        """Send a response, whole or as a stream; a stream is closed in any case."""
        if isinstance(content, bytes):
            headers = [*headers, (b"content-length", str(len(content)).encode())]
            await self._send_start(status, headers)
            await self._send_end(content)
            return
        try:
            await self._send_start(status, headers)
            async for chunk in content:
                if chunk:
                    self._note_first_byte()
                    message = {"type": "http.response.body", "body": chunk, "more_body": True}
                    await self._send(message)
        finally:
            if (close := getattr(content, "aclose", None)) is not None:
                await close()
        await self._send_end(b"")

    async def _send_start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_end(self, rest: bytes) -> None:
        self.ended = True
        self._note_first_byte()
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    def _note_first_byte(self) -> None:
        if self.call is not None:
            self.call.note_first_byte()


async def run_while_connected(
    incoming: IncomingRequest, answering: ResponseSender, work: Awaitable[None]
) -> None:
    """Run work for a caller; on a disconnect, cancel it and raise `ClientDisconnected`."""
    task = asyncio.current_task()
    gone = False

    async def cancel_on_disconnect() -> None:
        nonlocal gone
        await incoming.wait_disconnected()
        if not answering.ended and task is not None:  # the end of an answer looks the same
            gone = True
            task.cancel()

    watching = asyncio.create_task(cancel_on_disconnect())
    try:
        await work
    except asyncio.CancelledError:
        if gone and task is not None and task.uncancel() == 0:
            raise ClientDisconnected from None
        raise
    finally:
        watching.cancel()


log = logging.getLogger("checkrail.gateway")

Lifespan = Callable[[], AbstractAsyncContextManager[None]]

REQUEST_ID = b"x-checkrail-request-id"
_JSON = (b"content-type", b"application/json")
_MORE_HEADERS = {
    405: [(b"allow", b"GET, HEAD, POST, DELETE, OPTIONS")],
    426: [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")],
    503: [(b"retry-after", b"5")],
}
_NO_WEBSOCKETS = "There are no WebSockets here: call models by HTTP"
_HELLO = b'{"ok":true,"service":"checkrail gateway"}'
_DOORSTEP = ("", "/", "/ok")

_SHORT = {path.removeprefix("/v1"): path for path in (*FORMATS, *ASIDE, MODELS)}
"""Paths of clients whose base URL lacks `/v1`, and where they lead."""

_PATHS = frozenset((*FORMATS, *ASIDE))


class GatewayApp:
    """Answers calls of a model through hooks, and passes all other requests on."""

    def __init__(
        self,
        gateway: Gateway,
        upstreams: Upstreams,
        door: Authenticator,
        body_bytes: int,
        lifespan: Lifespan,
        *,
        limits: LimitsConfig,
        metrics: GatewayMetrics | None = None,
    ) -> None:
        self._gateway = gateway
        self._upstreams = upstreams
        self._door = door
        self._body_bytes = body_bytes
        self._lifespan = lifespan
        self._limits = limits
        self._metrics = metrics
        local = isinstance(door, LocalAuthenticator)
        self._policy = PassPolicy(gateway.settings, local=local)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or go through a life of the process."""
        if scope["type"] == "http":
            await self._answer_request(
                IncomingRequest(scope, receive, self._body_bytes), scope, ResponseSender(send)
            )
        elif scope["type"] == "lifespan":
            async with apply_limits(scope, self._limits):
                await self._run_lifespan(receive, send)
        else:
            await _refuse_websocket(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        contain_tasks()
        async with self._lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await self._upstreams.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer_request(
        self, incoming: IncomingRequest, scope: Mapping[str, Any], answering: ResponseSender
    ) -> None:
        called = _find_format(incoming)
        spoken = called.name if called else _detect_format(incoming)
        try:
            if incoming.path in _DOORSTEP and incoming.method in ("GET", "HEAD"):
                await answering.send_response(200, [_JSON], _HELLO)
                return
            _check_no_websocket(incoming)
            if spoken == "gemini":
                incoming.headers, incoming.query = move_query_keys(incoming.headers, incoming.query)
                scope = {**scope, "headers": incoming.headers}
            admitted = await self._door.admit(scope)
            incoming.headers = admitted.headers
            if self._metrics is not None and _reads_metrics(incoming):
                headers = [(b"content-type", self._metrics.content_type.encode())]
                await answering.send_response(200, headers, self._metrics.render())
                return
            await run_while_connected(
                incoming, answering, self._handle_request(called, incoming, admitted, answering)
            )
        except ClientDisconnected:
            if answering.call is not None:
                answering.call.note_refusal("the caller went away")
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told in its words
            refusal = _build_refusal(error)
            if answering.call is not None:
                answering.call.note_refused(refusal)
            if answering.status is not None:
                log.warning("an answer was cut off: %s", refusal.message)
                return  # the web server cuts off what is left unfinished
            teller = called or BY_NAME[spoken]
            headers = [_JSON, *_MORE_HEADERS.get(refusal.status, ())]
            await answering.send_response(
                refusal.status, headers, orjson.dumps(teller.write_error(refusal))
            )
        finally:
            if answering.call is not None:
                self._gateway.close_call(answering.call, answering.status)

    async def _handle_request(
        self,
        called: Format | None,
        incoming: IncomingRequest,
        admitted: AuthenticatedCaller,
        answering: ResponseSender,
    ) -> None:
        if called is None:
            await self._pass_through(incoming, answering)
        else:
            await self._handle_model_call(called, incoming, admitted, answering)

    async def _handle_model_call(
        self,
        called: Format,
        incoming: IncomingRequest,
        admitted: AuthenticatedCaller,
        answering: ResponseSender,
    ) -> None:
        canonical = _canonical_path(incoming)
        path = canonical if canonical in _PATHS else called.path
        opened = self._gateway.open_call(called, path)
        body = await incoming.read_decoded_body()
        ids = Identity(incoming.headers, body, key=admitted.key, user=admitted.user)
        call = ModelCall(called, body, incoming.headers, incoming.query, ids, path, opened)
        opened.ids, opened.owner = ids, admitted.owner
        answering.call = opened
        CURRENT_CALL.set(opened)
        reply = await self._gateway.answer(call)
        del body, call  # what came in may be large, and the reply a long stream
        headers = [*reply.headers, (REQUEST_ID, ids.request_id.encode())]
        await answering.send_response(reply.status, headers, reply.content)

    async def _pass_through(self, incoming: IncomingRequest, answering: ResponseSender) -> None:
        path = canonical_path(incoming.path)
        if path is not None and _SHORT.get(path) == MODELS:
            incoming.path = incoming.raw_path = path = MODELS
        if path is None or not (incoming.path.startswith("/v1/") or is_of_gemini(incoming.path)):
            raise InvalidRequestError(404, "There is nothing at this path: models are under /v1")
        if is_behind_prefix(incoming.method, path):
            raise InvalidRequestError(404, f"There is nothing at this path. {CALLED_AT}")
        if not _lists_models(incoming):
            self._policy.check(incoming, path, has_hooks=self._gateway.has_hooks())
        passed = await pass_on(self._upstreams, incoming)
        await answering.send_response(passed.status, passed.headers, passed.content)


def build_gateway_app(
    gateway: Gateway,
    upstreams: Upstreams,
    *,
    door: Authenticator | None = None,
    body_bytes: int = 32 * MIB,
    lifespan: Lifespan = contextlib.nullcontext,
    limits: LimitsConfig | None = None,
    metrics: GatewayMetrics | None = None,
) -> GatewayApp:
    """Build the app; without `door`, only callers of this machine are admitted.

    `lifespan` is what goes on beside it; `upstreams` are closed at its end. `limits` are those of
    the connections to it. With `metrics`, callers may read them at /metrics.
    """
    limits = limits or LimitsConfig()
    return GatewayApp(
        gateway,
        upstreams,
        door or LocalAuthenticator(),
        body_bytes,
        lifespan,
        limits=limits,
        metrics=metrics,
    )


def _check_no_websocket(incoming: IncomingRequest) -> None:
    """Raise `InvalidRequestError` for a handshake, which some servers pass on as a request."""
    if incoming.is_websocket:
        raise InvalidRequestError(426, _NO_WEBSOCKETS)


async def _refuse_websocket(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    """Refuse a handshake with 426, on which clients go on by HTTP, if the server can send that."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 4404, "reason": _NO_WEBSOCKETS})
        return
    start = {"type": "websocket.http.response.start", "status": 426}
    await send({**start, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "websocket.http.response.body", "body": _NO_WEBSOCKETS.encode()})


def _find_format(incoming: IncomingRequest) -> Format | None:
    """Return the format of a model call, however its path is spelled, or None."""
    if incoming.method != "POST":
        return None
    path = _canonical_path(incoming)
    known = FORMATS.get(path) or ASIDE.get(path)
    if known is not None:
        return known
    written = incoming.path if incoming.path.casefold() == path else path
    return open_format(written, incoming.query.decode("latin-1"))


def _detect_format(incoming: IncomingRequest) -> str:
    return detect_format(incoming.path, incoming.headers, incoming.query)


def _reads_metrics(incoming: IncomingRequest) -> bool:
    return incoming.method in ("GET", "HEAD") and incoming.path == "/metrics"


def _lists_models(incoming: IncomingRequest) -> bool:
    is_read = incoming.method in ("GET", "HEAD") and not incoming.has_body
    return is_read and incoming.path in (MODELS, GEMINI_MODELS)


def _canonical_path(incoming: IncomingRequest) -> str:
    """Return a request's path in its usual spelling."""
    if incoming.path in FORMATS:
        return incoming.path
    path = canonical_path(incoming.path) or ""
    return _SHORT.get(path, path)


def _build_refusal(error: Exception) -> Refusal:
    """Return the refusal for an error; an unexpected one is logged without its message."""
    if isinstance(error, GatewayError):
        return Refusal(error.status, error.message)
    if isinstance(error, UnreadableError):
        return Refusal(400, str(error))
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("a request failed: %s\n%s", type(error).__name__, where)
    return Refusal(500, "The gateway failed; its log says where")
