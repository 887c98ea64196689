"""Waiting for somebody else's code, models and tools: no longer than it may take.

It runs in a task of its own, because it may do anything to the task it runs in: swallow a
cancellation, make another error of it, or be cancelled by itself although nobody asked for it.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_EXCEPTION
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from checkrail.engine.containment import contained, create_contained_task
from checkrail.engine.errors import CodeExited

T = TypeVar("T")

log = logging.getLogger("checkrail.agent")

GRACE = 5.0
"""How long it may take to clean up once nobody waits for it any more, in seconds."""


class TookTooLong(Exception):
    """It did not end in time."""


class CancelledWithin(Exception):
    """It was cancelled, and not by us."""


async def within(timeout: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return what some work gives, or raise what it raises; a cancellation from outside ends it."""
    task = create_contained_task(asyncio.get_running_loop(), work)
    if not await settled([task], timeout):
        raise TookTooLong
    with contained():
        try:
            result: T = task.result()
        except asyncio.CancelledError as error:
            raise CancelledWithin from error
        except GeneratorExit as error:  # its own: nobody has closed this
            raise CodeExited(error) from error
    return result


async def settled(tasks: Collection[asyncio.Task[Any]], timeout: float | None = None) -> bool:
    """Wait for tasks until they are done or one has failed, and leave none of them at work.

    Say whether they had come to that by themselves, in time.
    """
    try:
        done, working = await asyncio.wait(tasks, timeout=timeout, return_when=FIRST_EXCEPTION)
    except GeneratorExit:  # nothing can be waited for any more
        for task in tasks:
            task.cancel()
        raise
    except BaseException:
        await _ended(tasks)
        raise
    if working:
        await _ended(tasks)
    _see(done)
    return not working


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them; what will not end is left behind."""
    for task in tasks:
        task.cancel()
    done, stuck = await asyncio.wait(tasks, timeout=GRACE)
    _see(done)
    for task in stuck:
        log.error("a model or tool goes on although nobody waits for it any more: %s", task)


def _see(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Look at how tasks ended, whether or not anybody wants to know: else Python complains."""
    for task in tasks:
        if not task.cancelled():
            task.exception()
