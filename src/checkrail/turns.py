"""Hooks of files that take long: others have their turn, and what is large goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import thread_time
from typing import NoReturn, TypeVar

T = TypeVar("T")

SOON = 0.004
"""Seconds of CPU time after which others have their turn before an answer is told."""


class TooLargeError(Exception):
    """There is more to be done than may be done while everybody waits."""


def in_turn(work: Callable[[], T]) -> T | Awaitable[T]:
    """Do some work; what took long returns or raises after others had their turn."""
    began = thread_time()
    failure: Exception | None = None
    try:
        answer = work()
    except TooLargeError:
        raise
    except Exception as error:
        if not _took_long(began):
            raise
        failure = error
    if failure is not None:
        return _raise_after_others(failure)
    return _return_after_others(answer) if _took_long(began) else answer


def in_turn_or_thread(work: Callable[[bool], T]) -> T | Awaitable[T]:
    """Do some work here, told that it is, or in a thread if it raises `TooLargeError`."""
    try:
        return in_turn(lambda: work(True))  # noqa: FBT003 - see above
    except TooLargeError:
        return asyncio.to_thread(work, False) if _has_loop() else work(False)  # noqa: FBT003


def _took_long(began: float) -> bool:
    return thread_time() - began >= SOON and _has_loop()


async def _return_after_others(answer: T) -> T:
    await asyncio.sleep(0)
    return answer


async def _raise_after_others(error: Exception) -> NoReturn:
    await asyncio.sleep(0)
    raise error


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
