"""What an authentication handler can ask to be given about a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.types import Message, Receive, Scope

from checkrail.server.auth.errors import AuthError
from checkrail.server.auth.origins import header_values


class RequestHeaders(dict[bytes, bytes]):
    """Headers by their bytes, as ASGI has them; a text as key finds a text."""

    def __init__(self, scope: Scope) -> None:
        super().__init__((key.lower(), value) for key, value in scope["headers"])

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, str):
            return super().__getitem__(_header_key(name)).decode("latin-1")
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(_header_key(name) if isinstance(name, str) else name)

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a header, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def __repr__(self) -> str:
        return f"RequestHeaders({sorted(self)})"  # their values are credentials


def _header_key(name: str) -> bytes:
    return name.lower().encode("latin-1", "replace")


class Rewind:
    """Keeps what was read of a request, so that the app can read it again."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit
        self._seen: deque[Message] = deque()

    async def receive_first(self) -> Message:
        """Receive before the app does."""
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise AuthError(
                "The request's body is larger than what is read before the caller is known",
                status=413,
                error="body_too_large",
            )
        self._seen.append(message)
        return message

    async def receive_again(self) -> Message:
        """Receive as if nobody had read before."""
        return self._seen.popleft() if self._seen else await self._receive()


async def _parse_body(request: HTTPConnection) -> Any:
    """Return the parsed body; None where there is none, and where it is not JSON."""
    if not isinstance(request, Request):
        return None
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        return None
    except ClientDisconnect:
        raise AuthError("The client went away", status=400, error="disconnected") from None


_READERS: Mapping[str, Callable[[Scope], Any]] = {
    "path": lambda scope: scope["path"],
    "method": lambda scope: scope.get("method", "GET"),
    "path_params": lambda scope: dict(scope.get("path_params") or {}),
    "query_params": lambda scope: dict(QueryParams(scope["query_string"])),
    "headers": RequestHeaders,
    "authorization": lambda scope: next(iter(header_values(scope, b"authorization")), None),
    "scope": lambda scope: scope,
}

PARAMETERS = frozenset({*_READERS, "request", "body"})
READING = frozenset({"request", "body"})
"""The parameters with which a handler can read the body."""


async def handler_arguments(
    names: frozenset[str], scope: Scope, receive: Receive
) -> dict[str, Any]:
    """Return the arguments of a handler."""
    given = {name: _READERS[name](scope) for name in names - READING}
    if names & READING:
        kind = Request if scope["type"] == "http" else HTTPConnection
        request = kind(scope, receive)
        if "body" in names:  # through the request, which keeps it for the handler
            given["body"] = await _parse_body(request)
        if "request" in names:
            given["request"] = request
    return given
