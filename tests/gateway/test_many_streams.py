"""A thousand streams at once through one gateway: none stalls, and memory stays small."""

import asyncio
import contextlib
import json
import resource

import pytest

from .command import HOOKS, gateway_process, here
from .dialects import DIALECTS
from .provider import Provider, Say
from .provider_wire import CHAT, MESSAGES, RESPONSES

PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
STREAMS = 1000
MOST_MB = 500
TEXT = "The quick brown fox jumps over the lazy dog. " * 4


class Client:
    """One caller, with as little of its own as can be."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._got = bytearray()

    async def ask(self) -> None:
        """Send the request."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = json.dumps(DIALECTS[self._name].request("Go on.", stream=True)).encode()
        head = (
            f"POST {PATHS[self._name]} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def read(self) -> str:
        """Read the stream to its end, and give its text."""
        while not self._got.endswith(b"0\r\n\r\n"):
            data = await self._reader.read(65536)
            assert data, "the connection was cut"
            self._got += data
        self._writer.close()
        return self._text()

    def _text(self) -> str:
        head, _, body = bytes(self._got).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        stream = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            stream, body = stream + body[: int(size, 16)], body[int(size, 16) + 2 :]
        heard = DIALECTS[self._name].heard_stream(stream)
        assert heard.ended
        return heard.text


async def all_reached(provider: Provider) -> None:
    """Wait for all streams to come to where they wait, at the same time."""

    def wait() -> bool:
        return all(provider.reached.acquire(timeout=60) for _ in range(STREAMS))

    assert await asyncio.to_thread(wait), "not all of them came through"


@contextlib.contextmanager
def limited(most: int | None):
    """Let this process, and those that it starts, have so many connections; None: all it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most or hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("name", "hooks"),
    [("chat", "no hooks"), ("messages", "a rule on tools"), ("responses", "a rule on answers")],
)
async def test_all_come_to_their_end(name, hooks, tmp_path):
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider())
        places = {"here": here(provider)}
        with limited(1024):  # as most systems have it: the command helps itself
            gateway = stack.enter_context(gateway_process(tmp_path, HOOKS[hooks], places))
        stack.enter_context(limited(None))
        provider.always(Say(TEXT, waits=6))
        clients = [Client(gateway.port, name) for _ in range(STREAMS)]
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.ask())
        await all_reached(provider)
        assert gateway.memory_mb < MOST_MB
        provider.go_on()
        async with asyncio.timeout(60):
            texts = await asyncio.gather(*(client.read() for client in clients))
        assert texts == [TEXT] * STREAMS
        assert gateway.memory_mb < MOST_MB
        assert "WARNING" not in gateway.log
