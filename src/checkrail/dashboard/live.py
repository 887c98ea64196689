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

    `types` are the beginnings of the names of the events that count; without them all do.
    """
    return LiveResponse(_render_frames(page, path, render, types, every))


async def _render_frames(
    page: Page, path: str, render: Render, types: tuple[str, ...], every: float
) -> AsyncIterator[bytes]:
    changed, ended = asyncio.Event(), asyncio.Event()
    changed.set()  # what happened between the page and its stream
    listening = asyncio.ensure_future(_listen(page, path, types, changed, ended))
    try:
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    await changed.wait()
            except TimeoutError:
                yield HEARTBEAT
                continue
            changed.clear()
            try:
                told = await render()
            except ApiError:
                return
            if told:
                yield frame(told)
            if ended.is_set():
                return
            await asyncio.sleep(every)
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await listening


async def _listen(
    page: Page, path: str, types: tuple[str, ...], changed: asyncio.Event, ended: asyncio.Event
) -> None:
    try:
        async for _, name, _ in page.api.follow(path):
            if name and (not types or name.startswith(types)):
                changed.set()
    except ApiError:
        pass
    finally:
        ended.set()
        changed.set()


def frame(html: str) -> bytes:
    """Return an event that htmx swaps in."""
    lines = html.replace("\r", "").split("\n")
    return b"".join(f"data: {line}\n".encode() for line in lines if line.strip()) + b"\n"
