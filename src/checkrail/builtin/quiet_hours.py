"""`quiet_hours`: replies to messages at night, or whenever nobody is there, without an agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Stop
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import InboundMessage

if TYPE_CHECKING:
    from checkrail.builtin.options import QuietHoursOptions

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def build(options: QuietHoursOptions) -> Callable[[Event[Any], InboundMessage], Stop | None]:
    """Build the hook."""
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(options.timezone)
    days = frozenset(map(DAYS.index, options.days))

    def quiet_hours(event: Event[Any], message: InboundMessage) -> Stop | None:
        BUILTIN.expect_value(event, message, InboundMessage)
        now = datetime.fromtimestamp(event.timestamp, zone)
        return Stop(options.reply) if is_within(now, options.start, options.end, days) else None

    return quiet_hours


def is_within(now: datetime, start: int, end: int, days: frozenset[int]) -> bool:
    """Return whether a time is between two minutes of a day; the end may be on the day after.

    The `days` are those on which it begins. From a minute to the same one is a whole day.
    """
    minute, today = now.hour * 60 + now.minute, now.weekday()
    if start < end:
        return today in days and start <= minute < end
    yesterday = (today - 1) % len(DAYS)
    return (today in days and minute >= start) or (yesterday in days and minute < end)


BUILTIN = Builtin(
    name="quiet_hours",
    summary="replies to messages in some hours of some days, without the agent",
    points=(HookPoint.BEFORE_INBOUND,),
    lane=Lane.TRANSFORM,
    build=build,
    example={"timezone": "Europe/Berlin", "from": "22:00", "to": "07:00"},
    reads=(InboundMessage,),
)


def quiet_hours(event: Event[Any], message: InboundMessage) -> Stop | None:
    """Reply to a message at a time when nobody is there."""
    return BUILTIN.hook_for(event)(event, message)  # type: ignore[no-any-return]
