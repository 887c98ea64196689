"""uvicorn's HTTP protocols, which by themselves read headers without end and wait for ever."""

from __future__ import annotations

import asyncio
import enum
import http
from typing import TYPE_CHECKING, Any, cast

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from checkrail.connections.watch import WatchedTransport, find_connections

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _AnyProtocol
else:
    _AnyProtocol = object

_LINGER = 1.0  # seconds in which a client that is still sending can read why it was refused
_LINGER_ANSWERED = 30.0  # the same where an answer was given before the whole body had come
_LINGER_BYTES = 1024 * 1024
_LINGERING = 64  # connections of an address over its limit that are answered, and not just cut
_PIPELINED = 64  # requests that wait behind the one that is being answered
_TOO_MANY = "came over limits.connections_per_address"
_LATER = "retry-after: 5\r\n"
_CODES = {408: "timeout", 429: "too_many", 431: "headers_too_large"}


class Phase(enum.Enum):
    """What a connection waits for from its client."""

    NOTHING = enum.auto()  # a request is being answered, or a next one may come
    HEADERS = enum.auto()
    BODY = enum.auto()
    LEAVING = enum.auto()  # it was refused, and what still comes is thrown away


class LimitedProtocol(_AnyProtocol):
    """The limits of a connection, whoever parses what comes on it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections = find_connections(self.app_state)
        self._limits = self._connections.limits
        self._phase = Phase.HEADERS
        self._since = self.loop.time()
        self._pending_bytes = 0
        self._linger = _LINGER
        self.app = self._hang_up_after_early_answer(self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless its address has too many."""
        watched = WatchedTransport(transport, self._leave_unread)
        super().connection_made(cast("asyncio.Transport", watched))
        over = self._connections.add(self, watched)
        if over > _LINGERING:
            self._connections.note_closed(self, _TOO_MANY)
            transport.abort()
        elif over > 0:
            most = self._limits.connections_per_address
            self._refuse(
                429,
                f"Your address has {most} connections open, which is as many as "
                "limits.connections_per_address allows. Close some, or try again later",
                _TOO_MANY,
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, *args: Any) -> None:
        """Hand a connection over to the WebSocket protocol, which counts it from now on."""
        self._connections.remove(self)
        super().handle_websocket_upgrade(*args)

    def data_received(self, data: bytes) -> None:
        """Read what came, and note what is still to come."""
        if self._phase is Phase.LEAVING:
            self._pending_bytes += len(data)
            if self._pending_bytes > _LINGER_BYTES and self._linger == _LINGER:
                self.transport.abort()
            return
        before = self._phase
        if self._feed(data):
            before = Phase.NOTHING
        if self._phase is Phase.NOTHING and self._open_cycle is None:
            self._phase = Phase.HEADERS  # of a request that begins with empty lines
        if self._phase is not before:
            self._since = self.loop.time()
        over = self._pending_bytes > self._limits.header_bytes > 0
        if over and self._phase is not Phase.LEAVING:
            self._refuse_size()

    def _feed(self, data: bytes) -> bool:
        """Parse data, set phase and pending bytes, and return whether a request has ended."""
        raise NotImplementedError

    def check_time(self, now: float) -> None:
        """Close the connection if its client has taken too long."""
        if self._phase is Phase.NOTHING:
            return
        if self._phase is Phase.LEAVING:
            if now - self._since >= self._linger:
                self.transport.abort()
        elif self.flow.read_paused:  # it is the app that takes its time
            self._since = now
        elif self._phase is Phase.BODY:
            self._check_deadline(now, "body", "body_seconds", self._limits.body_seconds)
        else:
            self._check_deadline(now, "headers", "header_seconds", self._limits.header_seconds)

    def _check_deadline(self, now: float, part: str, key: str, seconds: float) -> None:
        if not seconds or now - self._since < seconds or self.transport.is_closing():
            return
        if self._phase is Phase.HEADERS and not self._pending_bytes:
            self.transport.close()  # nothing was begun, so nothing is answered
            return
        self._refuse(
            408,
            f"The {part} of the request did not arrive within the {seconds:g} seconds of "
            f"limits.{key}. Send the whole request again",
            f"sent no whole {part} within {seconds:g} s, limits.{key}",
        )

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed; what is over a limit has its answer already."""
        if self._phase is Phase.LEAVING:
            return
        if self._is_answering():
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _hang_up_after_early_answer(self, app: Any) -> Any:
        """Wrap the app so that an answer before the end of a large body says that it is the last.

        The client learns it with the answer. If it did not, it might send its next request into a
        connection on which nothing is read any more.
        """

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            async def send_noted(message: Any) -> None:
                if message["type"] == "http.response.start" and self._is_body_coming(scope):
                    headers = [*message.get("headers", ()), (b"connection", b"close")]
                    message = {**message, "headers": headers}
                await send(message)

            await app(scope, receive, send_noted)

        return answer

    def _is_body_coming(self, scope: Any) -> bool:
        """Return whether much of the body of a request may still come."""
        cycle = self._open_cycle
        if self._phase is not Phase.BODY or cycle is None or cycle.scope is not scope:
            return False
        sizes = [value for name, value in scope["headers"] if name == b"content-length"]
        return not sizes or int(sizes[0]) > _LINGER_BYTES

    def _leave_unread(self) -> bool:
        """Return whether the end of a body is thrown away before the connection is closed."""
        if not self._is_late:
            return False
        self._phase, self._since, self._linger = Phase.LEAVING, self.loop.time(), _LINGER_ANSWERED
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        return True

    def _refuse_size(self) -> None:
        most = self._limits.header_bytes
        self._refuse(
            431,
            f"The headers are larger than limits.header_bytes allows, which is {most} bytes. "
            "Send fewer or shorter ones",
            "sent headers over limits.header_bytes",
        )

    def _refuse(self, status: int, message: str, reason: str) -> None:
        """Answer in place of the app and hang up; while something is answered, just hang up."""
        self._connections.note_closed(self, reason)
        if self._is_answering() or self._is_late:
            self.transport.close()
            return
        self._phase, self._since, self._pending_bytes = Phase.LEAVING, self.loop.time(), 0
        body = orjson.dumps({"error": _CODES[status], "message": message, "detail": message})
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"{_LATER if status == 429 else ''}connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if (cycle := self._open_cycle) is not None:
            cycle.disconnected = True  # for the app, the client has gone
            cycle.message_event.set()
        self.flow.resume_reading()

    def _is_answering(self) -> bool:
        """Return whether an answer is under way, or due before one to what is being sent."""
        cycle = self._open_cycle
        if cycle is None:
            return False
        is_own = self._phase is Phase.BODY and not getattr(self, "pipeline", ())
        return not is_own or cycle.response_started

    @property
    def _is_late(self) -> bool:
        """Whether a body is still coming whose request was answered without it."""
        return self._phase is Phase.BODY and self._open_cycle is None

    @property
    def _open_cycle(self) -> Any:
        """The newest request that is not answered, or None."""
        cycle: Any = self.cycle
        return None if cycle is None or cycle.response_complete else cycle


class LimitedH11(LimitedProtocol, H11Protocol):  # type: ignore[misc]
    """With h11, which limits the size of headers by itself and knows where in a request it is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self._limits.header_bytes:
            self.conn = h11.Connection(h11.SERVER, self._limits.header_bytes)

    def _feed(self, data: bytes) -> bool:
        before = self.cycle
        H11Protocol.data_received(self, data)
        self._note_phase()
        return self.cycle is not before

    def _note_phase(self) -> None:
        if self._phase is Phase.LEAVING:
            return
        state = self.conn.their_state
        self._pending_bytes = 0
        if state is h11.IDLE:
            self._phase = Phase.HEADERS
            self._pending_bytes = len(self.conn.trailing_data[0])
        else:
            self._phase = Phase.BODY if state is h11.SEND_BODY else Phase.NOTHING

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, with a reason of its own if it is too much."""
        most = self._limits.header_bytes
        if self._phase is not Phase.LEAVING and len(self.conn.trailing_data[0]) > most > 0:
            self._refuse_size()
        super().send_400_response(msg)


try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # httptools is for CPython only
    HttpProtocol: type[asyncio.Protocol] = LimitedH11
else:

    class LimitedHttpTools(LimitedProtocol, HttpToolsProtocol):
        """With httptools, which has no limits; its callbacks show where in a request it is."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._has_ended = self._has_body = False

        def _feed(self, data: bytes) -> bool:
            self._has_ended = self._has_body = False
            HttpToolsProtocol.data_received(self, data)
            if self._has_ended or self._has_body or self._phase is Phase.NOTHING:
                self._pending_bytes = 0
            else:  # headers, or what is around the pieces of a body: their sizes, and trailers
                self._pending_bytes += len(data)
            return self._has_ended

        def on_message_begin(self) -> None:
            """Begin a request."""
            super().on_message_begin()
            self._phase = Phase.HEADERS

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header; trailers behind a body, which come here too, are none."""
            if self._phase is not Phase.BODY:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """Hand a request to the app, unless its headers are too large."""
            most = self._limits.header_bytes
            if most and len(self.url) + sum(len(k) + len(v) + 4 for k, v in self.headers) > most:
                self._refuse_size()
                raise OverflowError("headers over the limit")  # so that nothing more is parsed
            if len(self.pipeline) >= _PIPELINED:
                raise OverflowError("more requests in a row than are taken")
            super().on_headers_complete()
            self._phase = Phase.BODY

        def on_body(self, body: bytes) -> None:
            """Take a piece of a body."""
            self._has_body = True
            super().on_body(body)

        def on_message_complete(self) -> None:
            """End a request."""
            super().on_message_complete()
            self._phase, self._has_ended = Phase.NOTHING, True

    HttpProtocol = LimitedHttpTools
