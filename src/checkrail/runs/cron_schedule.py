"""Schedules: when a cron is due next, by its five fields and its time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from checkrail.runs.errors import InvalidError


def next_time(schedule: str, timezone: str | None, after: float) -> float | None:
    """Return when a schedule comes next after a time; None: never again."""
    from cronsim import CronSim, CronSimError

    start = datetime.fromtimestamp(after, _parse_zone(timezone))
    try:
        found = next(CronSim(schedule, start), None)
    except CronSimError as error:
        raise InvalidError(
            f"the schedule {schedule!r} cannot be read: {error}. "
            "Write five fields: minute, hour, day of month, month, day of week, as in '0 9 * * 1'"
        ) from None
    return None if found is None else found.timestamp()


def _parse_zone(name: str | None) -> ZoneInfo | type(UTC):  # type: ignore[valid-type]
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidError(
            f"there is no time zone {name!r}. Write one like Europe/Berlin"
        ) from None
