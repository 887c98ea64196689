"""Hook records in a database: of each run in order, by pages, and gone with it."""

from dataclasses import replace

import pytest

from checkrail.store import records
from checkrail.store.records import StoredRecord

NOW = 1_700_000_000.0


def record(number, kind="hook_complete", **more):
    told = {"record_id": f"record-{number}", "reason": "no — «ü» 🙂", "n": [1, None]}
    about = {"run_id": "run-1", "thread_id": "thread-1", "owner": "ann", "record": told, **more}
    at = {"point": "before_run", "hook": "limit", "created_at": NOW + number} | about
    return StoredRecord(record_id=f"record-{number}", event_type=kind, **at)


def ids(rows):
    return [row.record_id for row in rows]


def test_records_of_a_run_come_in_the_order_in_which_they_were_kept(tx):
    records.add(tx, [record(3), record(1)])
    records.add(tx, [record(2, run_id="run-2"), record(4)])
    assert ids(records.of_run(tx, "run-1")) == ["record-3", "record-1", "record-4"]
    assert ids(records.of_run(tx, "run-2")) == ["record-2"]
    assert records.of_run(tx, "run-3") == []


def test_a_record_comes_back_as_it_was_given(tx):
    records.add(tx, [record(1)])
    [row] = records.of_run(tx, "run-1")
    assert replace(row, seq=0) == record(1)


def test_a_record_that_is_json_already_is_kept_as_it_is(tx):
    records.add(tx, [record(1, record=b'{"kind":"hook_start"}')])
    assert records.of_run(tx, "run-1")[0].record == {"kind": "hook_start"}


def test_no_records_are_no_work(tx):
    records.add(tx, [])
    assert records.of_run(tx, "run-1") == []


def test_records_of_requests_that_made_no_run_are_kept(tx):
    records.add(tx, [record(1, run_id=None, thread_id=None, owner=None)])
    assert records.of_run(tx, "None") == []
    assert records.forget_before(tx, NOW + 2) == 1


def test_pages_go_on_after_a_number_and_leave_nothing_out(tx):
    for number in range(7):
        records.add(tx, [record(number), record(100 + number, run_id="run-2")])
    found, after = [], 0
    while page := records.of_run(tx, "run-1", 3, after):
        assert len(page) <= 3
        found += page
        after = page[-1].seq
    assert ids(found) == [f"record-{number}" for number in range(7)]


def start(number, **more):
    return record(number, "hook_start", **{"worker_id": "w", "call_id": f"call-{number}"} | more)


def test_a_call_without_an_ending_is_unfinished(tx):
    story = [
        start(1),
        record(2, call_id="call-1"),
        start(3, hook="slow"),
        start(4, point="on_result"),
        start(5, run_id="run-2"),
        start(6, worker_id="alive"),
    ]
    records.add(tx, story[:1])
    for each in story[1:]:
        records.add(tx, [each])
    assert ids(records.unfinished_in_run(tx, "run-1", "w")) == ["record-3", "record-4"]
    assert ids(records.unfinished_since(tx, NOW, "w")) == ["record-3", "record-4", "record-5"]
    assert ids(records.unfinished_since(tx, NOW + 4, "w")) == ["record-5"]
    assert ids(records.unfinished_in_run(tx, "run-1", "alive")) == ["record-6"]


@pytest.mark.parametrize("ending", ["hook_complete", "hook_failed", "hook_blocked"])
def test_each_ending_ends_its_own_call_of_several(tx, ending):
    records.add(tx, [start(1), start(2)])
    records.add(tx, [record(3, ending, call_id="call-2")])
    assert ids(records.unfinished_in_run(tx, "run-1", "w")) == ["record-1"]
    records.add(tx, [record(4, ending, call_id="call-1")])
    assert records.unfinished_in_run(tx, "run-1", "w") == []


def test_a_call_that_was_given_up_for_lost_has_no_second_ending(tx):
    records.add(tx, [start(1)])
    records.add(tx, [record(2, "hook_failed", call_id="call-1")])
    late, other = record(3, call_id="call-1"), record(4, call_id="call-4")
    records.add(tx, [late, other])
    assert ids(records.of_run(tx, "run-1")) == ["record-1", "record-2", "record-4"]


def test_records_go_with_their_runs(tx):
    records.add(tx, [record(1), record(2, run_id="run-2"), record(3, run_id="run-3")])
    records.remove_of_runs(tx, ["run-1", "run-3"])
    assert [records.of_run(tx, f"run-{number}") for number in (1, 3)] == [[], []]
    assert ids(records.of_run(tx, "run-2")) == ["record-2"]


def test_old_records_go_by_their_age(tx):
    records.add(tx, [record(number) for number in range(5)])
    assert records.forget_before(tx, NOW + 3) == 3
    assert ids(records.of_run(tx, "run-1")) == ["record-3", "record-4"]
    assert records.forget_before(tx, NOW + 3) == 0
