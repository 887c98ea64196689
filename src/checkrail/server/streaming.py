"""Answers that take as long as a run: its events as they come, or its result at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from checkrail.runs import jsons
from checkrail.runs.errors import SOON, TooManyError
from checkrail.server.auth import revoked_error
from checkrail.server.auth.caller import SCOPE_KEY
from checkrail.server.auth.errors import send_refusal
from checkrail.server.services import Services
from checkrail.server.streams.sse import HEARTBEAT, encode_frame

_SILENCE = 5.0  # seconds, as LangGraph's server does
_SOON = 1.0  # seconds
_AT_ONCE = 0.05  # seconds: what takes longer begins with its headers
_BLANK: Message = {"type": "http.response.body", "body": b"\n", "more_body": True}
Gone = Callable[[], Awaitable[object]]
"""Called when the client went away before the end."""


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_room(services: Services) -> None:
    if services.open_streams >= services.config.limits.open_streams:
        raise TooManyError(
            f"{services.open_streams} streams are open already, which is as many as "
            "limits.open_streams allows. Close some, or try again later",
            retry_after=SOON,
        )


@contextlib.contextmanager
def reserve_stream(services: Services) -> Iterator[None]:
    """Hold a place while a run is requested: none is started for a client that cannot follow it.

    The answer that takes the place is told so, by `placed`.
    """
    _check_room(services)
    services.open_streams += 1
    try:
        yield
    finally:
        services.open_streams -= 1


class LongResponse(Response):
    """A response that lasts; it counts as open until it ends or its client goes away."""

    def __init__(
        self,
        services: Services,
        headers: Mapping[str, str],
        gone: Gone | None = None,
        *,
        placed: bool = False,
    ) -> None:
        if not placed:
            _check_room(services)
        super().__init__(headers={**headers})
        self._services = services
        self._gone = gone
        self._started = False
        self._complete = False
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and watch whether anybody still listens who may."""
        with self._services.key_watch.watch_key(scope.get(SCOPE_KEY)) as revoked:
            await self._answer_until(revoked, receive, send)
            if revoked.done() and not self._complete:
                await self._send_revoked(scope, receive, send)

    async def _answer_until(
        self, revoked: asyncio.Future[None], receive: Receive, send: Send
    ) -> None:
        self._services.open_streams += 1
        loop = asyncio.get_running_loop()
        work: asyncio.Task[None] = loop.create_task(self.send_body(send))
        leaving = loop.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait({work, leaving, revoked}, return_when=asyncio.FIRST_COMPLETED)
            self._complete = work.done() or leaving.done()
            if not work.done() and self._gone is not None:
                await self._gone()
            if work.done():
                work.result()
        finally:
            self._services.open_streams -= 1
            for task in (work, leaving):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work

    async def send_body(self, send: Send) -> None:
        """Send the response."""
        raise NotImplementedError

    async def _send_revoked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send that the key was revoked; a client that does not read is not waited for."""
        error = revoked_error()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON):
                if not self._started:
                    await send_refusal(error, scope, receive, send)
                    return
                body = self.render_error_end({"error": error.error, "message": error.message})
                await send({"type": "http.response.body", "body": body, "more_body": False})

    def render_error_end(self, error: dict[str, str]) -> bytes:
        """Return how a response that has begun ends with an error."""
        raise NotImplementedError

    def _start_message(self, status: int = 200) -> Message:
        self._started = True
        return {"type": "http.response.start", "status": status, "headers": self.raw_headers}


class EventStream(LongResponse):
    """Server-sent events; silence is filled with comments.

    One that has to be `heard` answers only with its first frame: until then it may miss something.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        services: Services,
        frames: AsyncIterator[bytes],
        headers: Mapping[str, str] | None = None,
        gone: Gone | None = None,
        *,
        placed: bool = False,
        heard: bool = False,
    ) -> None:
        told = {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
        super().__init__(services, told, gone, placed=placed)
        self._frames = frames
        self._heard = heard

    async def send_body(self, send: Send) -> None:
        """Send frames as they come."""
        started = not self._heard
        if started:
            await send(self._start_message())
        try:
            async for chunk in self._frames:
                if not started:
                    started = True
                    await send(self._start_message())
                body = chunk or HEARTBEAT
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            close: Any = getattr(self._frames, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def render_error_end(self, error: dict[str, str]) -> bytes:
        """Return an event that says it."""
        return encode_frame(None, "error", error)


class DeferredJson(LongResponse):
    """A JSON response that is there when something has ended; until then, white space."""

    media_type = "application/json"

    def __init__(
        self,
        services: Services,
        result: Coroutine[Any, Any, bytes],
        headers: Mapping[str, str] | None = None,
        gone: Gone | None = None,
        *,
        placed: bool = False,
    ) -> None:
        try:
            super().__init__(services, headers or {}, gone, placed=placed)
        except TooManyError:
            result.close()
            raise
        self._result = result
        self._task: asyncio.Task[bytes] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once where that is soon; only a long wait is worth a watch of its own."""
        if self._gone is not None:
            await super().__call__(scope, receive, send)
            return
        result = self._start_waiting()
        self._services.open_streams += 1
        try:
            soon, _ = await asyncio.wait({result}, timeout=_AT_ONCE)
        except asyncio.CancelledError:
            result.cancel()
            raise
        finally:
            self._services.open_streams -= 1
        await (self.send_body(send) if soon else super().__call__(scope, receive, send))

    async def send_body(self, send: Send) -> None:
        """Send the result."""
        result = self._start_waiting()
        try:
            if not result.done():
                await send(self._start_message())
            while not result.done() and not (await asyncio.wait({result}, timeout=_SILENCE))[0]:
                await send(_BLANK)
            body = result.result()
        finally:
            result.cancel()
        if not self._started:
            self.headers["content-length"] = str(len(body))
            await send(self._start_message())
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def render_error_end(self, error: dict[str, str]) -> bytes:
        """Return it as the error of a run is rendered."""
        return jsons.dumps({"__error__": error})

    def _start_waiting(self) -> asyncio.Task[bytes]:
        """Start to wait for the result, once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._result)
        return self._task
