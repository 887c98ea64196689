"""Times as they are read and written, and ids that sort by time."""

from __future__ import annotations

import os
import time
from time import perf_counter


def epoch_time(moment: float) -> float:
    """Return a reading of the performance counter as seconds since the epoch."""
    return time.time() - (perf_counter() - moment)


def iso_time(seconds: float) -> str:
    """Return a time as ISO 8601, in UTC and to the millisecond."""
    millis = round(seconds * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03}Z"


def uuid7(seconds: float | None = None) -> str:
    """Make an id that sorts by time."""
    millis = int((time.time() if seconds is None else seconds) * 1000)
    number = (millis << 80) | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | (0x7 << 76)
    number = number & ~(0x3 << 62) | (0x2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
