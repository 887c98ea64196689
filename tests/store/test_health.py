"""What is said of a database that does not work: when it began, when it ended, and no more."""

import time

import pytest

from checkrail.store import health as healths
from checkrail.store.health import AWAY, READ_ONLY, Health

REFUSED = OSError("cannot execute INSERT in a read-only transaction")


@pytest.fixture
def health():
    return Health()


def told(caplog):
    return [record.message.partition(" (")[0].partition(" after")[0] for record in caplog.records]


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


def test_a_connection_from_before_it_was_mended_is_no_new_outage(health, caplog):
    for _ in range(3):
        health.note_failure(READ_ONLY, REFUSED)
        health.note_success(wrote=True, began=time.monotonic())
    assert told(caplog) == ["The database is read-only", "The database works again"]


def test_what_fails_again_later_or_in_another_way_is_one(health, caplog, monkeypatch):
    health.note_failure(READ_ONLY, REFUSED)
    health.note_success(wrote=True)
    health.note_failure(healths.FULL, REFUSED)
    health.note_success(wrote=True)
    monkeypatch.setattr(healths, "_SHORT", 0.0)
    health.note_failure(healths.FULL, REFUSED)
    health.note_failure(AWAY, REFUSED)
    begun = ["The database is read-only", "The disk of the database is full"]
    begun += ["The disk of the database is full"]
    assert [each for each in told(caplog) if "again" not in each] == begun
