"""What a streamed answer has to know of the call that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.formats.base import Format
from checkrail.gateway.judging import Judge
from checkrail.gateway.upstreams import Sent

T = TypeVar("T")

Hold = Callable[[Coroutine[Any, Any, None]], None]
"""Does something that outlives the caller."""


class Asking(Protocol):
    """The call that a stream answers."""

    @property
    def format(self) -> Format:
        """The caller's API."""

    @property
    def judge(self) -> Judge:
        """The hooks."""

    @property
    def request(self) -> ModelRequest:
        """The request as the caller sent it."""

    @property
    def keep_alive(self) -> float:
        """After how many seconds of silence a sign of life is given."""

    async def send(self, request: ModelRequest) -> tuple[Sent, ModelRequest]:
        """Send a request to its upstream: its answer, and what was sent. Raises `Refused`."""

    def counted(self, request: ModelRequest, message: AssistantMessage) -> AssistantMessage:
        """Return an answer to a request with what it cost."""

    def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that outlives the caller."""


async def kept(work: Awaitable[T], hold: Hold) -> T:
    """Return what some work gives; if nobody waits for it any more, it goes on all the same."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def through() -> None:
        try:
            result = await work
        except BaseException as error:
            if done.done():
                raise
            done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    hold(through())
    return await done
