"""Streams on their way to a caller: passed on as they come, and closed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Self

from checkrail.gateway.call_tracking import OpenCall
from checkrail.gateway.upstreams import NoUpstreamError, UpstreamError, UpstreamResponse
from checkrail.gateway.usage_reader import UsageReader
from checkrail.gateway.verdicts import Refused
from checkrail.llm.wire_format import Format, Refusal

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
