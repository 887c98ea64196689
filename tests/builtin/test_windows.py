from datetime import UTC, datetime

import pytest

from checkrail.builtin.budget import window_at


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("per", "now", "start", "end"),
    [
        ("minute", "2026-05-17T13:14:15", "2026-05-17T13:14:00", "2026-05-17T13:15:00"),
        ("hour", "2026-05-17T13:14:15", "2026-05-17T13:00:00", "2026-05-17T14:00:00"),
        ("day", "2026-05-17T13:14:15", "2026-05-17T00:00:00", "2026-05-18T00:00:00"),
        ("week", "2026-05-17T13:14:15", "2026-05-11T00:00:00", "2026-05-18T00:00:00"),
        ("week", "2026-05-18T00:00:00", "2026-05-18T00:00:00", "2026-05-25T00:00:00"),
        ("month", "2026-05-17T13:14:15", "2026-05-01T00:00:00", "2026-06-01T00:00:00"),
        ("month", "2028-02-29T23:59:59", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
        ("month", "2026-12-31T23:59:59", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
    ],
)
def test_windows_go_by_the_calendar(per, now, start, end):
    window = window_at(per, at(now))
    assert (window.start, window.end) == (at(start), at(end))
    assert window.start <= at(now) < window.end < window.until


def test_the_end_is_told_as_a_time_and_in_seconds():
    now = at("2026-05-17T23:59:30")
    assert window_at("day", now).format_end(now) == "2026-05-18 00:00 UTC, in 30 s"


@pytest.mark.parametrize("per", ["run", "total"])
def test_what_has_no_end_is_kept_for_long_after_the_last_addition(per):
    window = window_at(per, 1000.0)
    assert (window.start, window.end, window.format_end(1000.0)) == (0.0, None, "")
    assert window.until >= 1000.0 + 30 * 86400
