"""Records of the gateway's calls: what is kept, found and forgotten, and how they get there."""

import asyncio
import threading

import pytest

from checkrail.llm.call_record import CallRecord
from checkrail.store import gateway_calls, migrate
from checkrail.store.call_log import CallLog
from checkrail.store.database import open_database
from checkrail.store.engines import sqlite_url
from checkrail.store.gateway_calls import CallFilter
from checkrail.times import uuid7


def call(at=1.0, **more):
    known = {"format": "chat", "path": "/v1/chat/completions", "request_id": "r"}
    return CallRecord(call_id=uuid7(at), created_at=at, duration_ms=5.0, **{**known, **more})


def test_what_is_kept_comes_back(tx):
    row = call(
        owner="ann",
        key="k",
        user_id="ada",
        session_id="s",
        run_id="run",
        agent_name="coder",
        model="gpt-5",
        answered_model="gpt-5-2025",
        upstream="here",
        provider="openai",
        status=200,
        streamed=True,
        usage={"input_tokens": 5, "input_tokens_details": {"cached_tokens": 2}},
        cost=0.25,
        decision="block",
        decisions={"block": 1, "continue": 2},
        reason="because",
        first_byte_ms=1.5,
    )
    gateway_calls.add(tx, [row, call(2.0)])
    assert gateway_calls.get(tx, row.call_id) == row
    assert gateway_calls.get(tx, "none") is None


def test_text_that_no_database_can_keep_is_kept_without_it(tx):
    row = call(model="a\0b\ud800", answered_model="\0", reason="c\0", provider="\udfff")
    gateway_calls.add(tx, [row])
    found = gateway_calls.get(tx, row.call_id)
    assert (found.model, found.answered_model, found.reason) == ("ab?", "", "c")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"owner": "ann"}, [3, 1]),
        ({"key": "k1"}, [1]),
        ({"user_id": "ada"}, [2]),
        ({"model": "big"}, [2, 0]),
        ({"status": 400}, [3]),
        ({"since": 12.0}, [3, 2]),
        ({"decision": "block"}, [3]),
        ({"owner": "ann", "decision": "continue"}, []),
    ],
)
def test_calls_are_found_by_what_is_known_of_them(tx, wanted, expected):
    rows = [
        call(10.0, model="big"),
        call(11.0, owner="ann", key="k1"),
        call(12.0, answered_model="big", user_id="ada"),
        call(13.0, owner="ann", status=400, decision="block"),
    ]
    gateway_calls.add(tx, rows)
    found = gateway_calls.search(tx, CallFilter(**wanted))
    assert found == [rows[place] for place in expected]


def test_a_page_goes_on_where_the_last_one_ended(tx):
    rows = [call(at) for at in (1.0, 1.0, 1.0, 2.0, 3.0)]
    gateway_calls.add(tx, rows)
    found, last = [], None
    while page := gateway_calls.search(tx, CallFilter(), before=last, limit=2):
        found += page
        last = page[-1]
    assert sorted(rows, key=lambda row: (row.created_at, row.call_id), reverse=True) == found


def test_old_calls_are_forgotten(tx):
    gateway_calls.add(tx, [call(float(at)) for at in range(10)])
    assert gateway_calls.forget_before(tx, 7.0) == 7
    assert gateway_calls.forget_before(tx, 7.0) == 0
    assert [row.created_at for row in gateway_calls.search(tx, CallFilter())] == [9.0, 8.0, 7.0]


@pytest.fixture
def database(tmp_path):
    with open_database(sqlite_url(tmp_path / "calls.db")) as made:
        migrate.upgrade(made.engine)
        yield made


def test_calls_of_many_threads_are_all_written(database):
    kept = CallLog(database)

    def add(count):
        for _ in range(count):
            kept(call())

    threads = [threading.Thread(target=add, args=(200,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept.close()
    found = database.read_now(lambda reads: gateway_calls.search(reads, CallFilter(), limit=2000))
    assert len(found) == 1000


async def test_nobody_waits_for_a_database_that_is_away_and_the_oldest_are_dropped(
    database, caplog
):
    entered, go_on = threading.Event(), threading.Event()

    def hold(_tx):
        entered.set()
        go_on.wait(20)

    held = database.write_soon(hold)
    await asyncio.to_thread(entered.wait, 20)
    kept = CallLog(database, most=3)
    rows = [call(float(at)) for at in range(6)]
    for row in rows:
        kept(row)
    go_on.set()
    held.result(20)
    await asyncio.to_thread(kept.close)
    found = await database.read(lambda reads: gateway_calls.search(reads, CallFilter()))
    assert found == [*reversed(rows[3:]), rows[0]]
    assert "2 calls were not recorded" in caplog.text
