"""Clients of a gateway, as light as can be: bytes over sockets, and nothing else to wait for."""

import asyncio
import json
import secrets
from collections.abc import Callable
from time import perf_counter

KEY = f"sk-{secrets.token_hex(32)}"
SIZE = 10_000
_TEXT = "What is to be said of this? " * 400
HEAD = (
    "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\n"
    "content-type: application/json\r\ncontent-length: {}\r\n\r\n"
)


def _request(**more: object) -> bytes:
    """Write a request of 10 kB in six messages."""
    share = (SIZE - 400) // 6
    turns = [
        {"role": "assistant" if number % 2 else "user", "content": _TEXT[:share]}
        for number in range(5)
    ]
    asked = {"model": "model-1", "messages": [{"role": "system", "content": _TEXT[:share]}, *turns]}
    body = json.dumps({**asked, **more}).encode()
    body += b" " * (SIZE - len(body))
    return HEAD.format(KEY, len(body)).encode() + body


PLAIN = _request()
STREAM = _request(stream=True)


async def ask(port: int, requests: int, clients: int) -> list[float]:
    """Send plain requests, and give the seconds that each took."""
    return await _all_clients(_plain, port, requests, clients)


async def stream(port: int, streams: int, clients: int) -> list[float]:
    """Read streams to their ends, and give the seconds until the first byte of each."""
    return await _all_clients(_streamed, port, streams, clients)


async def _all_clients(one: Callable, port: int, number: int, clients: int) -> list[float]:
    each = number // clients
    found = await asyncio.gather(*(_client(one, port, each) for _ in range(clients)))
    return [seconds for many in found for seconds in many]


async def _client(one: Callable, port: int, number: int) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return [await one(reader, writer) for _ in range(number)]
    finally:
        writer.close()
        await writer.wait_closed()


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    began = perf_counter()
    writer.write(PLAIN)
    await read_answer(reader)
    return perf_counter() - began


async def read_answer(reader: asyncio.StreamReader) -> None:
    """Read the answer to a plain request to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    assert b"A word or two." in body, (head, body)


async def _streamed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    began = perf_counter()
    writer.write(STREAM)
    await reader.readuntil(b"\r\n\r\n")
    got = await reader.readuntil(b"data: ")
    first = perf_counter() - began
    while not got.endswith(b"0\r\n\r\n"):
        more = await reader.read(65536)
        assert more, got
        got += more
    assert b"[DONE]" in got, got
    return first
