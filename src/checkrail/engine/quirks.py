"""What asyncio leaves behind, and has to be put right."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

UNCANCELS = sys.version_info >= (3, 13)
"""Whether a TaskGroup takes back every cancellation that it has asked its parent for."""


def awaiting(waiting: Any) -> Iterator[tuple[Any, types.FrameType]]:
    """Go through a chain of awaits, from the outermost coroutine to the innermost."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            return
        yield waiting, frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
        # a nested dispatch is relayed by a generator that holds its walker in a variable
        waiting = waiting or frame.f_locals.get("walker")


def rehome(waiting: Any, old: asyncio.Task[Any], new: asyncio.Task[Any] | None) -> None:
    """Have the timeouts and groups of a chain of awaits cancel the task that it now runs in.

    They hold on to the task in which they were entered, which has nothing to do with it any more.
    """
    for coroutine, _ in awaiting(waiting):
        for held in gc.get_referents(coroutine):
            owner = getattr(held, "__self__", held)
            for name in ("_task", "_parent_task", "task"):
                if getattr(owner, name, None) is old:
                    setattr(owner, name, new)


def group_at(waiting: Any) -> asyncio.TaskGroup | None:
    """Find the TaskGroup that is being left at the end of a chain of awaits and cancels it.

    Before Python 3.13 such a group does not take its request back. What it leaves counted as
    a cancellation would look like one from outside.
    """
    if UNCANCELS:
        return None  # pragma: no cover - depends on the version of Python
    *_, (_, frame) = awaiting(waiting)
    if frame.f_code is not asyncio.TaskGroup.__aexit__.__code__:
        return None
    if frame.f_locals["et"] is not None:
        return None  # its request reached the body, and it has taken it back
    group: asyncio.TaskGroup = frame.f_locals["self"]
    return group if getattr(group, "_parent_cancel_requested", False) else None
