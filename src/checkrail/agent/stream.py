"""A run of an agent as a stream of events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Self

from checkrail.agent.errors import RunFailed
from checkrail.agent.events import Emit, Finished, StreamEvent, TextDelta
from checkrail.engine.errors import CheckrailError
from checkrail.engine.values import AgentResponse


class AgentStream:
    """A run as a stream of events: `async for event in agent.stream(query)`.

    It begins with the first event that is asked for, and runs in a task of its own: whoever stops
    listening cancels it. A run that fails raises `RunFailed` after its last event.
    """

    def __init__(self, start: Callable[[Emit], Awaitable[AgentResponse]]) -> None:
        self._start = start
        self._run: asyncio.Task[None] | None = None
        self._closing = False
        self._response: AgentResponse | None = None

    @property
    def response(self) -> AgentResponse:
        """What came of the run, once it is over; of one that failed, what there was so far."""
        if self._response is None:
            over = self._run is not None and self._run.done()
            told = "it was cancelled" if over else "it is not over: take its events first"
            raise CheckrailError(f"the run has no response, for {told}")
        return self._response

    async def __aiter__(self) -> AsyncGenerator[StreamEvent]:
        """Run the agent, and give each event."""
        if self._run is not None or self._closing:
            told = "this stream was started or closed before"
            raise CheckrailError(f"{told}: call agent.stream() for another")
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()

        here = threading.get_ident()

        def emit(event: StreamEvent) -> None:
            if threading.get_ident() == here:
                events.put_nowait(event)
            else:  # an agent beneath runs in the thread of a tool
                loop.call_soon_threadsafe(events.put_nowait, event)

        self._run = loop.create_task(self._run_to_end(emit))
        self._run.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
                if isinstance(event, Finished):
                    break
            if not self._run.cancelled():  # else somebody closed it
                await self._run
        finally:
            await self.aclose()

    async def text(self) -> AsyncGenerator[str]:
        """Run the agent, and yield the text of its answer alone."""
        async with aclosing(self.__aiter__()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    async def aclose(self) -> None:
        """End the run if it is not over; its `query_end` is seen to."""
        first, self._closing = not self._closing, True
        if self._run is not None and not self._run.done():
            if first:  # the second time would cut its ending short
                self._run.cancel()
            await asyncio.wait([self._run])
        if self._run is not None and not self._run.cancelled():
            self._run.exception()  # seen, whether or not anybody still wants to know

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run_to_end(self, emit: Emit) -> None:
        try:
            self._response = await self._start(emit)
        except RunFailed as failed:
            self._response = failed.response
            raise
        emit(Finished(self._response))
