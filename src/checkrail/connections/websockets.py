"""uvicorn's protocol of WebSockets, held to limits."""

from __future__ import annotations

from asyncio import BaseTransport
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from checkrail.connections.watch import WatchedTransport, find_connections

_FRAGMENTS = 1024  # in one message: each costs more than the byte that may be in it


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that counts for its address, and is cut when its client does not read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections = find_connections(self.app_state)

    def connection_made(self, transport: BaseTransport) -> None:
        """Take over a connection from the protocol of HTTP."""
        super().connection_made(transport)
        self._connections.add(self, cast("WatchedTransport", transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def check_time(self, now: float) -> None:
        """Leave it to pings to find out whether the client is there."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the app; one that refuses the handshake ends it, and is no error."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True

    def handle_cont(self, event: Frame) -> None:
        """Take a fragment of a message, unless there are too many."""
        if len(self.frames) < _FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
        self.handle_parser_exception()
