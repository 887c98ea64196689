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
PATIENCE = 300
"""Seconds for a thousand streams to be read, or connections to be made, on a busy machine."""

TEXT = "The quick brown fox jumps over the lazy dog. " * 4


class Client:
    """One caller, with as little of its own as can be."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self._got = bytearray()
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, text: str = "Go on.") -> None:
        """Send the request."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = json.dumps(DIALECTS[self._name].request(text, stream=True)).encode()
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
        return self._text()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()

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


async def all_reached(provider: Provider, count: int = STREAMS) -> None:
    """Wait for all streams to come to where they wait, at the same time."""

    def wait() -> bool:
        return all(provider.reached.acquire(timeout=60) for _ in range(count))

    assert await asyncio.to_thread(wait), "not all of them came through"


@pytest.fixture
def many_files():
    """Let this process have as many connections as it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def calling(port: int, name: str, count: int = STREAMS):
    """Give the callers, and hang up at the end, whatever came of it."""
    clients = [Client(port, name) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize(
    ("name", "hooks"),
    [("chat", "no hooks"), ("messages", "a rule on tools"), ("responses", "a rule on answers")],
)
async def test_all_come_to_their_end(name, hooks, tmp_path):
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider())
        places = {"here": here(provider, connect_seconds=PATIENCE)}
        process = gateway_process(tmp_path, HOOKS[hooks], places, open_files=1024)
        gateway = stack.enter_context(process)  # it raises that limit, which most systems have
        provider.always(Say(TEXT, waits=6))
        clients = stack.enter_context(calling(gateway.port, name))
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.ask())
        await all_reached(provider)
        assert gateway.memory_mb < MOST_MB
        provider.go_on()
        async with asyncio.timeout(PATIENCE):
            texts = await asyncio.gather(*(client.read() for client in clients))
        assert texts == [TEXT] * STREAMS
        assert gateway.memory_mb < MOST_MB
        assert "WARNING" not in gateway.log


LARGE_MB = 2
LARGE_STREAMS = 40


@pytest.mark.parametrize(("hooks", "most"), [("no hooks", 0.5), ("a rule on tools", 2.0)])
async def test_a_stream_does_not_keep_its_request_twice(hooks, most, tmp_path):
    """Without hooks nobody needs what was sent; with them it is kept as they see it."""
    with Provider() as provider:
        provider.always(Say(TEXT, waits=1))
        with (
            gateway_process(tmp_path, HOOKS[hooks], {"here": here(provider)}) as gateway,
            calling(gateway.port, "chat", LARGE_STREAMS) as clients,
        ):
            before = gateway.memory_mb
            for number, client in enumerate(clients):
                await client.ask(f"{number} " * (LARGE_MB * 1024 * 1024 // len(f"{number} ")))
                await all_reached(provider, 1)
            kept = (gateway.memory_mb - before) / (LARGE_STREAMS * LARGE_MB)
            provider.go_on()
            texts = [await client.read() for client in clients]
    assert texts == [TEXT] * LARGE_STREAMS
    assert kept < most
