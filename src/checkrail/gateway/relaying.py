"""Streams on their way to a caller: passed on as they come, and closed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Self

from checkrail.gateway.formats.base import Format, Refusal
from checkrail.gateway.upstreams import NoUpstreamError, Sent, UpstreamError
from checkrail.gateway.verdicts import Refused

LONGEST = 64 * 1024
"""How much of an event is kept back until it is whole."""

ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Flow(AsyncIterator[bytes]):
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
        """Let go of everything; a content that nobody began to read has nothing of its own."""
        try:
            await self._content.aclose()
        finally:
            if self._close is not None:
                await self._close()


async def relayed(sent: Sent, format: Format) -> AsyncGenerator[bytes]:
    """Pass a stream on, unread; if it breaks off, its caller is told so as the API does.

    An event is kept back until it is whole, so that an error never stands in the middle of one.
    """
    left = b""
    torn = False
    try:
        async for chunk in sent.chunks():
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
        yield (b"\n\n" if torn else b"") + format.error_event(unanswered(error))
    else:
        if left:
            yield left
    finally:
        await sent.close()


def is_stream(sent: Sent) -> bool:
    """Return whether an upstream answers with a stream."""
    kinds = [value for name, value in sent.headers if name == b"content-type"]
    return sent.status < 300 and any(b"text/event-stream" in kind.lower() for kind in kinds)


def evasive(sent: Sent) -> str | None:
    """Say why an answer would get around hooks: they cannot read it, or it sends callers away."""
    if 300 <= sent.status < 400:
        return (
            f"the upstream {sent.name!r} redirects, and whoever follows goes past the hooks: "
            "its url should be where it leads"
        )
    if sent.status < 300 and any(name == b"content-encoding" for name, _ in sent.headers):
        return f"the answer of the upstream {sent.name!r} is compressed in a way that was not asked"
    return None


async def written(pieces: list[bytes]) -> AsyncGenerator[bytes]:
    """Yield a stream that is known already."""
    for piece in pieces:
        yield piece


async def begun(content: AsyncGenerator[bytes]) -> Flow:
    """Begin with a stream; what is refused before anything of it was sent can still be said so.

    Raises `Refused`.
    """
    try:
        first = await anext(content)
    except StopAsyncIteration:
        return Flow(content)
    except Refused:
        await content.aclose()
        raise
    return Flow(content, first=first)


def unanswered(error: UpstreamError | NoUpstreamError) -> Refusal:
    """Say that no upstream gave an answer."""
    code = "model_not_found" if isinstance(error, NoUpstreamError) else "upstream_error"
    return Refusal(error.status, str(error), code)
