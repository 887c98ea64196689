"""A stream that begins before its answer, because people are asked whether it may be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar

from checkrail.gateway.call_tracking import OpenCall
from checkrail.gateway.relay import ReplyStream
from checkrail.gateway.verdicts import Refused
from checkrail.llm.json_bytes import read_object
from checkrail.llm.wire_format import Format, Refusal, UnreadableError


class _Reply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def content(self) -> bytes | ReplyStream: ...


R = TypeVar("R", bound=_Reply)


class HeldReply(Generic[R]):
    """A reply to a streamed request that is being worked out, under a task of its own."""

    def __init__(
        self, work: Coroutine[Any, Any, R], opened: OpenCall, format: Format, every: float
    ) -> None:
        self._work = asyncio.create_task(work)
        self._opened = opened
        self._format = format
        self._every = every

    async def wait(self) -> R | None:
        """Return the reply; None if people are asked, and the caller needs a sign of life.

        Raises `Refused`.
        """
        try:
            while True:
                await asyncio.wait([self._work], timeout=self._every)
                if self._work.done():
                    return self._work.result()
                if self._opened.is_asking:
                    return None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def content(self) -> AsyncGenerator[bytes]:
        """Yield signs of life, and then the answer; what refuses it is an error event."""
        try:
            yield self._format.keep_alive
            while not self._work.done():
                await asyncio.wait([self._work], timeout=self._every)
                if not self._work.done():
                    yield self._format.keep_alive
            try:
                reply = self._work.result()
                pieces = self._pieces_of(reply)
                async with aclosing(pieces):
                    async for piece in pieces:
                        yield piece
            except Refused as refused:
                self._opened.note_refused(refused.refusal)
                yield self._format.write_stream_error(refused.refusal, begun=False)
        finally:
            await self.close()

    async def _pieces_of(self, reply: R) -> AsyncGenerator[bytes]:
        content = reply.content
        if isinstance(content, bytes):
            self._opened.note_refusal(f"the upstream answered {reply.status}")
            raise Refused(_refusal_of(reply.status, content))
        try:
            async for piece in content:
                yield piece
        finally:
            await content.aclose()

    async def close(self) -> None:
        """Let nothing go on for a caller who is gone."""
        self._work.cancel()
        await asyncio.wait([self._work])
        if self._work.cancelled() or self._work.exception() is not None:
            return
        if isinstance(content := self._work.result().content, ReplyStream):
            await content.aclose()


def _refusal_of(status: int, content: bytes) -> Refusal:
    """Return the refusal for a reply that is no stream, though a stream was promised."""
    told = f"the upstream answered {status}, and not with a stream"
    try:
        error = read_object(content, "it").get("error")
    except UnreadableError:
        error = None
    message = error.get("message") if isinstance(error, dict) else None
    if isinstance(message, str):
        told = message
    return Refusal(status if status >= 400 else 502, told, "upstream_error")
