"""Runs in the database: one holder for a thread, claimed once, and changed by their owner only."""

import time
import uuid

import pytest
from sqlalchemy import literal
from sqlalchemy.exc import IntegrityError

from checkrail.store import runs, workers
from checkrail.store.database import Tx

NOW = time.time()


def add(tx, thread=None, phase="queued", **more):
    row = {
        "run_id": str(uuid.uuid4()),
        "thread_id": thread or str(uuid.uuid4()),
        "assistant_id": "a",
        "agent_name": "agent",
        "owner": "ada",
        "status": "pending",
        "phase": phase,
        "multitask_strategy": "enqueue",
        "metadata": {},
        "kwargs": {},
        "input": None,
        "attempt": 0,
        "lost": 0,
        "worker_id": None,
        "base_seq": 0,
        "last_seq": 0,
        "temporary": False,
        "origin": "api",
        "created_at": NOW,
        "updated_at": NOW,
        **more,
    }
    runs.add(tx, runs.Run(**row), {})
    return row["run_id"]


def ended(tx, **more):
    return add(tx, phase="success", status="success", ended_at=NOW, **more)


def claimed(tx, most=100, *, worker="w", **more):
    found = runs.claim(tx, worker, most, NOW, fits=lambda _needs: True, **more)
    return [row.run_id for row in found]


@pytest.fixture
def thread():
    return str(uuid.uuid4())


@pytest.mark.parametrize("first", ["starting", "ready", "running", "waiting"])
@pytest.mark.parametrize("second", ["starting", "ready", "running", "waiting"])
def test_a_thread_has_one_holder_at_most(tx, thread, first, second):
    add(tx, thread, first)
    with pytest.raises(IntegrityError), tx.begin_nested():
        add(tx, thread, second)


def test_any_number_may_wait_for_a_thread(tx, thread):
    holder = add(tx, thread, "running")
    for phase in ("queued", "queued", "scheduled"):
        add(tx, thread, phase)
    ended(tx, thread_id=thread)
    assert runs.slot_holder(tx, thread) == holder
    assert runs.count_queued(tx, thread) == 2
    assert len(runs.live_of(tx, thread)) == 4


def test_the_next_run_of_a_thread_is_the_one_that_waited_longest(tx, thread):
    waiting = [add(tx, thread) for _ in range(3)]
    assert runs.fill_slot(tx, thread, NOW) == waiting[0]
    assert runs.slot_holder(tx, thread) == waiting[0]
    assert runs.get(tx, waiting[0]).phase == "starting"
    assert runs.fill_slot(tx, str(uuid.uuid4()), NOW) is None


def test_runs_are_claimed_once_and_the_oldest_first(tx):
    made = [add(tx, phase="starting") for _ in range(5)]
    assert claimed(tx, 2) == made[:2]
    assert claimed(tx, 10, worker="other") == made[2:]
    assert claimed(tx) == []
    row = runs.get(tx, made[0])
    assert (row.worker_id, row.attempt, row.status) == ("w", 1, "running")
    assert row.phase == "starting"
    assert NOW <= row.started_at <= time.time()


def test_what_waits_or_is_over_is_not_claimed(tx):
    for phase in ("queued", "scheduled", "waiting"):
        add(tx, phase=phase)
    add(tx, phase="running", worker_id="other")
    ended(tx)
    assert claimed(tx) == []


def test_a_run_that_start_hooks_have_seen_goes_straight_into_execution(tx):
    fresh, again = add(tx, phase="starting"), add(tx, phase="ready", attempt=1, started_at=5.0)
    claimed(tx, has_start_hooks=lambda _agent: True)
    assert runs.get(tx, fresh).phase == "starting"
    row = runs.get(tx, again)
    assert (row.phase, row.attempt, row.started_at) == ("running", 2, 5.0)


@pytest.mark.parametrize("starts", [True, False])
def test_a_run_that_was_ready_without_start_hooks_is_not_once_there_are_some(tx, starts):
    fresh, again = add(tx, phase="ready"), add(tx, phase="ready", started_at=5.0)
    writes = Tx(tx)
    found = claimed(writes, starts=starts, has_start_hooks=lambda _agent: True)
    assert found == ([fresh, again] if starts else [again])
    assert runs.get(tx, fresh).phase == "starting"
    assert runs.get(tx, again).phase == "running"
    assert (("work", "") in writes.told) != starts


def test_only_the_owner_of_an_attempt_changes_a_run(tx):
    name = add(tx, phase="running", worker_id="w", attempt=2)
    for worker, attempt in (("other", 2), ("w", 1), ("w", 3)):
        assert not runs.update_owned(tx, name, worker, attempt, phase="ready")
    assert runs.update_owned(tx, name, "w", 2, phase="ready", error="a\0b")
    assert (runs.get(tx, name).phase, runs.get(tx, name).error) == ("ready", "ab")


def test_a_run_that_is_over_is_changed_by_nobody(tx):
    name = ended(tx, worker_id="w", attempt=1)
    assert not runs.update_owned(tx, name, "w", 1, status="error")
    assert not runs.update_run(tx, name, status="error")
    assert not runs.update_if(tx, name, {"attempt": 1}, status="error")
    assert runs.get(tx, name).status == "success"


def test_a_change_under_a_condition_needs_all_of_it(tx):
    name = add(tx, phase="ready", attempt=1)
    assert not runs.update_if(tx, name, {"phase": "ready", "attempt": 2}, phase="running")
    assert runs.update_if(tx, name, {"phase": "ready", "attempt": 1}, phase="running")
    assert not runs.update_if(tx, name, {"phase": "ready"}, phase="running")


def test_orphans_are_those_whose_worker_is_gone_or_silent(tx):
    workers.add(tx, "alive", ("h", 1), literal(NOW), 30)
    workers.add(tx, "silent", ("h", 1), literal(NOW - 60), 30)
    held = {
        name: add(tx, phase="running", worker_id=name) for name in ("alive", "silent", "gone", "me")
    }
    add(tx, phase="starting")
    found = {row.run_id for row in runs.find_orphans(tx, ["silent"], "me")}
    assert found == {held["silent"], held["gone"]}


def test_a_worker_knows_what_it_holds_and_what_of_it_is_cancelled(tx):
    mine = [add(tx, phase="running", worker_id="w") for _ in range(3)]
    other = add(tx, phase="running", worker_id="other", cancel="interrupt")
    runs.update_run(tx, mine[1], cancel="rollback")
    assert sorted(runs.held_ids(tx, "w")) == sorted(mine)
    assert runs.cancels_of(tx, "w") == [(mine[1], "rollback")]
    assert runs.held_attempts(tx, "w", [mine[0], other]) == {mine[0]: 0}
    assert runs.held_attempts(tx, "w", []) == {}


def test_scheduled_runs_come_due(tx):
    later = add(tx, phase="scheduled", due_at=NOW + 60)
    first, second = (add(tx, phase="scheduled", due_at=NOW - age) for age in (2, 1))
    assert [row.run_id for row in runs.find_due(tx, NOW)] == [first, second]
    runs.update_run(tx, first, phase="starting")
    runs.update_run(tx, second, phase="starting")
    assert runs.next_due(tx) == NOW + 60
    assert runs.get(tx, later).phase == "scheduled"


def test_runs_are_listed_newest_first_and_by_what_is_asked_for(tx, thread):
    made = [ended(tx, thread_id=thread, metadata={"n": n}) for n in range(4)]
    bob = ended(tx, thread_id=thread, owner="bob")

    def found(**wanted):
        return [row.run_id for row in runs.search(tx, thread_id=thread, **wanted)]

    assert found() == [bob, *reversed(made)]
    assert found(limit=2, offset=1) == [made[3], made[2]]
    assert found(owner="bob") == [bob]
    assert found(metadata={"n": 2}) == [made[2]]
    assert found(run_ids=[made[0], bob]) == [bob, made[0]]
    assert found(status="error") == []
    assert found(live=True) == []
    before = runs.get(tx, made[2]).seq
    assert found(before=before) == [made[1], made[0]]


def test_what_a_run_was_asked_for_comes_back_as_it_was(tx):
    odd = {"text": "ä \0", "deep": [{"a": None}], "number": 2**53}
    name = add(tx, input=odd, kwargs={"config": odd}, user={"identity": "ada"})
    row = runs.get(tx, name)
    assert (row.input, row.kwargs, row.user) == (odd, {"config": odd}, {"identity": "ada"})
    assert runs.get(tx, str(uuid.uuid4())) is None


def test_runs_are_removed_with_their_threads(tx, thread):
    mine = [ended(tx, thread_id=thread) for _ in range(2)]
    other = ended(tx)
    assert sorted(runs.of_threads(tx, [thread])) == sorted(mine)
    runs.remove(tx, mine)
    assert runs.of_threads(tx, [thread]) == []
    assert runs.get(tx, other) is not None


def test_runs_under_way_are_counted_by_phase(tx):
    before = runs.count_by_phase(tx)
    add(tx, phase="queued")
    add(tx, phase="queued")
    add(tx, phase="running", worker_id="w")
    ended(tx)
    after = runs.count_by_phase(tx)
    assert after.get("queued", 0) - before.get("queued", 0) == 2
    assert after.get("running", 0) - before.get("running", 0) == 1
    assert "success" not in after


def test_a_run_that_was_executed_is_taken_to_be_finished_in_the_same_attempt(tx):
    executed = add(tx, phase="running", status="running", attempt=2)
    held = add(tx, phase="running", status="running", attempt=1, worker_id="other")
    [row] = [row for row in runs.claim_reported(tx, "w", 100, NOW) if row.run_id == executed]
    assert (row.worker_id, row.attempt, row.phase) == ("w", 2, "running")
    assert executed not in [row.run_id for row in runs.claim_reported(tx, "x", 100, NOW)]
    assert runs.get(tx, held).worker_id == "other"


def test_a_worker_takes_what_hooks_of_its_own_runs_wait_for(tx):
    mine = add(tx, phase="running", worker_id="w")
    other = add(tx, phase="running", worker_id="x")
    hook = add(tx, phase="ready", parent_run_id=mine, origin="hook", needs="a/b/")
    add(tx, phase="ready", parent_run_id=mine, origin="callback", needs="a/b/")
    add(tx, phase="ready", parent_run_id=other, origin="hook", needs="a/b/")
    add(tx, phase="ready", parent_run_id=mine, origin="hook", needs="a/c/")
    found = runs.claim_beneath(tx, "w", NOW, fits=lambda needs: needs == "a/b/")
    assert [(row.run_id, row.attempt) for row in found] == [(hook, 1)]


def test_what_nobody_has_taken_for_long_is_found_by_what_it_needs(tx):
    late = add(tx, phase="ready", ready_at=NOW - 60, needs="a/late/")
    add(tx, phase="ready", ready_at=NOW, needs="a/late/")
    add(tx, phase="ready", ready_at=NOW - 60, needs="a/other/")
    found = runs.find_unclaimed(tx, NOW - 30, ["a/late/"])
    assert [row.run_id for row in found] == [late]
