"""Waiting for somebody else's code, models, tools and channels: no longer than it may take.

It runs in a task of its own, because it may do anything to the task it runs in: swallow a
cancellation, make another error of it, or be cancelled by itself although nobody asked for it.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import FIRST_EXCEPTION
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from checkrail.engine.containment import contain_errors, create_contained_task
from checkrail.engine.errors import CodeExited

T = TypeVar("T")

log = logging.getLogger("checkrail.agent")

GRACE = 5.0
"""How long it may take to clean up once nobody waits for it any more, in seconds."""


class WorkTimedOut(Exception):
    """The work did not end in time."""


class WorkCancelledItself(Exception):
    """The work was cancelled, and not by us."""


async def run_with_timeout(timeout: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, or raise its error; a cancellation from outside ends it."""
    task = create_contained_task(asyncio.get_running_loop(), work)
    if not await wait_for_tasks([task], timeout):
        raise WorkTimedOut(f"it took longer than {timeout:g} seconds")
    with contain_errors():
        try:
            result: T = task.result()
        except asyncio.CancelledError as error:
            raise WorkCancelledItself from error
        except GeneratorExit as error:  # its own: nobody has closed this
            raise CodeExited(error) from error
    return result


async def wait_for_tasks(
    tasks: Collection[asyncio.Task[Any]], timeout: float | None = None
) -> bool:
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
        await _cancel_tasks(tasks)
        raise
    if working:
        await _cancel_tasks(tasks)
    _retrieve_errors(done)
    return not working


async def _cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them; what will not end is left behind."""
    for task in tasks:
        task.cancel()
    done, stuck = await asyncio.wait(tasks, timeout=GRACE)
    _retrieve_errors(done)
    for task in stuck:
        log.error("a call goes on although nobody waits for it any more: %s", task)


def _retrieve_errors(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Retrieve the errors of tasks, so that asyncio does not log them as never retrieved."""
    for task in tasks:
        if not task.cancelled():
            task.exception()
