"""Events in the database: packed, in order, and read again from any number on."""

import uuid

import pytest

from checkrail.store import events
from checkrail.store.events import RunEvent


def batch(first, count, **more):
    return [RunEvent(seq, "values", (), {"n": seq}, **more) for seq in range(first, first + count)]


def keep(tx, run_id, *batches):
    events.add(tx, [events.row_of(run_id, "thread", each) for each in batches])


@pytest.fixture
def run_id():
    return str(uuid.uuid4())


def test_events_come_back_as_they_were_told(tx, run_id):
    told = [
        RunEvent(1, "metadata", (), {"run_id": run_id}),
        RunEvent(2, "values", ("child:1", "deep:2"), {"text": "ä \0 \u2028"}),
        RunEvent(3, "custom", (), None),
        RunEvent(4, "messages", (), [[1, 2], {"a": None}]),
        RunEvent(5, "end", (), raw=b'{"status":"success"}'),
    ]
    keep(tx, run_id, told[:2], told[2:])
    assert events.load_after(tx, run_id, 0) == told


@pytest.mark.parametrize("seq", range(13))
def test_from_any_number_on_the_rest_comes_back(tx, run_id, seq):
    keep(tx, run_id, batch(1, 5), batch(6, 1), batch(7, 6))
    assert [event.seq for event in events.load_after(tx, run_id, seq)] == [*range(seq + 1, 13)]


def test_numbers_may_be_left_out(tx, run_id):
    keep(tx, run_id, batch(1, 3), batch(10_004, 2))
    assert [event.seq for event in events.load_after(tx, run_id, 2)] == [3, 10_004, 10_005]
    assert events.last_seq(tx, run_id) == 10_005


def test_much_is_read_in_pages(tx, run_id):
    keep(tx, run_id, *(batch(number, 1) for number in range(1, 31)))
    seen, after = [], 0
    while page := events.load_after(tx, run_id, after, rows=7):
        seen += [event.seq for event in page]
        after = seen[-1]
    assert seen == [*range(1, 31)]


def test_a_run_without_events_has_none(tx, run_id):
    assert events.load_after(tx, run_id, 0) == []
    assert events.last_seq(tx, run_id) == 0


def test_runs_do_not_see_each_others_events(tx, run_id):
    other = str(uuid.uuid4())
    keep(tx, run_id, batch(1, 2))
    keep(tx, other, batch(1, 3))
    events.remove_of_runs(tx, [run_id])
    assert events.load_after(tx, run_id, 0) == []
    assert len(events.load_after(tx, other, 0)) == 3


def test_an_event_is_written_and_read_only_when_somebody_asks():
    told = RunEvent(1, "values", (), {"a": [1, 2]})
    assert told.raw == b'{"a":[1,2]}'
    assert RunEvent(1, "values", (), raw=told.raw).data == {"a": [1, 2]}
    assert told == RunEvent(1, "values", (), raw=b'{"a": [1, 2]}')
    assert told != RunEvent(2, "values", (), {"a": [1, 2]})
    assert (told == 7) is False


def large(first, count, size):
    return [RunEvent(seq, "custom", (), "x" * size) for seq in range(first, first + count)]


def test_much_at_once_becomes_several_rows(run_id):
    rows = events.rows_of(run_id, "thread", large(1, 10, events.ROW_BYTES // 3))
    assert [(row.first_seq, row.last_seq) for row in rows] == [
        (1, 2),
        (3, 4),
        (5, 6),
        (7, 8),
        (9, 10),
    ]
    assert [len(events.rows_of(run_id, "thread", large(1, n, 10))) for n in (1, 1000)] == [1, 1]
    assert len(events.rows_of(run_id, "thread", large(1, 2, 2 * events.ROW_BYTES))) == 2


def test_a_page_has_few_bytes_whatever_the_rows_have(tx, run_id):
    events.add(tx, events.rows_of(run_id, "thread", large(1, 40, 100_000)))
    seen, after = [], 0
    while page := events.load_after(tx, run_id, after):
        assert sum(len(event.raw) for event in page) < 2 * 1024 * 1024
        seen += [event.seq for event in page]
        after = seen[-1]
    assert seen == [*range(1, 41)]


def test_a_row_that_is_larger_than_a_page_is_read_alone(tx, run_id):
    keep(tx, run_id, batch(1, 1), large(2, 1, 3_000_000), batch(3, 2))
    assert [event.seq for event in events.load_after(tx, run_id, 0)] == [1, 2]
    assert [event.seq for event in events.load_after(tx, run_id, 1)] == [2]
    assert [event.seq for event in events.load_after(tx, run_id, 2)] == [3, 4]
