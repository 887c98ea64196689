"""What asyncio leaves behind, and has to be put right."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

UNCANCELS = sys.version_info >= (3, 13)
"""Whether a TaskGroup takes back every cancellation that it has asked its parent for."""


def group_at(waiting: Any) -> asyncio.TaskGroup | None:
    """Find the TaskGroup that is being left at the end of a chain of awaits and cancels it.

    Before Python 3.13 such a group does not take its request back. What it leaves counted as
    a cancellation would look like one from outside.
    """
    if UNCANCELS:
        return None
    frame = None
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None) or frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    if frame is None or frame.f_code is not asyncio.TaskGroup.__aexit__.__code__:
        return None
    if frame.f_locals["et"] is not None:
        return None  # its request reached the body, and it has taken it back
    group: asyncio.TaskGroup = frame.f_locals["self"]
    return group if getattr(group, "_parent_cancel_requested", False) else None
