"""What is said of a database that does not work: when it began, when it ended, and no more."""

import time

import pytest

from checkrail.store import health as healths
from checkrail.store.health import AWAY, FULL, READ_ONLY, Health

REFUSED = OSError("cannot execute INSERT in a read-only transaction")


@pytest.fixture
def health():
    return Health()


def told(caplog):
    return [record.message.partition(" (")[0].partition(" after")[0] for record in caplog.records]


@pytest.fixture
def at_once(monkeypatch):
    """Nothing has to last to be an outage."""
    monkeypatch.setattr(healths, "_SHORT", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_call_that_began_before_the_last_failure_does_not_end_an_outage(health, caplog):
    before = time.monotonic()
    health.note_failure(READ_ONLY, REFUSED)
    health.note_success(wrote=True, began=before)  # on a connection that could write all along
    assert health.trouble is READ_ONLY
    health.note_failure(READ_ONLY, REFUSED)
    health.note_success(wrote=True, began=time.monotonic())
    assert health.trouble is None
    assert told(caplog) == ["The database is read-only", "The database works again"]
    assert caplog.records[-1].message.endswith("2 calls failed")


@pytest.mark.parametrize("trouble", [AWAY, READ_ONLY])
def test_one_connection_that_fails_is_no_outage(health, caplog, trouble):
    for _ in range(3):
        health.note_failure(trouble, REFUSED)
        health.note_success(wrote=True, began=time.monotonic())
    assert told(caplog) == []


def test_a_disk_with_room_for_some_writes_is_one_outage(health, caplog):
    for _ in range(3):
        health.note_failure(FULL, REFUSED)
        health.note_success(wrote=True, began=time.monotonic())
    assert told(caplog) == ["The disk of the database is full", "The database works again"]


def test_what_fails_again_later_or_in_another_way_is_one(health, caplog, at_once):
    for trouble in (READ_ONLY, FULL, FULL, AWAY):
        health.note_failure(trouble, REFUSED)
        health.note_success(wrote=True)
    begun = [trouble.words for trouble in (READ_ONLY, FULL, FULL, AWAY)]
    assert [each for each in told(caplog) if "again" not in each] == begun
