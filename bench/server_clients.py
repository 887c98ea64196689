"""Clients of the server, as light as can be: bytes over sockets, and nothing else to wait for."""

import asyncio
import json
import uuid
from collections.abc import Callable
from time import perf_counter

STATELESS, THREAD = "stateless", "on a thread"
_BODY = {"assistant_id": "one", "input": {"count": 1}}
_ANSWER = b'{"count":2}'
_HEAD = (
    "POST {} HTTP/1.1\r\nhost: localhost\r\n"
    "content-type: application/json\r\ncontent-length: {}\r\n\r\n"
)


async def wait_for_runs(port: int, mode: str, runs: int, clients: int) -> list[float]:
    """Ask for runs and wait for each; give the seconds that each took."""
    return await _all_clients(_wait_one, port, mode, runs, clients)


async def first_events(port: int, mode: str, runs: int, clients: int) -> list[float]:
    """Stream runs, and give the seconds until the first event of each."""
    return await _all_clients(_stream_one, port, mode, runs, clients)


async def stream_runs(port: int, mode: str, runs: int, clients: int) -> list[float]:
    """Stream runs to their ends, and return the seconds that each took."""
    return await _all_clients(_stream_whole, port, mode, runs, clients)


async def post_json(reader, writer, path: str, body: object) -> dict:
    """Post a body on a connection that stays open, and return the answer, which is not an error."""
    written = json.dumps(body)
    writer.write((_HEAD.format(path, len(written)) + written).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    answer = await _read_body(reader, head)
    assert head.startswith(b"http/1.1 2"), (head, answer)
    return json.loads(answer)


async def _all_clients(one: Callable, port: int, mode: str, runs: int, clients: int) -> list[float]:
    each = runs // clients
    found = await asyncio.gather(*(_client(one, port, mode, each) for _ in range(clients)))
    return [seconds for many in found for seconds in many]


async def _client(one: Callable, port: int, mode: str, runs: int) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return [await one(reader, writer, mode) for _ in range(runs)]
    finally:
        writer.close()
        await writer.wait_closed()


async def _wait_one(reader, writer, mode: str) -> float:
    began = perf_counter()
    writer.write(_request(mode, "wait"))
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await _read_body(reader, head)
    assert body.strip() == _ANSWER, (head, body)
    return perf_counter() - began


async def _read_body(reader, head: bytes) -> bytes:
    """Read the body of an answer: a run that takes a while has its headers sent before it ends."""
    _, known, size = head.partition(b"content-length: ")
    if known:
        return await reader.readexactly(int(size.split()[0]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


async def _stream_one(reader, writer, mode: str) -> float:
    began = perf_counter()
    writer.write(_request(mode, "stream"))
    await reader.readuntil(b"event: metadata\n")
    found = perf_counter() - began
    await reader.readuntil(b"\r\n0\r\n\r\n")
    return found


async def _stream_whole(reader, writer, mode: str) -> float:
    began = perf_counter()
    writer.write(_request(mode, "stream"))
    said = await reader.readuntil(b"\r\n0\r\n\r\n")
    assert _ANSWER in said, said
    return perf_counter() - began


def _request(mode: str, what: str) -> bytes:
    path, body = f"/runs/{what}", _BODY
    if mode == THREAD:
        path, body = f"/threads/{uuid.uuid4()}{path}", _BODY | {"if_not_exists": "create"}
    written = json.dumps(body)
    return (_HEAD.format(path, len(written)) + written).encode()
