"""How a request is refused, and what can be wrong with the auth that was configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketState

from checkrail.engine.errors import CheckrailError


class AuthError(CheckrailError):
    """A request is refused; `body` is what the client gets."""

    status = 500
    error = "auth_failed"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        error: str | None = None,
        detail: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or self.status
        self.error = error or self.error
        self.detail = detail
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """Return the one shape that all errors of the server have."""
        return error_body(self.error, self.message, self.detail)


def error_body(error: str, message: str, more: Any = None) -> dict[str, Any]:
    """Return the one shape that all errors have: `detail` is a text, as LangGraph's clients expect.

    What else there is to know stands in `errors`, if it is a list of what is wrong, or in `info`.
    """
    known: dict[str, Any] = {"error": error, "message": message, "detail": message}
    if more is None:
        return known
    return known | {"errors" if isinstance(more, list) else "info": more}


class Unauthenticated(AuthError):
    """Nobody knows who is calling."""

    status = 401
    error = "unauthenticated"

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **{"headers": {"WWW-Authenticate": "Bearer"}, **more})


class Forbidden(AuthError):
    """The caller is known, and may not do this."""

    status = 403
    error = "forbidden"


class AuthConfigError(CheckrailError, ValueError):
    """The auth of the server was not configured in a way that can work."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem, remedy)

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}"


_LONGEST = 100
"""A close frame has room for 123 bytes."""


async def send_refusal(refusal: AuthError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in place of the app; a WebSocket has not been accepted yet."""
    if scope["type"] == "http":
        await _refusal_response(refusal)(scope, receive, send)
    else:
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        await _refuse_socket(refusal, socket)


async def auth_error_response(
    connection: HTTPConnection, refusal: Exception
) -> JSONResponse | None:
    """Answer for a route that was refused; made for `app.add_exception_handler(AuthError, …)`.

    None: it was a WebSocket, which has its answer.
    """
    if not isinstance(refusal, AuthError):
        raise refusal
    if isinstance(connection, WebSocket):
        await _refuse_socket(refusal, connection)
        return None
    return _refusal_response(refusal)


def _refusal_response(refusal: AuthError) -> JSONResponse:
    return JSONResponse(refusal.body, refusal.status, headers=refusal.headers)


async def _refuse_socket(refusal: AuthError, socket: WebSocket) -> None:
    """Refuse a socket with the real status where possible, with a close code elsewhere."""
    accepted = socket.application_state is not WebSocketState.CONNECTING
    if not accepted and "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(_refusal_response(refusal))
    else:
        reason = refusal.message.encode()[:_LONGEST].decode(errors="ignore")
        await socket.close(4000 + refusal.status, reason)
