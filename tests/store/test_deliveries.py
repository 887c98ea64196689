"""Deliveries in the database: owed, held by one worker, and settled once."""

import time
import uuid

from sqlalchemy import literal

from checkrail.store import deliveries, workers
from checkrail.store.deliveries import Delivery

NOW = time.time()


def owe(tx, run_id=None, **more):
    delivery_id = str(uuid.uuid4())
    row = {
        "delivery_id": delivery_id,
        "run_id": run_id or str(uuid.uuid4()),
        "kind": "webhook",
        "payload": {"url": "https://example.com"},
        "status": "owed",
        "attempts": 0,
        "due_at": NOW - 1,
        "worker_id": None,
        "created_at": NOW,
    }
    deliveries.add(tx, [Delivery(**row | more)])
    return delivery_id


def claimed(tx, worker="w", most=100):
    return [row.delivery_id for row in deliveries.claim(tx, worker, NOW, most)]


def test_what_is_due_is_taken_once_and_the_oldest_first(tx):
    late, early = owe(tx, due_at=NOW - 1), owe(tx, due_at=NOW - 2)
    assert claimed(tx) == [early, late]
    assert claimed(tx, "other") == []


def test_no_more_is_taken_than_there_is_room_for(tx):
    for _ in range(5):
        owe(tx)
    assert len(claimed(tx, most=3)) == 3
    assert len(claimed(tx, most=3)) == 2


def test_what_is_not_due_done_dead_or_held_is_not_taken(tx):
    owe(tx, due_at=NOW + 60)
    owe(tx, status="done")
    owe(tx, status="dead")
    owe(tx, worker_id="other")
    assert claimed(tx) == []


def test_only_its_holder_settles_a_delivery_and_only_once(tx):
    [name] = [owe(tx, run_id="r")]
    claimed(tx)
    assert not deliveries.store_result(tx, name, "other", status="done")
    assert deliveries.store_result(tx, name, "w", status="done", attempts=1)
    assert not deliveries.store_result(tx, name, "w", status="dead")
    [row] = deliveries.of_run(tx, "r")
    assert (row.status, row.attempts, row.worker_id) == ("done", 1, None)


def test_one_that_is_tried_again_can_be_taken_by_anybody(tx):
    name = owe(tx)
    claimed(tx)
    deliveries.store_result(tx, name, "w", status="owed", due_at=NOW - 1, attempts=1)
    assert claimed(tx, "other") == [name]


def test_those_of_workers_that_are_gone_are_found_but_not_ones_own(tx):
    workers.add(tx, "alive", ("h", 1), literal(NOW), 30)
    workers.add(tx, "dead", ("h", 1), literal(NOW - 60), 30)
    held = {name: owe(tx, worker_id=name) for name in ("alive", "dead", "gone", "me")}
    found = [row.delivery_id for row in deliveries.find_orphans(tx, ["dead"], "me")]
    assert sorted(found) == sorted([held["dead"], held["gone"]])


def test_a_worker_lets_go_of_all_it_holds(tx):
    names = sorted(owe(tx) for _ in range(3))
    claimed(tx)
    other = owe(tx, worker_id="other")
    deliveries.release_held(tx, "w")
    assert sorted(claimed(tx, "next")) == names
    assert other not in names


def test_the_next_time_is_that_of_what_nobody_holds(tx):
    owe(tx, due_at=NOW + 5, worker_id="w")
    owe(tx, due_at=NOW + 9, status="done")
    owe(tx, due_at=NOW + 60)
    assert deliveries.next_due(tx) == NOW + 60


def test_what_is_still_owed_outlives_its_run(tx):
    owe(tx, "r", status="done")
    owe(tx, "r", status="dead")
    left = owe(tx, "r")
    deliveries.remove_of_runs(tx, ["r"])
    assert [row.delivery_id for row in deliveries.of_run(tx, "r")] == [left]


def test_an_error_is_kept_without_what_no_database_can_keep(tx):
    name = owe(tx, "r")
    claimed(tx)
    deliveries.store_result(tx, name, "w", status="dead", last_error="a\0b \ud800")
    assert deliveries.of_run(tx, "r")[0].last_error == "ab ?"
