"""Giving a caller its answer, for as long as the caller is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from checkrail.gateway.incoming import Gone, Incoming

Send = Callable[[dict[str, Any]], Awaitable[None]]
Content = bytes | AsyncIterator[bytes]


class Answering:
    """The answer to one request: `started` once its status is told, `ended` with its last byte."""

    __slots__ = ("_send", "ended", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.ended = False

    async def give(self, status: int, headers: list[tuple[bytes, bytes]], content: Content) -> None:
        """Send an answer, at once or as it comes; what it comes from is closed in any case."""
        if isinstance(content, bytes):
            headers = [*headers, (b"content-length", str(len(content)).encode())]
            await self._start(status, headers)
            await self._end(content)
            return
        try:
            await self._start(status, headers)
            async for chunk in content:
                if chunk:
                    message = {"type": "http.response.body", "body": chunk, "more_body": True}
                    await self._send(message)
        finally:
            if (close := getattr(content, "aclose", None)) is not None:
                await close()
        await self._end(b"")

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _end(self, rest: bytes) -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})


async def while_there(incoming: Incoming, answering: Answering, work: Awaitable[None]) -> None:
    """Do work for a caller, and stop it at once when the caller goes away, which raises `Gone`."""
    task = asyncio.current_task()
    gone = False

    async def watch() -> None:
        nonlocal gone
        await incoming.gone()
        if not answering.ended and task is not None:  # the end of an answer looks the same
            gone = True
            task.cancel()

    watching = asyncio.create_task(watch())
    try:
        await work
    except asyncio.CancelledError:
        if gone and task is not None and task.uncancel() == 0:
            raise Gone from None
        raise
    finally:
        watching.cancel()
