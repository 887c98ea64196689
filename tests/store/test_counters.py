"""Counters in a database: added up by any number of processes, and forgotten when they are old."""

import asyncio
import itertools
import threading
import time
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, func, select

from checkrail.builtin.counters import MemoryCounters
from checkrail.store import counters
from checkrail.store.counters import PARTS, Hit, StoredCounters, open_counters
from checkrail.store.database import Database
from checkrail.store.engines import sqlite_url
from checkrail.store.tables import counters as table

NOW = 1_700_000_000.0


def row(key="k", amount=1.0, start=NOW, expires_at=NOW + 100):
    return {"key": key, "window_start": start, "amount": amount, "expires_at": expires_at}


def hit(tx, key="k", limit=2, per=10.0, at=0.0):
    (answer,) = counters.count_hits(tx, [Hit(key, limit, per)], NOW + at)
    return answer


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """The URL of each database in turn; keys are not used twice."""
    engine = request.getfixturevalue(f"{request.param}_engine")
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def processes(url):
    """Two databases on the same data, as two processes have them."""
    made = [Database(url), Database(url)]
    yield made
    for database in made:
        database.close()


@pytest.fixture
def key():
    return uuid.uuid4().hex


def test_amounts_are_added_up_by_key_and_window(tx):
    counters.add(tx, [row("a", 2.5), row("b", 1.0), row("a", 0.5), row("a", 9.0, NOW + 60)])
    counters.add(tx, [row("a", 4.0)])
    assert counters.load_amounts(tx, ["b", "a", "c"], NOW) == [1.0, 7.0, 0.0]
    assert counters.load_amounts(tx, ["a"], NOW + 60) == [9.0]


def test_nothing_to_add_is_nothing_to_do(tx):
    counters.add(tx, [])
    assert counters.load_amounts(tx, [], NOW) == []


def test_old_windows_are_forgotten_a_few_at_a_time(tx):
    counters.add(tx, [row(f"old {number}", expires_at=NOW - 1) for number in range(5)])
    counters.add(tx, [row("new", expires_at=NOW + 1)])
    assert counters.forget_expired(tx, NOW, 3) == 3
    assert counters.forget_expired(tx, NOW, 3) == 2
    assert counters.forget_expired(tx, NOW, 3) == 0
    assert counters.load_amounts(tx, ["new"], NOW) == [1.0]


def test_what_is_added_to_is_kept_longer(tx):
    counters.add(tx, [row(expires_at=NOW)])
    counters.add(tx, [row(expires_at=NOW + 50)])
    assert counters.forget_expired(tx, NOW + 10, 10) == 0
    assert counters.forget_expired(tx, NOW + 50, 10) == 1


def test_hits_are_let_through_up_to_the_limit(tx):
    assert [hit(tx)[0] for _ in range(4)] == [True, True, False, False]
    assert hit(tx, "other") == (True, 0.0)


def test_several_hits_at_once_are_counted_one_by_one(tx):
    hits = [Hit("a", 2, 10.0), Hit("b", 1, 10.0), Hit("a", 2, 10.0), Hit("a", 2, 10.0)]
    answers = counters.count_hits(tx, hits, NOW)
    assert [let for let, _ in answers] == [True, True, True, False]


def test_who_is_refused_is_told_when_there_is_room_again(tx):
    assert hit(tx, limit=1) == (True, 0.0)
    let, wait = hit(tx, limit=1, at=3.0)
    assert not let
    assert not hit(tx, limit=1, at=3.0 + wait - 0.01)[0]
    assert hit(tx, limit=1, at=3.0 + wait + 0.01)[0]


def test_a_refused_hit_leaves_nothing_behind(tx):
    hit(tx, limit=1)
    before = tx.execute(select(func.count(), func.sum(table.c.amount))).one()
    hit(tx, limit=1, at=5.0)
    assert tx.execute(select(func.count(), func.sum(table.c.amount))).one() == before


def test_however_many_hits_there_are_a_key_has_a_few_windows(tx):
    for step in range(300):
        hit(tx, limit=10_000, per=10.0, at=step / 10)
        counters.forget_expired(tx, NOW + step / 10, 100)
        count = tx.execute(select(func.count()).where(table.c.key == "k")).scalar_one()
        assert count <= PARTS + 2


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    limit=st.integers(1, 4),
    steps=st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=25),
)
def test_no_stretch_of_time_ever_sees_more_than_the_limit(tx, limit, steps):
    key, at, let_through = uuid.uuid4().hex, 0.0, []
    for step in steps:
        at += step
        let, wait = hit(tx, key, limit, 7.0, at)
        assert let is (wait == 0.0)
        assert 0.0 <= wait <= 7.0 * (1 + 1 / PARTS) + 1e-6
        if let:
            let_through.append(at)
    for first, last in zip(let_through, let_through[limit:], strict=False):
        assert last >= first + 7.0 - 1e-6


async def test_two_processes_never_let_more_through_than_the_limit(processes, key):
    stores = [StoredCounters(database) for database in processes]
    answers = await asyncio.gather(
        *(store.hit(key, 30, 3600.0, 0.0) for _ in range(40) for store in stores)
    )
    assert sum(let for let, _ in answers) == 30


async def test_two_processes_add_to_the_same_amounts(processes, key):
    stores = [StoredCounters(database) for database in processes]
    names = [f"{key} {number}" for number in range(5)]
    orders = itertools.cycle([names, names[::-1]])
    until = time.time() + 100
    await asyncio.gather(
        *(store.add(dict.fromkeys(next(orders), 2.0), NOW, until) for store in stores * 20)
    )
    assert await stores[0].used(names, NOW) == [80.0] * 5


async def test_what_is_asked_for_together_is_written_together(url, key):
    database = Database(url)
    commits = []
    event.listen(database.engine, "commit", lambda _connection: commits.append(1))
    store = StoredCounters(database)
    everybody_waits = threading.Event()
    writer_is_busy = database.write_soon(lambda _tx: everybody_waits.wait(20))
    adds = [
        asyncio.ensure_future(store.add({key: 1.0}, NOW, time.time() + 100)) for _ in range(200)
    ]
    await asyncio.sleep(0)
    everybody_waits.set()
    await asyncio.gather(*adds)
    assert writer_is_busy.result()
    database.close()
    assert len(commits) <= 5  # those of the busy writer and of a new connection among them


async def test_what_many_loops_ask_for_is_counted(url, key):
    database = Database(url)
    store, answers = StoredCounters(database), []

    def work():
        answers.append(asyncio.run(store.hit(key, 3, 3600.0, 0.0)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()
    assert sum(let for let, _ in answers) == 3


async def test_old_ones_are_forgotten_while_others_are_counted(url, key):
    database = Database(url)
    await StoredCounters(database).add({f"{key} old": 1.0}, NOW, NOW)
    await StoredCounters(database).add({key: 1.0}, NOW, time.time() + 100)
    store = StoredCounters(database)
    assert await store.used([f"{key} old", key], NOW) == [0.0, 1.0]
    database.close()


async def test_a_failure_is_told_to_everybody_who_waits_and_the_next_one_works(url, key):
    database = Database(url)
    store = StoredCounters(database)
    asked = [store.add({key: 1.0}, NOW, time.time() + 100) for _ in range(3)]
    bad = store.add({key: object()}, NOW, time.time() + 100)
    answers = await asyncio.gather(bad, *asked, return_exceptions=True)
    assert isinstance(answers[0], Exception)
    await store.add({key: 1.0}, NOW, time.time() + 100)
    assert (await store.used([key], NOW))[0] >= 1.0
    database.close()


async def test_memory_and_database_answer_alike(url, key):
    database = Database(url)
    for store in (StoredCounters(database), MemoryCounters()):
        assert [(await store.hit(key, 2, 60.0, 5.0))[0] for _ in range(3)] == [True, True, False]
        await store.add({f"{key} a": 2.0, f"{key} b": 0.25}, NOW, time.time() + 100)
        await store.add({f"{key} a": 3.0}, NOW, time.time() + 100)
        names = [f"{key} {name}" for name in "abc"]
        assert await store.used(names, NOW) == [5.0, 0.25, 0.0]
        assert await store.used(names, NOW + 1) == [0.0, 0.0, 0.0]
    database.close()


async def test_a_process_without_a_server_counts_in_a_database_that_it_makes(tmp_path):
    url = sqlite_url(tmp_path / "checkrail.db")
    for expected in (True, False):
        with open_counters(url) as store:
            assert (await store.hit("k", 1, 3600.0, 0.0))[0] is expected
