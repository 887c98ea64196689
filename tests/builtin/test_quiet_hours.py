"""Hours in which nobody is there."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from checkrail import HookRegistry, InboundMessage
from checkrail.builtin import quiet_hours
from checkrail.builtin.options import QuietHoursOptions
from checkrail.builtin.quiet_hours import DAYS, is_within
from checkrail.testing import event

NIGHT = {"timezone": "Europe/Berlin", "from": "22:00", "to": "07:00"}


def at(day, time):
    """Return a time in the week of which Monday is 5 January 2026."""
    hour, minute = map(int, time.split(":"))
    return datetime(2026, 1, 5 + DAYS.index(day), hour, minute)  # noqa: DTZ001 - of any zone


def is_quiet(now, start, end, days=DAYS):
    options = QuietHoursOptions(timezone="UTC", days=[*days], **{"from": start, "to": end})
    numbers = frozenset(map(DAYS.index, options.days))
    return is_within(now, options.start, options.end, numbers)


@pytest.mark.parametrize(
    ("time", "quiet"),
    [
        *(("21:59", False), ("22:00", True), ("23:59", True), ("0:00", True), ("6:59", True)),
        *(("7:00", False), ("12:00", False)),
    ],
)
def test_the_end_may_be_on_the_day_after(time, quiet):
    assert is_quiet(at("wed", time), "22:00", "07:00") is quiet


@pytest.mark.parametrize(
    ("day", "time", "quiet"),
    [
        ("fri", "3:00", False),
        ("fri", "23:00", True),
        ("sat", "3:00", True),
        ("sat", "23:00", False),
        ("sun", "3:00", False),
    ],
)
def test_the_days_are_those_on_which_they_begin(day, time, quiet):
    assert is_quiet(at(day, time), "22:00", "07:00", ["fri"]) is quiet


def test_the_night_of_sunday_ends_on_monday():
    assert is_quiet(at("mon", "3:00"), "22:00", "07:00", ["sun"])


@pytest.mark.parametrize(("start", "end"), [("00:00", "24:00"), ("0:00", "0:00")])
def test_a_whole_day(start, end):
    assert is_quiet(at("sat", "0:00"), start, end, ["sat"])
    assert is_quiet(at("sat", "23:59"), start, end, ["sat"])
    assert not is_quiet(at("fri", "23:59"), start, end, ["sat"])
    assert not is_quiet(at("sun", "0:00"), start, end, ["sat"])


def test_from_a_minute_to_the_same_one_is_a_whole_day():
    for day, time in (("fri", "9:00"), ("fri", "23:00"), ("sat", "8:59")):
        assert is_quiet(at(day, time), "9:00", "9:00", ["fri"])
    for day, time in (("fri", "8:59"), ("sat", "9:00")):
        assert not is_quiet(at(day, time), "9:00", "9:00", ["fri"])


def test_hours_of_one_day():
    assert is_quiet(at("mon", "12:30"), "12:00", "13:00")
    assert not is_quiet(at("mon", "13:00"), "12:00", "13:00")


async def test_a_message_is_replied_to_where_it_is_quiet_there():
    given = event("before_inbound")
    now = datetime.fromtimestamp(given.timestamp, ZoneInfo("Asia/Tokyo"))
    quiet = {"timezone": "Asia/Tokyo", "from": f"{now:%H:%M}", "to": f"{now:%H:%M}"}
    registry = HookRegistry()
    registry.register(quiet_hours, config=quiet | {"reply": "Good night"})
    verdict = await registry.fire("before_inbound", InboundMessage("ann", "web", "Hello"))
    assert (verdict.decision, verdict.value) == ("stop", "Good night")


async def test_on_other_days_nothing_is_replied():
    given = event("before_inbound")
    today = datetime.fromtimestamp(given.timestamp, ZoneInfo("UTC")).weekday()
    days = [DAYS[(today + 3) % 7]]
    config = {"timezone": "UTC", "from": "0:00", "to": "24:00", "days": days}
    registry = HookRegistry()
    registry.register(quiet_hours, config=config)
    message = InboundMessage("ann", "web", "Hello")
    assert (await registry.fire("before_inbound", message)).value is message


def test_the_clocks_of_the_zone_count_in_summer_and_in_winter():
    berlin = ZoneInfo("Europe/Berlin")
    summer = datetime(2026, 7, 6, 20, tzinfo=ZoneInfo("UTC"))
    assert is_quiet(summer.astimezone(berlin), "22:00", "07:00")
    winter = datetime(2026, 1, 5, 20, tzinfo=ZoneInfo("UTC"))
    assert not is_quiet(winter.astimezone(berlin), "22:00", "07:00")
