"""Streams on their way to a caller: passed on as they come, and closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Generic, Protocol, Self, TypeVar

from checkrail.gateway.call_tracking import OpenCall
from checkrail.gateway.upstreams import NoUpstreamError, UpstreamError, UpstreamResponse
from checkrail.gateway.usage_reader import UsageReader
from checkrail.gateway.verdicts import Refused
from checkrail.llm.json_bytes import read_object
from checkrail.llm.wire_format import Format, Refusal, UnreadableError

LONGEST = 64 * 1024
"""How much of an event is kept back until it is whole."""

ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class ReplyStream(AsyncIterator[bytes]):
    """The content of a streamed reply; whoever does not read it to its end closes it."""

    def __init__(
        self,
        content: AsyncGenerator[bytes],
        close: Callable[[], Awaitable[None]] | None = None,
        first: bytes = b"",
    ) -> None:
        self._content = content
        self._close = close
        self._first = first

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if first := self._first:
            self._first = b""
            return first
        return await anext(self._content)

    async def aclose(self) -> None:
        """Close the content and everything it was read from."""
        try:
            await self._content.aclose()
        finally:
            if self._close is not None:
                await self._close()


async def relay_stream(
    sent: UpstreamResponse, format: Format, opened: OpenCall, reader: UsageReader | None = None
) -> AsyncGenerator[bytes]:
    """Yield a stream unread; if it breaks off, its caller gets an error as the API writes it.

    An event is kept back until it is whole, so that an error never stands in the middle of one.
    """
    if not is_event_stream(sent):
        async for data in _relay_pieces(sent, format, opened, reader):
            yield data
        return
    left = b""
    torn = False
    try:
        async for chunk in _iter_chunks(sent, reader):
            if not left and chunk.endswith(ENDS):  # nearly always
                torn = False
                yield chunk
                continue
            left += chunk
            end = max(left.rfind(mark) + len(mark) if mark in left else 0 for mark in ENDS)
            if not end and len(left) > LONGEST:
                end = len(left)
            if end:
                whole, left = left[:end], left[end:]
                torn = not whole.endswith(ENDS)
                yield whole
    except UpstreamError as error:
        refusal = build_upstream_refusal(error)
        opened.note_refused(refusal)
        yield (b"\n\n" if torn else b"") + format.write_stream_error(refusal, begun=True)
    else:
        if left:
            yield left
    finally:
        await sent.close()


async def _iter_chunks(sent: UpstreamResponse, reader: UsageReader | None) -> AsyncGenerator[bytes]:
    async for chunk in sent.chunks():
        if reader is not None:
            reader.feed(chunk)
        yield chunk


async def _relay_pieces(
    sent: UpstreamResponse, format: Format, opened: OpenCall, reader: UsageReader | None
) -> AsyncGenerator[bytes]:
    """Yield a stream of another kind than events, piece by piece."""
    splitter = format.open_splitter()
    begun = False
    try:
        async for chunk in _iter_chunks(sent, reader):
            pieces = splitter.feed(chunk)
            if data := b"".join(piece.raw for piece in pieces):
                begun = begun or any(piece.data for piece in pieces)
                yield data
    except UpstreamError as error:
        refusal = build_upstream_refusal(error)
        opened.note_refused(refusal)
        yield format.write_stream_error(refusal, begun=begun)
    else:
        if data := b"".join(piece.raw for piece in splitter.finish()):
            yield data
    finally:
        await sent.close()


def is_event_stream(sent: UpstreamResponse) -> bool:
    """Return whether an upstream answers with server-sent events."""
    return _has_type(sent, b"text/event-stream")


def is_stream(sent: UpstreamResponse, format: Format) -> bool:
    """Return whether an upstream answers with a stream."""
    return sent.status < 300 and _has_type(sent, format.stream_type.partition(b";")[0])


def _has_type(sent: UpstreamResponse, wanted: bytes) -> bool:
    kinds = [value for name, value in sent.headers if name == b"content-type"]
    return any(wanted in kind.lower() for kind in kinds)


def find_evasion(sent: UpstreamResponse) -> str | None:
    """Return why a response would get around hooks: it is unreadable, or redirects the caller."""
    if 300 <= sent.status < 400:
        return (
            f"the upstream {sent.name!r} redirects, and whoever follows goes past the hooks: "
            "its url should be where it leads"
        )
    if sent.status < 300 and any(name == b"content-encoding" for name, _ in sent.headers):
        return f"the answer of the upstream {sent.name!r} is compressed in a way that was not asked"
    return None


async def iter_pieces(pieces: list[bytes]) -> AsyncGenerator[bytes]:
    """Yield a stream that is known already."""
    for piece in pieces:
        yield piece


async def start_stream(content: AsyncGenerator[bytes]) -> ReplyStream:
    """Read the first piece of a stream, so that a refusal before it can still be a plain reply.

    Raises `Refused`.
    """
    try:
        first = await anext(content)
    except StopAsyncIteration:
        return ReplyStream(content)
    except Refused:
        await content.aclose()
        raise
    return ReplyStream(content, first=first)


def build_upstream_refusal(error: UpstreamError | NoUpstreamError) -> Refusal:
    """Return the refusal for a request that no upstream answered."""
    code = "model_not_found" if isinstance(error, NoUpstreamError) else "upstream_error"
    return Refusal(error.status, str(error), code)


class _Reply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def content(self) -> bytes | ReplyStream: ...


R = TypeVar("R", bound=_Reply)


class HeldReply(Generic[R]):
    """A reply to a streamed request that is being worked out, under a task of its own.

    Its stream begins before its answer where people are asked whether it may be had.
    """

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
