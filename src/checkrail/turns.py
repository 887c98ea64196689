"""Hooks that take long: others have their turn, and what cannot be interrupted goes to a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from time import thread_time
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SOON = 0.004
"""Seconds of CPU time after which others have their turn before an answer is told."""

SLICE = 0.001
"""Seconds of CPU time that long work takes in one round of the event loop, all of it together."""

LARGE = 100_000
"""Bytes of JSON that are read or written in about as long."""

Steps = Generator[Callable[[], Any] | None, Any, T]
"""Work that yields wherever it may be interrupted, or something to be called in a thread."""

_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def run_in_turn(work: Callable[[], T]) -> T | Awaitable[T]:
    """Run some work; one that took long returns or raises after others had their turn."""
    began = thread_time()
    failure: Exception | None = None
    try:
        answer = work()
    except Exception as error:
        if not _took_long(began):
            raise
        failure = error
    if failure is not None:
        return _raise_after_others(failure)
    return _return_after_others(answer) if _took_long(began) else answer


def run_in_slices(work: Steps[T]) -> T | Awaitable[T]:
    """Run work up to where it may be interrupted first, and what is left slice by slice.

    Without an event loop nobody waits, and all of it is run at once.
    """
    if not _has_loop():
        return finish_steps(work)
    try:
        called = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return _take_slices(work, called)


async def run_in_line(work: Callable[[], T], size: int) -> T:
    """Run work that cannot be interrupted, on so many bytes: what is large waits for its round."""
    if size < LARGE:
        return work()
    async with _own_round():
        return work()


@contextlib.asynccontextmanager
async def _own_round() -> AsyncIterator[None]:
    """Wait until no other long work is done in this round of the loop, nor in the next one.

    What could not be interrupted for long is followed by as much time for others: one small request
    takes several rounds, and is not to meet with long work in each of them.
    """
    line = _LINES.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with line:
        began = thread_time()
        try:
            yield
        finally:
            spent = thread_time() - began
            await asyncio.sleep(spent if spent >= SOON else 0)


async def _take_slices(work: Steps[T], called: Callable[[], Any] | None) -> T:
    while True:
        result = None if called is None else await asyncio.to_thread(called)
        async with _own_round():
            until = thread_time() + SLICE
            while True:
                try:
                    called = work.send(result)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                result = None
                if called is not None or thread_time() >= until:
                    break


def finish_steps(work: Steps[T]) -> T:
    """Run all of some work here and now."""
    result = None
    while True:
        try:
            called = work.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        result = None if called is None else called()


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
