"""A provider of models on this machine: it speaks the four APIs, says what it was told to say,
and can fail in every way that providers do."""

import asyncio
import gzip
import json
import re
import threading
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from checkrail.llm.aws_frames import write_chunk

from .provider_wire import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    Say,
    error,
    events,
    gemini_chunks,
    whole,
)

__all__ = [
    "CHAT",
    "GEMINI",
    "MESSAGES",
    "RESPONSES",
    "Fail",
    "Garbage",
    "Hang",
    "Provider",
    "Raw",
    "Say",
]

APIS = (CHAT, MESSAGES, RESPONSES)


@dataclass(frozen=True)
class Fail:
    """An error of the API."""

    status: int
    message: str = "something is wrong"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Bytes as they are, in these pieces."""

    pieces: list[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No answer, until the caller goes away."""


@dataclass(frozen=True)
class Garbage:
    """Bytes on the connection that are no HTTP."""

    data: bytes = b"\x00\xffnothing that anybody knows\r\n\r\n"


Reply = Say | Fail | Raw | Hang | Garbage | Callable[[Any], Say]
"""What is said; a function makes it of the request, as a model does."""


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        """The body, and the model if the path names it."""
        named = re.search(r"/models?/(.+)[:/]", self.path)
        return json.loads(self.body) | ({"model": named[1]} if named else {})

    def header(self, name: str) -> str | None:
        """Give the only value of a header; two of one name are a mistake."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None


class Provider:
    """A server on a free port, in a thread of its own. Use it with `with`."""

    def __init__(self, *replies: Reply, models: tuple[str, ...] = ("model-1",)) -> None:
        self.models = models
        self.requests: list[Received] = []
        self.gone = threading.Semaphore(0)  # released for each caller that goes away
        self.reached = threading.Semaphore(0)  # released for each stream that waits
        self._replies = deque(replies)
        self._default: Reply = Say("Hello from the model.")
        self._decide: Callable[[Received], Reply | None] = lambda _: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._go_on = asyncio.Event()
        self._connections: dict[int, int] = {}
        self.port = 0

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def say(self, *replies: Reply) -> Self:
        """Answer the next requests with these, one each."""
        self._replies.extend(replies)
        return self

    def always(self, reply: Reply) -> Self:
        """Answer with this when nothing else is left to say."""
        self._default = reply
        return self

    def decide(self, answer: Callable[[Received], Reply | None]) -> Self:
        """Answer each request by what it holds; where that gives None, as without it."""
        self._decide = answer
        return self

    def go_on(self) -> None:
        """Let streams go on that wait, now and from now on."""
        self._loop.call_soon_threadsafe(self._go_on.set)

    def anew(self) -> None:
        """Forget what came and what was to be said, and let streams wait again."""
        self._call(self._forget())

    async def _forget(self) -> None:
        self._go_on.clear()
        self._replies.clear()
        self.requests.clear()
        for told in (self.gone, self.reached):
            while told.acquire(blocking=False):
                pass

    @property
    def last(self) -> Received:
        """The request that came last."""
        return self.requests[-1]

    async def until_gone(self) -> None:
        """Wait for a caller to go away in the middle of an answer."""
        assert await asyncio.to_thread(self.gone.acquire, timeout=20), "nobody went away"

    async def until_reached(self) -> None:
        """Wait for a stream to come to where it waits, or for a request that hangs."""
        assert await asyncio.to_thread(self.reached.acquire, timeout=20), "nothing waits"

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _start(self) -> None:
        server = web.Server(self._handle, request_factory=self._request, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def _request(self, *parts: Any) -> web.BaseRequest:
        return web.BaseRequest(*parts, loop=self._loop, client_max_size=1 << 30)

    async def _stop(self) -> None:
        self._go_on.set()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        transport = id(request.transport)
        number = self._connections.setdefault(transport, len(self._connections))
        headers = [(k.decode(), v.decode("latin-1")) for k, v in request.raw_headers]
        path, _, query = request.raw_path.partition("?")
        received = Received(request.method, path, query, headers, body, number)
        self.requests.append(received)
        known = next((api for api in APIS if path.endswith(api.removeprefix("/v1"))), None)
        known = GEMINI if "enerateContent" in path else known
        known = MESSAGES if path.endswith(CLOUDS) else known
        if known is None and not self._replies:
            return self._other(path, body)
        reply = self._decide(received) or self._next_reply()
        try:
            called = GEMINI + path + query if known == GEMINI else known or CHAT
            return await self._answer(request, called, body, reply)
        except (asyncio.CancelledError, ConnectionResetError):
            self.gone.release()
            raise

    def _next_reply(self) -> Reply:
        return self._replies.popleft() if self._replies else self._default

    async def _answer(
        self, request: web.BaseRequest, path: str, body: bytes, reply: Reply
    ) -> web.StreamResponse:
        if isinstance(reply, Hang):
            self.reached.release()
            await asyncio.Event().wait()
        if isinstance(reply, Garbage):
            request.transport.write(reply.data)
            request.transport.close()
            return web.Response()
        if isinstance(reply, Fail):
            told = error(path, reply.status, reply.message)
            if request.path.startswith("/model/"):
                told = {"message": reply.message}
            return web.json_response(told, status=reply.status, headers=reply.headers)
        if isinstance(reply, Raw):
            return await self._stream(request, reply.pieces, reply.status, reply.headers)
        if callable(reply):
            reply = reply(json.loads(body) if body else {})
        streamed = _stream_of(request, path, body, reply)
        if streamed is not None:
            pieces, kind = streamed
            headers = {"content-type": kind, **reply.headers}
            return await self._stream(request, _cut(pieces, reply), 200, headers, reply)
        data = json.dumps(whole(path, reply)).encode()
        if reply.dies is not None:
            return await self._stream(request, [data[:20], data[20:]], 200, {}, reply)
        headers = {"content-type": "application/json", **reply.headers}
        if reply.gzip:
            headers["content-encoding"] = "gzip"
            data = gzip.compress(data)
        return web.Response(body=data, headers=headers)

    async def _stream(
        self,
        request: web.BaseRequest,
        pieces: list[bytes],
        status: int,
        headers: dict[str, str],
        said: Say | None = None,
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        squeezer = zlib.compressobj(wbits=31) if said is not None and said.gzip else None
        if squeezer is not None:
            response.headers["content-encoding"] = "gzip"
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            if said is not None and said.waits == number:
                self.reached.release()
                await self._go_on.wait()
            if said is not None and said.dies == number:
                request.transport.abort()
                return response
            if squeezer is not None:
                piece = squeezer.compress(piece) + squeezer.flush(zlib.Z_SYNC_FLUSH)  # noqa: PLW2901
            await response.write(piece)
        await response.write_eof(b"" if squeezer is None else squeezer.flush())
        return response

    def _other(self, path: str, body: bytes) -> web.Response:
        if path.endswith("/models"):
            listed = [{"id": name, "object": "model", "owned_by": "us"} for name in self.models]
            return web.json_response({"object": "list", "data": listed})
        return web.json_response({"path": path, "bytes": len(body)})


CLOUDS = ("/invoke", "/invoke-with-response-stream", ":rawPredict", ":streamRawPredict")


def _framed(event: bytes) -> bytes:
    """Write an event as Bedrock does."""
    return write_chunk(event.partition(b"data: ")[2].strip())


def _stream_of(
    request: web.BaseRequest, path: str, body: bytes, said: Say
) -> tuple[list[bytes], str] | None:
    """Give a stream and its kind, if one was asked for by the path or in the body."""
    asked = json.loads(body) if body else {}
    if ":streamGenerate" in path and "alt=sse" not in path:
        return _array(said), "application/json"
    if request.path.endswith("-stream"):
        frames = [_framed(event) for event in events(path, said, asked)]
        return frames, "application/vnd.amazon.eventstream"
    if asked.get("stream") or ":stream" in request.path:
        return events(path, said, asked), "text/event-stream; charset=utf-8"
    return None


def _array(said: Say) -> list[bytes]:
    """Write the pieces of a stream as an array."""
    chunks = [json.dumps(chunk, indent=2).encode() for chunk in gemini_chunks(said)]
    data = [(b",\r\n" if number else b"[") + chunk for number, chunk in enumerate(chunks)]
    return [*data, b"\n]\n"]


def _cut(pieces: list[bytes], said: Say) -> list[bytes]:
    if said.cut is None:
        return pieces
    data = b"".join(pieces)
    return [data[at : at + said.cut] for at in range(0, len(data), said.cut)]
