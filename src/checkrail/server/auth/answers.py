"""How a refusal reaches the client, over HTTP and over WebSockets."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketState

from checkrail.server.auth.errors import AuthError

_LONGEST = 100
"""A close frame has room for 123 bytes."""


async def answer(refusal: AuthError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in place of the app; a WebSocket has not been accepted yet."""
    if scope["type"] == "http":
        await _response(refusal)(scope, receive, send)
    else:
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        await _refuse(refusal, socket)


async def auth_error_response(connection: HTTPConnection, refusal: Exception) -> JSONResponse:
    """Answer for a route that was refused; made for `app.add_exception_handler(AuthError, …)`."""
    if not isinstance(refusal, AuthError):
        raise refusal
    if isinstance(connection, WebSocket):
        await _refuse(refusal, connection)
    return _response(refusal)


def _response(refusal: AuthError) -> JSONResponse:
    return JSONResponse(refusal.body, refusal.status, headers=refusal.headers)


async def _refuse(refusal: AuthError, socket: WebSocket) -> None:
    """Say it with the real status where that is possible, and with a close code elsewhere."""
    accepted = socket.application_state is not WebSocketState.CONNECTING
    if not accepted and "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(_response(refusal))
    else:
        reason = refusal.message.encode()[:_LONGEST].decode(errors="ignore")
        await socket.close(4000 + refusal.status, reason)
