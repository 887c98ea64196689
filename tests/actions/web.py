"""A web service on loopback that says what a test wants it to say, on real sockets."""

import asyncio
import contextlib
import json


def reply(content=b"{}", *fields, status="200 OK"):
    """Write an answer as it goes over the wire."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(data)}", *fields])
    return head.encode() + b"\r\n\r\n" + data


class Service:
    """Answers each request with the same bytes, or lets a function write; remembers what came.

    `closed` is set when a caller has left, whatever was still to be said.
    """

    def __init__(self, says=b"", host="127.0.0.1", port=0):
        self.says = says
        self.place = (host, port)
        self.asked = []
        self.came = asyncio.Event()
        self.closed = asyncio.Event()
        self._writers = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hooks/check?page=1"

    @property
    def requests(self):
        """The JSON that was sent, request by request."""
        return [json.loads(content) for _, _, content in self.asked]

    async def _serve(self, reader, writer):
        self._writers.append(writer)
        try:
            while True:
                await self._answered(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed.set()
        finally:
            writer.close()

    async def _answered(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        self.asked.append((first, headers, content))
        self.came.set()
        if callable(self.says):
            await self.says(reader, writer)
        else:
            writer.write(self.says)
            await writer.drain()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, *self.place)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._writers:
            writer.close()
        with contextlib.suppress(ConnectionError):
            await self._server.wait_closed()
        await asyncio.sleep(0)


async def silence(reader, writer):
    """Say nothing until the caller leaves."""
    await reader.read()
    raise ConnectionError


async def drip(reader, writer):
    """Say one byte after the other, for as long as somebody listens."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    left = asyncio.create_task(reader.read())
    while not left.done():
        writer.write(b" ")
        await asyncio.wait([left], timeout=0.02)
    raise ConnectionError


async def hang_up(reader, writer):
    """Leave without a word."""
    writer.close()
    raise ConnectionError


class Names:
    """DNS that changes its mind: each answer is given once, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
