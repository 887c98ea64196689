"""A small HTTP server on loopback that answers as a model's provider does, from a script.

    with serving(OpenAIWire(), ["Hello"]) as endpoint:
        ...  # ask endpoint.base_url, look at endpoint.requests

It runs in a thread of its own, so it serves any event loop, and none.
"""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from .replies import Raw, Refuse, Reply, Say, Silence

PATIENCE = 10.0
"""How long a test waits for what must happen, in seconds."""


class Wire(Protocol):
    """The wire format of a provider."""

    prefix: str
    """What its base URL ends with."""
    path: str

    def whole(self, reply: Say, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer at once."""

    def begun(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        """The events of a stream that carry the answer."""

    def ended(self, reply: Say, asked: Mapping[str, Any]) -> list[str]:
        """The events that end it."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error."""

    def broken(self, message: str) -> str:
        """The event of an error in the middle of a stream."""


@dataclass
class Received:
    """A request that came; `gone` is set when its client leaves before the answer's end."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    gone: threading.Event = field(default_factory=threading.Event)

    async def left(self) -> bool:
        return await asyncio.to_thread(self.gone.wait, PATIENCE)


@dataclass
class Endpoint:
    """A server at work."""

    base_url: str
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    """Set when the first request has come."""
    idle: threading.Event = field(default_factory=threading.Event)
    """Set while nobody is connected."""

    @property
    def request(self) -> dict[str, Any]:
        """The body of the last request."""
        return self.requests[-1].body


@contextmanager
def serving(wire: Wire, replies: Sequence[Reply]) -> Iterator[Endpoint]:
    """Answer the requests that come with these replies, one after the other."""
    server = _Server(wire, replies)
    thread = threading.Thread(target=lambda: asyncio.run(server.run()))
    thread.start()
    assert server.ready.wait(PATIENCE)
    try:
        yield server.endpoint
    finally:
        server.loop.call_soon_threadsafe(server.over.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()


class _Server:
    def __init__(self, wire: Wire, replies: Sequence[Reply]) -> None:
        self.wire = wire
        self.replies = [Say(reply) if isinstance(reply, str) else reply for reply in replies]
        self.ready = threading.Event()
        self.over = asyncio.Event()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        self.loop = asyncio.get_running_loop()
        listening = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}{self.wire.prefix}")
        self.endpoint.idle.set()
        self.ready.set()
        await self.over.wait()
        for _ in range(10):  # whoever has just connected is accepted and answered by a task first
            await asyncio.sleep(0)
        listening.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in self.writers:  # what its client has not read by now, it never will
            writer.transport.abort()
        for writer in self.writers:
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.writers.add(writer)
        self.endpoint.connections += 1
        self.endpoint.idle.clear()
        with suppress(ConnectionError, asyncio.CancelledError):
            while await self.answered(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.writers.discard(writer)
        self.tasks.discard(task)
        if not self.tasks:
            self.endpoint.idle.set()

    async def answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and say whether another may follow on this connection."""
        received = await _received(reader)
        if received is None:
            return False
        self.endpoint.requests.append(received)
        self.endpoint.asked.set()
        reply = self.reply_to(received)
        try:
            return await self.send(reply, received, writer) or await _nothing(reader, received)
        except ConnectionError:
            received.gone.set()
            raise

    def reply_to(self, received: Received) -> Reply:
        if received.path != self.wire.prefix + self.wire.path:
            return Refuse(404, f"there is nothing at {received.path}")
        number = len(self.endpoint.requests)
        return self.replies[number - 1] if number <= len(self.replies) else Refuse(400, "no script")

    async def send(self, reply: Reply, received: Received, writer: asyncio.StreamWriter) -> bool:
        """Send a reply, and say whether it came to its end."""
        match reply:
            case Silence():
                return False
            case Raw():
                await _send(writer, 200, reply.body, {"content-type": reply.content_type})
            case Refuse():
                body = json.dumps(self.wire.error(reply.status, reply.message)).encode()
                await _send(writer, reply.status, body, reply.headers)
            case Say() if received.body.get("stream"):
                return await self.stream(reply, received.body, writer)
            case Say():
                body = json.dumps(self.wire.whole(reply, received.body)).encode()
                await _send(writer, 200, body, {}, ends=reply.ends)
                return reply.ends == "well"
        return True

    async def stream(
        self, reply: Say, asked: Mapping[str, Any], writer: asyncio.StreamWriter
    ) -> bool:
        writer.write(_head(200, {"content-type": "text/event-stream; charset=utf-8"}, chunked=True))
        for event in self.wire.begun(reply, asked):
            await _chunk(writer, event)
        if reply.ends == "well":
            for event in self.wire.ended(reply, asked):
                await _chunk(writer, event)
        elif reply.ends == "error":
            await _chunk(writer, self.wire.broken("The engine fell over"))
        elif reply.ends == "never":
            return False
        elif reply.ends == "cut":
            writer.close()
            raise ConnectionError
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _nothing(reader: asyncio.StreamReader, received: Received) -> bool:
    """Say nothing more until the client leaves."""
    await reader.read()
    received.gone.set()
    return False


async def _received(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in lines}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(head[0].split()[1], headers, json.loads(body))


def _head(
    status: int, headers: Mapping[str, str], *, chunked: bool = False, length: int = 0
) -> bytes:
    sized = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(length)}
    lines = (f"{name}: {value}\r\n" for name, value in {**sized, **headers}.items())
    return f"HTTP/1.1 {status} Said\r\n{''.join(lines)}\r\n".encode()


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: Mapping[str, str],
    *,
    ends: str = "well",
) -> None:
    headers = {"content-type": "application/json", **headers}
    whole = ends == "well"
    sent = body if whole else body[: len(body) // 2]
    writer.write(_head(status, headers, length=len(body)) + sent)
    await writer.drain()
    if ends == "cut":
        writer.close()
        raise ConnectionError


async def _chunk(writer: asyncio.StreamWriter, event: str) -> None:
    """Send an event in two parts, cut wherever it may be: networks do."""
    data = event.encode()
    middle = len(data) // 2
    for part in (data[:middle], data[middle:]):
        writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0)
