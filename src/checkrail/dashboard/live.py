"""Pages that follow what happens: the server's events, told to a browser in few frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from checkrail.dashboard.api import ApiError
from checkrail.dashboard.page import Page

HEARTBEAT = b": still here\n\n"
DONE = b"event: done\ndata: done\n\n"
SILENCE = 15.0
"""Seconds after which a silent stream says that it is there."""

Render = Callable[[], Awaitable[str]]


class LiveResponse(StreamingResponse):
    """Sends frames until the browser leaves."""

    media_type = "text/event-stream"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send, and stop at once when nobody listens."""
        sending = asyncio.ensure_future(self.stream_response(send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
            with contextlib.suppress(Exception):
                await self.body_iterator.aclose()  # type: ignore[attr-defined]


def follow_page(
    page: Page, path: str, render: Render, *, types: tuple[str, ...] = (), every: float = 1.0
) -> LiveResponse:
    """Return a stream that renders anew after events of a path, at most once `every` seconds.

    `types` are the beginnings of the names of the events that count; without them all do. The
    browser is told by `done` when there is nothing more to come.
    """
    return LiveResponse(_render_frames(page, path, render, types, every))


class _Listening:
    """What was heard of a stream since the last frame, and whether it has ended."""

    def __init__(self) -> None:
        self.bell = asyncio.Event()
        self.is_due = True  # for what happened between the page and its stream
        self.has_ended = False
        self.is_done = False
        self.bell.set()

    async def listen(self, page: Page, path: str, types: tuple[str, ...]) -> None:
        """Note events that count, until the stream ends; what ends it early is none of them."""
        try:
            async for _, name, _ in page.api.follow(path):
                self.is_done = name == "end"
                if name and name != "error" and (not types or name.startswith(types)):
                    self.is_due = True
                    self.bell.set()
        except ApiError:
            self.is_due = False
        finally:
            self.has_ended = True
            self.bell.set()


async def _render_frames(
    page: Page, path: str, render: Render, types: tuple[str, ...], every: float
) -> AsyncIterator[bytes]:
    heard = _Listening()
    listening = asyncio.ensure_future(heard.listen(page, path, types))
    try:
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    await heard.bell.wait()
            except TimeoutError:
                yield HEARTBEAT
                continue
            if not heard.is_due:
                if heard.is_done:
                    yield DONE
                return
            heard.bell.clear()
            heard.is_due = False
            try:
                told = await render()
            except ApiError:
                return
            if told:
                yield frame(told)
            if heard.has_ended:
                heard.bell.set()
            await asyncio.sleep(every)
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await listening


def frame(html: str) -> bytes:
    """Return an event that htmx swaps in."""
    lines = html.replace("\r", "").split("\n")
    return b"".join(f"data: {line}\n".encode() for line in lines if line.strip()) + b"\n"
