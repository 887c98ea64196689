"""When an upstream is asked again, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

AGAIN = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses that may be others the next time."""

LONGEST = 10.0
"""Seconds that a caller is kept waiting for another try, at most."""

_FIRST = 0.25


def pause(tries: int, headers: Mapping[str, str] | None = None) -> float | None:
    """Return how many seconds to wait after so many tries; None if it is not worth the wait."""
    headers = {} if headers is None else headers
    if headers.get("x-should-retry", "").lower() == "false":
        return None
    told = _told(headers)
    if told is not None:
        return told if told <= LONGEST else None
    return min(LONGEST, _FIRST * 2.0**tries) * random.uniform(0.75, 1.25)  # noqa: S311 - no secret


def _told(headers: Mapping[str, str]) -> float | None:
    """Read how long the upstream says to wait: milliseconds, seconds, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.replace(".", "", 1).isdecimal() and value.isascii():
            return float(value) * unit
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, moment - time.time())
