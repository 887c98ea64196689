"""Windows of time, by the calendar in UTC: when a budget began, and when it begins anew."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LENGTHS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
DAY = 86400.0
LINGERS = {"run": 30 * DAY, "total": 366 * DAY}
"""How long an amount without an end is kept after the last was added to it."""

GRACE = 60.0
"""How long an amount is kept beyond its end: clocks differ."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time; without an `end`, it lasts as long as what is counted in it."""

    start: float
    end: float | None
    until: float

    def told_end(self, now: float) -> str:
        """Tell when it is over, if it ever is."""
        if self.end is None:
            return ""
        when = datetime.fromtimestamp(self.end, UTC)
        return f"{when:%Y-%m-%d %H:%M} UTC, in {max(1, round(self.end - now))} s"


def window_at(per: str, now: float) -> Window:
    """Return the window of a kind that it is now."""
    if per in LINGERS:
        return Window(0.0, None, now + LINGERS[per])
    if per in LENGTHS:
        start = now - now % LENGTHS[per]
        return _ending(start, start + LENGTHS[per])
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "week":
        monday = today - timedelta(days=today.weekday())
        return _ending(monday.timestamp(), (monday + timedelta(days=7)).timestamp())
    first = today.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return _ending(first.timestamp(), following.timestamp())


def _ending(start: float, end: float) -> Window:
    return Window(start, end, end + GRACE)
