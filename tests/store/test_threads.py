"""Threads in the database: kept once, found quickly, and removed when their time is over."""

import uuid
from dataclasses import replace

import pytest
from sqlalchemy import event, insert, text

from checkrail.store import runs, threads
from checkrail.store.rows import Page, column_values
from checkrail.store.tables import threads as table
from checkrail.store.threads import ThreadQuery


def row_of(**more):
    told = {"status": "idle", "metadata": {}, "last_seq": 0, "temporary": False}
    times = {"created_at": 1.0, "updated_at": 1.0}
    return threads.Thread(**{"thread_id": str(uuid.uuid4()), **told, **times, **more})


def add(tx, **more):
    row = row_of(**more)
    assert threads.add(tx, row)
    return row.thread_id


def add_run(tx, thread_id, **more):
    row = {
        "run_id": str(uuid.uuid4()),
        "thread_id": thread_id,
        "assistant_id": "a",
        "agent_name": "a",
        "status": "pending",
        "phase": "queued",
        "multitask_strategy": "enqueue",
        "metadata": {},
        "kwargs": {},
        "attempt": 0,
        "lost": 0,
        "base_seq": 0,
        "last_seq": 0,
        "temporary": False,
        "origin": "api",
        "created_at": 1.0,
        "updated_at": 1.0,
    }
    runs.add(tx, runs.Run(**row | more), {})


def found(tx, page=None, **wanted):
    return [row.thread_id for row in threads.search(tx, ThreadQuery(**wanted), page or Page())]


def test_an_id_is_kept_once(tx):
    row = row_of(metadata={"n": 1})
    assert threads.add(tx, row)
    assert not threads.add(tx, replace(row, metadata={"n": 2}))
    assert threads.get(tx, row.thread_id).metadata == {"n": 1}
    assert threads.get(tx, str(uuid.uuid4())) is None


def test_a_thread_is_changed_in_some_columns(tx):
    made = add(tx, values={"n": 1}, metadata={"kept": True})
    assert threads.update_thread(tx, made, values=b'{"n": 2}', status="busy")
    row = threads.lock(tx, made)
    assert (row.values, row.status, row.metadata) == ({"n": 2}, "busy", {"kept": True})
    assert not threads.update_thread(tx, str(uuid.uuid4()), status="busy")


def test_all_that_is_said_has_to_hold(tx):
    mine = add(tx, owner="ann", status="busy", metadata={"n": 1}, values={"a": {"b": 1}})
    others = [
        add(tx, owner="bob", status="busy", metadata={"n": 1}, values={"a": {"b": 1}}),
        add(tx, owner="ann", status="idle", metadata={"n": 1}, values={"a": {"b": 1}}),
        add(tx, owner="ann", status="busy", metadata={"n": 2}, values={"a": {"b": 1}}),
        add(tx, owner="ann", status="busy", metadata={"n": 1}, values={"a": {"b": 2}}),
        add(tx, owner="ann", status="busy", metadata={"n": 1}),
    ]
    wanted = {
        "owner": "ann",
        "status": "busy",
        "metadata": {"n": 1},
        "values": {"a": {"b": 1}},
        "ids": [mine, *others],
    }
    assert found(tx, **wanted) == [mine]
    assert threads.count(tx, ThreadQuery(**wanted)) == 1
    assert found(tx, filters={"n": {"$in": [2, 3]}}) == [others[2]]
    assert found(tx, ids=[]) == []
    assert threads.count(tx, ThreadQuery()) == 6


def test_threads_of_stateless_runs_are_not_found(tx):
    add(tx, temporary=True)
    assert found(tx) == []
    assert threads.count(tx, ThreadQuery()) == 0


def test_threads_that_sort_alike_have_an_order_too(tx):
    made = sorted(add(tx, state_updated_at=at) for at in (5.0, 5.0, 5.0))
    for sort_by in ("status", "created_at", "updated_at", "state_updated_at"):
        pages = [found(tx, Page(sort_by, "asc", 2, offset)) for offset in (0, 2)]
        assert pages[0] + pages[1] == made
        assert found(tx, Page(sort_by, "desc")) == made[::-1]


def test_a_state_that_never_changed_is_as_old_as_its_thread(tx):
    never = add(tx, created_at=2.0)
    early, late = add(tx, state_updated_at=1.0), add(tx, state_updated_at=3.0)
    assert found(tx, Page("state_updated_at", "asc")) == [early, never, late]
    assert found(tx, Page("state_updated_at", "desc")) == [late, never, early]


def test_columns_that_nobody_needs_are_not_read(tx):
    add(tx, values={"n": 1})
    (row,) = threads.search(tx, ThreadQuery(values={"n": 1}), Page(), without=("values",))
    assert row.values is None
    assert row.status == "idle"


def test_threads_whose_time_is_over_are_told_unless_something_is_to_run_on_them(tx):
    over = add(tx, expires_at=10.0, ttl_strategy="delete")
    add(tx, expires_at=20.0)
    add(tx)
    for phase in ("running", "queued", "scheduled"):
        add_run(tx, add(tx, expires_at=5.0), phase=phase)
    ended = add(tx, expires_at=5.0)
    add_run(tx, ended, phase="success", ended_at=4.0)
    assert [row.thread_id for row in threads.find_expired(tx, 10.0)] == [ended, over]
    assert [row.thread_id for row in threads.find_expired(tx, 10.0, most=1)] == [ended]


def test_threads_are_removed_by_their_ids(tx):
    made = [add(tx) for _ in range(3)]
    assert threads.remove(tx, [made[0], made[2], str(uuid.uuid4())]) == 2
    assert found(tx) == [made[1]]
    assert threads.remove(tx, []) == 0


def plan_of(tx, wanted, page):
    """Give how a database would carry out a search."""
    asked = []

    @event.listens_for(tx, "before_cursor_execute")
    def heard(*told):
        asked.append(told[2:4])

    threads.search(tx, wanted, page)
    event.remove(tx, "before_cursor_execute", heard)
    [(statement, parameters)] = asked
    word = "EXPLAIN QUERY PLAN" if tx.dialect.name == "sqlite" else "EXPLAIN"
    return "\n".join(str(row) for row in tx.exec_driver_sql(f"{word} {statement}", parameters))


@pytest.mark.parametrize(
    ("wanted", "sort_by", "index"),
    [
        (ThreadQuery(), "created_at", "threads_by_creation"),
        (ThreadQuery(), "updated_at", "threads_by_update"),
        (ThreadQuery(owner="user 7"), "created_at", "threads_by_owner"),
        (ThreadQuery(ids=["00000000-0000-0000-0000-000000000007"]), "created_at", "thread"),
    ],
)
def test_a_page_is_found_by_an_index(tx, wanted, sort_by, index):
    many = [
        row_of(
            thread_id=str(uuid.UUID(int=n)),
            owner=f"user {n % 50}",
            created_at=float(n),
            updated_at=float(n),
        )
        for n in range(2000)
    ]
    tx.execute(insert(table), [column_values(row) for row in many])
    tx.execute(text("ANALYZE threads"))
    plan = plan_of(tx, wanted, Page(sort_by))
    assert index in plan
    assert "Seq Scan" not in plan
    assert "SCAN threads\n" not in plan


def test_metadata_are_found_by_an_index_on_postgresql(postgres_engine):
    with postgres_engine.connect() as tx, tx.begin() as begun:
        tx.execute(
            insert(table), [column_values(row_of(metadata={"user": f"u{n}"})) for n in range(3000)]
        )
        tx.execute(text("SELECT gin_clean_pending_list('threads_by_metadata')"))  # as vacuum does
        tx.execute(text("ANALYZE threads"))
        for wanted in (ThreadQuery(metadata={"user": "u7"}), ThreadQuery(filters={"user": "u7"})):
            assert "threads_by_metadata" in plan_of(tx, wanted, Page())
        begun.rollback()
