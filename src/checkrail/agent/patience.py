"""Waiting for somebody else's code, models and tools: no longer than it may take.

It runs in a task of its own, because it may do anything to the task it runs in: swallow a
cancellation, make another error of it, or be cancelled by itself although nobody asked for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("checkrail.agent")

GRACE = 5.0
"""How long it may take to clean up once nobody waits for it any more, in seconds."""


class TookTooLong(Exception):
    """It did not end in time."""


class CancelledWithin(Exception):
    """It was cancelled, and not by us."""


async def within(timeout: float | None, work: Coroutine[Any, Any, T]) -> T:
    """Give what some work gives, or raise what it raises; a cancellation from outside ends it."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait([task], timeout=timeout)
    finally:
        if not task.done():
            await ended([task])
    if not done:
        raise TookTooLong
    try:
        return task.result()
    except asyncio.CancelledError as error:
        raise CancelledWithin from error


async def ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for them; what will not end is left behind."""
    for task in tasks:
        task.cancel()
    done, stuck = await asyncio.wait(tasks, timeout=GRACE)
    for task in done:
        if not task.cancelled():
            task.exception()  # seen, whether or not anybody still wants to know
    for task in stuck:
        log.error("a model or tool goes on although nobody waits for it any more: %s", task)
