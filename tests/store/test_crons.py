"""Crons, on each database in turn."""

from dataclasses import replace

import pytest

from checkrail.store import crons
from checkrail.store.crons import Cron
from checkrail.store.rows import Page


@pytest.fixture
def add(tx):
    """Keep a cron; each is a second younger than the one before."""
    made = []

    def add(cron_id, **more):
        now = float(len(made))
        row = {
            "cron_id": cron_id,
            "assistant_id": "x",
            "thread_id": None,
            "owner": "ann",
            "user": {"identity": "ann"},
            "key_id": None,
            "schedule": "* * * * *",
            "timezone": None,
            "enabled": True,
            "on_run_completed": "delete",
            "payload": {"input": {"text": "a\0b"}},
            "metadata": {},
            "next_run_at": 100.0,
            "occurrence": None,
            "worker_id": None,
            "lost": 0,
            "end_at": None,
            "last_error": None,
            "stored_bytes": None,
            "created_at": now,
            "updated_at": now,
            **more,
        }
        made.append(row)
        crons.add(tx, Cron(**row))
        return Cron(**row)

    return add


def ids(rows):
    return [row.cron_id for row in rows]


def test_what_is_kept_is_read_as_it_was(tx, add):
    row = add("a", metadata={"n": 1}, timezone="Asia/Tokyo")
    assert crons.get(tx, "a") == row
    assert crons.lock(tx, "a") == row
    assert crons.get(tx, "b") is None


def test_what_is_changed_is_changed_and_the_rest_kept(tx, add):
    row = add("a")
    assert crons.update_cron(tx, "a", enabled=False, next_run_at=None)
    assert crons.get(tx, "a") == replace(row, enabled=False, next_run_at=None)
    assert not crons.update_cron(tx, "b", enabled=False)


def test_those_are_due_whose_time_has_come_the_earliest_first(tx, add):
    add("late", next_run_at=30.0)
    add("early", next_run_at=10.0)
    add("now", next_run_at=20.0)
    add("off", next_run_at=10.0, enabled=False)
    add("never", next_run_at=None)
    assert ids(crons.lock_due(tx, "me", 20.0)) == ["early", "now"]
    assert ids(crons.lock_due(tx, "me", 20.0, most=1)) == ["early"]
    assert crons.lock_due(tx, "me", 9.0) == []
    assert crons.next_due(tx, "me") == 10.0


def test_what_another_worker_asks_for_waits_and_what_it_left_behind_is_due(tx, add):
    add("its", next_run_at=10.0, occurrence=5.0, worker_id="other")
    add("mine", next_run_at=11.0, occurrence=5.0, worker_id="me")
    add("left", next_run_at=90.0, occurrence=5.0)
    add("deadly", next_run_at=10.0, lost=2)
    assert ids(crons.lock_due(tx, "me", 20.0)) == ["mine", "left"]
    assert ids(crons.lock_due(tx, "me", 20.0, suspected=True)) == ["deadly"]
    assert crons.next_due(tx, "me") == 11.0
    assert ids(crons.find_orphans(tx, [], "me")) == ["its"]
    crons.release_held(tx, "other")
    assert ids(crons.lock_due(tx, "me", 20.0)) == ["its", "mine", "left"]


def test_a_request_ends_unless_the_next_one_is_under_way(tx, add):
    asked = add("a", occurrence=5.0, worker_id="me", lost=1)
    crons.update_cron(tx, "a", occurrence=6.0)
    crons.end_request(tx, asked, "too late")
    assert crons.get(tx, "a") == replace(asked, occurrence=6.0)
    crons.end_request(tx, replace(asked, occurrence=6.0), None)
    assert crons.get(tx, "a") == replace(asked, occurrence=None, worker_id=None, lost=0)


def test_nothing_is_next_where_nothing_is_on(tx, add):
    add("off", enabled=False)
    add("never", next_run_at=None)
    assert crons.next_due(tx, "me") is None


def test_a_search_takes_all_that_is_said_together(tx, add):
    add("a", metadata={"team": "red", "n": 1})
    add("b", metadata={"team": "blue", "n": 1}, enabled=False, thread_id="t")
    add("c", metadata={"team": "red"}, owner="bob", assistant_id="y")

    def found(metadata=None, filters=None, **same):
        rows = crons.search(tx, Page(), same, metadata, filters)
        assert crons.count(tx, same, metadata, filters) == len(rows)
        return ids(rows)

    assert found() == ["c", "b", "a"]
    assert found(owner="ann") == ["b", "a"]
    assert found(owner=None, enabled=False) == ["b"]
    assert found(thread_id="t", assistant_id="x") == ["b"]
    assert found(assistant_id="y", owner="ann") == []
    assert found({"n": 1}) == ["b", "a"]
    assert found({"n": {"$eq": 1}}) == []
    assert found(None, {"team": {"$in": ["red"]}}) == ["c", "a"]
    assert found({"n": 1}, {"team": "red"}) == ["a"]


@pytest.mark.parametrize("field", crons.SORTS)
def test_a_page_is_in_the_order_that_was_asked_for_whatever_is_equal(tx, add, field):
    for name in "bdac":
        add(name, thread_id="t", end_at=1.0)

    def pages(order):
        asked = (Page(field, order, 3, offset) for offset in (0, 3))
        return [name for page in asked for name in ids(crons.search(tx, page, {}))]

    by_age = field in ("created_at", "updated_at")
    assert pages("asc") == (["b", "d", "a", "c"] if by_age else ["a", "b", "c", "d"])
    assert pages("desc") == pages("asc")[::-1]


def test_what_is_removed_is_gone(tx, add):
    add("a")
    assert crons.remove(tx, "a")
    assert not crons.remove(tx, "a")


def test_crons_go_with_their_assistant_and_with_their_threads(tx, add):
    add("a", assistant_id="x")
    add("b", assistant_id="y", thread_id="s")
    add("c", assistant_id="y", thread_id="t")
    add("d", assistant_id="y")
    crons.remove_of_assistant(tx, "x")
    assert ids(crons.search(tx, Page(), {})) == ["d", "c", "b"]
    crons.remove_of_threads(tx, ["s", "unknown"])
    assert ids(crons.search(tx, Page(), {})) == ["d", "c"]
    crons.remove_of_threads(tx, [])
    assert crons.count(tx, {}) == 2
