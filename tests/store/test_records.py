"""Hook records in a database: of each run in order, by pages, and gone with it."""

import pytest

from checkrail.store import records

NOW = 1_700_000_000.0


def record(number, kind="hook_complete", **more):
    return {
        "record_id": f"record-{number}",
        "event_type": kind,
        "run_id": "run-1",
        "thread_id": "thread-1",
        "owner": "ann",
        "point": "before_run",
        "hook": "limit",
        "created_at": NOW + number,
        "record": {"record_id": f"record-{number}", "reason": "no — «ü» 🙂", "n": [1, None]},
        **more,
    }


def ids(rows):
    return [row["record_id"] for row in rows]


def test_records_of_a_run_come_in_the_order_in_which_they_were_kept(tx):
    records.add(tx, [record(3), record(1)])
    records.add(tx, [record(2, run_id="run-2"), record(4)])
    assert ids(records.of_run(tx, "run-1")) == ["record-3", "record-1", "record-4"]
    assert ids(records.of_run(tx, "run-2")) == ["record-2"]
    assert records.of_run(tx, "run-3") == []


def test_a_record_comes_back_as_it_was_given(tx):
    records.add(tx, [record(1)])
    [row] = records.of_run(tx, "run-1")
    assert {name: row[name] for name in record(1)} == record(1)


def test_a_record_that_is_json_already_is_kept_as_it_is(tx):
    records.add(tx, [record(1, record=b'{"kind":"hook_start"}')])
    assert records.of_run(tx, "run-1")[0]["record"] == {"kind": "hook_start"}


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
        after = page[-1]["seq"]
    assert ids(found) == [f"record-{number}" for number in range(7)]


def test_a_call_without_an_ending_is_unfinished(tx):
    story = [
        record(1, "hook_start"),
        record(2, "hook_complete"),
        record(3, "hook_start", hook="slow"),
        record(4, "hook_start", point="on_result"),
        record(5, "hook_start", run_id="run-2"),
    ]
    records.add(tx, story)
    assert sorted(ids(records.unfinished(tx, "run-1"))) == ["record-3", "record-4"]


def test_calls_after_a_run_that_a_worker_left_open_are_found(tx):
    def after(number, kind, worker="gone", **more):
        return record(number, kind, worker_id=worker, point="after_run", **more)

    story = [
        after(1, "hook_start"),
        after(2, "hook_failed"),
        after(3, "hook_start"),  # told again, and cut off
        after(4, "hook_start", hook="other"),
        after(5, "hook_complete", hook="other"),
        after(6, "hook_start", run_id="run-2", worker="alive"),
        record(7, "hook_start", worker_id="gone"),
    ]
    records.add(tx, story)
    assert ids(records.unfinished_finishes(tx, "gone", NOW)) == ["record-3"]
    assert records.unfinished_finishes(tx, "gone", NOW + 3) == []


@pytest.mark.parametrize("ending", ["hook_complete", "hook_failed", "hook_blocked"])
def test_each_ending_ends_one_call(tx, ending):
    records.add(tx, [record(1, "hook_start"), record(2, "hook_start"), record(3, ending)])
    assert ids(records.unfinished(tx, "run-1")) == ["record-2"]
    records.add(tx, [record(4, ending)])
    assert records.unfinished(tx, "run-1") == []


def test_an_ending_whose_start_is_gone_changes_nothing(tx):
    records.add(tx, [record(1, "hook_failed"), record(2, "hook_start")])
    assert ids(records.unfinished(tx, "run-1")) == ["record-2"]


def test_records_go_with_their_runs(tx):
    records.add(tx, [record(1), record(2, run_id="run-2"), record(3, run_id="run-3")])
    records.forget(tx, ["run-1", "run-3"])
    assert [records.of_run(tx, f"run-{number}") for number in (1, 3)] == [[], []]
    assert ids(records.of_run(tx, "run-2")) == ["record-2"]


def test_old_records_go_by_their_age(tx):
    records.add(tx, [record(number) for number in range(5)])
    assert records.forget_before(tx, NOW + 3) == 3
    assert ids(records.of_run(tx, "run-1")) == ["record-3", "record-4"]
    assert records.forget_before(tx, NOW + 3) == 0
