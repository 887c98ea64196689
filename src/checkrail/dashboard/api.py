"""The JSON API, called within the process by the routes and roles that everybody else has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Scope

from checkrail.server.auth import TABLE, Caller
from checkrail.server.auth.caller import SCOPE_KEY

Params = Mapping[str, Any]


class ApiError(Exception):
    """What the API refused, in its own words."""

    def __init__(self, status: int, body: Any) -> None:
        told = body if isinstance(body, Mapping) else {}
        self.status = status
        self.error = str(told.get("error") or "error")
        self.message = str(told.get("message") or told.get("detail") or f"HTTP status {status}")
        self.problems: Sequence[Any] = told.get("errors") or ()
        self.body = told
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """Return the body, or raise `ApiError`."""
        told = orjson.loads(self.body) if self.body.strip() else None
        if self.status >= 400:
            raise ApiError(self.status, told)
        return told


class Api:
    """The API as one visitor may use it."""

    def __init__(self, app: ASGIApp, request: Request, caller: Caller) -> None:
        self._app = app
        self._request = request
        self.caller = caller

    def allows(self, method: str, route: str) -> bool:
        """Return whether the visitor's role is enough for a route, which has to exist."""
        rule = TABLE.get(method, route)
        return rule is not None and self.caller.has_role(rule.needs)

    def has(self, method: str, route: str) -> bool:
        """Return whether there is a route."""
        return TABLE.has(method, route)

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Return what a path holds, or raise `ApiError`."""
        return (await self.send("GET", path, params)).json()

    async def post(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """Do something, or raise `ApiError`."""
        return (await self.send(method, path, body={} if body is None else body)).json()

    async def send(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer to a request."""
        status, told, chunks = 500, {}, []

        async def receive_answer(message: Message) -> None:
            nonlocal status, told
            if message["type"] == "http.response.start":
                status = message["status"]
                told = {key.decode().lower(): value.decode() for key, value in message["headers"]}
            else:
                chunks.append(message.get("body", b""))

        data = b"" if body is None else orjson.dumps(body)
        sent = _Body(data)
        await self._app(self._scope(method, path, params, headers), sent.receive, receive_answer)
        return Answer(status, told, b"".join(chunks))

    async def follow(
        self,
        path: str,
        params: Params | None = None,
        last_event: str | None = None,
        *,
        body: Any = None,
    ) -> AsyncGenerator[tuple[str, str, bytes]]:
        """Yield id, name and data of each event of a stream; comments come with empty names."""
        chunks: asyncio.Queue[bytes | None] = asyncio.Queue(64)
        gone = asyncio.Event()
        status = 500

        sent = _Body(b"" if body is None else orjson.dumps(body), gone)

        async def take(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                return
            await chunks.put(message.get("body", b""))
            if not message.get("more_body"):
                await chunks.put(None)

        async def run() -> None:
            try:
                headers = {} if last_event is None else {"last-event-id": last_event}
                method = "GET" if body is None else "POST"
                await self._app(self._scope(method, path, params, headers), sent.receive, take)
            finally:
                with contextlib.suppress(asyncio.QueueFull):
                    chunks.put_nowait(None)

        task = asyncio.get_running_loop().create_task(run())
        try:
            rest = b""
            while (chunk := await chunks.get()) is not None:
                if status >= 400:
                    raise ApiError(status, orjson.loads(chunk))
                *whole, rest = (rest + chunk.replace(b"\r\n", b"\n")).split(b"\n\n")
                for frame in whole:
                    yield _parse_frame(frame)
        finally:
            gone.set()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def _scope(
        self, method: str, path: str, params: Params | None, headers: Mapping[str, str] | None
    ) -> Scope:
        outer = self._request.scope
        host = self._request.headers.get("host", "localhost")
        named = {"host": host, "accept": "application/json", "content-type": "application/json"}
        told = named | dict(headers or {})
        given = {key: value for key, value in (params or {}).items() if value not in (None, "", [])}
        return {
            "type": "http",
            "asgi": outer["asgi"],
            "http_version": "1.1",
            "method": method,
            "scheme": outer["scheme"],
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": urlencode(given, doseq=True).encode(),
            "root_path": "",
            "headers": [(key.encode(), value.encode("latin-1")) for key, value in told.items()],
            "client": outer.get("client"),
            "server": outer.get("server"),
            "state": {},
            "extensions": {},
            SCOPE_KEY: self.caller,
        }


class _Body:
    """A request's body, and then a client that stays until it is gone."""

    def __init__(self, data: bytes, gone: asyncio.Event | None = None) -> None:
        self._data: bytes | None = data
        self._gone = asyncio.Event() if gone is None else gone

    async def receive(self) -> Message:
        if self._data is None:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        data, self._data = self._data, None
        return {"type": "http.request", "body": data or b"", "more_body": False}


def _parse_frame(frame: bytes) -> tuple[str, str, bytes]:
    number = name = ""
    data: list[bytes] = []
    for line in frame.split(b"\n"):
        key, _, value = line.partition(b": ")
        if key == b"id":
            number = value.decode()
        elif key == b"event":
            name = value.decode()
        elif key == b"data":
            data.append(value)
    return number, name, b"\n".join(data)
