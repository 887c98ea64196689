"""The database: one writer with many jobs in a commit, readers beside it, and word of changes."""

import asyncio
import threading
import time

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import insert, literal, select, text, update
from sqlalchemy.exc import IntegrityError
from tests.pg_proxy import PostgresProxy
from tests.processes import until

from checkrail.engine.errors import CheckrailError
from checkrail.store.database import Database, _Batches, open_database
from checkrail.store.engines import DatabaseUrlError, open_engine, sqlite_url
from checkrail.store.health import DatabaseUnavailableError
from checkrail.store.tables import idempotency, workers
from checkrail.times import uuid7


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    engine = request.getfixturevalue(f"{request.param}_engine")
    with engine.begin() as connection:
        connection.execute(workers.delete())
        connection.execute(idempotency.delete())
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture
def told():
    return []


@pytest.fixture
def database(url, told):
    made = Database(url, told.append)
    yield made
    made.close()


def entering(name):
    row = {"worker_id": name, "host": "h", "pid": 1, "started_at": 0.0, "expires_at": 0.0}
    return lambda tx: tx.execute(insert(workers).values(**row)) and name


def names(reads):
    return sorted(row.worker_id for row in reads.execute(select(workers.c.worker_id)))


def doze(reads):
    return reads.execute(text("SELECT pg_sleep(0.1)")).scalar()


class Held:
    """Holds up the writer, so that what is asked for meanwhile becomes one batch."""

    def __init__(self, database) -> None:
        self._go = threading.Event()
        self._begun = threading.Event()
        self.done = database.write_soon(self._wait)
        self._begun.wait()

    def _wait(self, tx):
        self._begun.set()
        self._go.wait()

    def let_go(self) -> None:
        self._go.set()
        self.done.result()


async def test_what_was_written_is_there_when_the_write_returns(database):
    assert await database.write(entering("a")) == "a"
    assert await database.read(names) == ["a"]


async def test_what_a_job_raises_is_raised_and_nothing_of_it_is_kept(database):
    def broken(tx):
        entering("half")(tx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.write(broken)
    assert await database.read(names) == []


@pytest.mark.parametrize("place", [0, 3, 7])
async def test_one_bad_job_in_a_batch_does_not_spoil_the_others(database, place):
    await database.write(entering("taken"))
    jobs = [entering(f"w{number}") for number in range(8)]
    jobs[place] = entering("taken")
    held = Held(database)
    waiting = [asyncio.ensure_future(database.write(job)) for job in jobs]
    await asyncio.sleep(0)
    held.let_go()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers.pop(place), IntegrityError)
    assert answers == [f"w{number}" for number in range(8) if number != place]
    assert await database.read(names) == sorted([*answers, "taken"])


async def test_a_batch_with_several_bad_jobs_keeps_all_the_good_ones(database):
    def broken(tx):
        raise LookupError

    held = Held(database)
    jobs = [broken if number % 2 else entering(f"w{number}") for number in range(10)]
    waiting = [asyncio.ensure_future(database.write(job)) for job in jobs]
    await asyncio.sleep(0)
    held.let_go()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [str, LookupError] * 5
    assert len(await database.read(names)) == 5


async def test_jobs_are_carried_out_in_the_order_they_were_asked_for(database):
    order = []
    await asyncio.gather(*(database.write(lambda tx, n=n: order.append(n)) for n in range(600)))
    assert order == [*range(600)]


async def test_many_jobs_are_one_commit(database):
    held = Held(database)
    seen = []

    def look(tx):
        seen.append(id(tx))

    waiting = [asyncio.ensure_future(database.write(look)) for _ in range(50)]
    await asyncio.sleep(0)
    held.let_go()
    await asyncio.gather(*waiting)
    assert len(set(seen)) == 1


async def test_others_are_told_after_the_commit_and_not_of_what_was_undone(database, told):
    def telling(tx):
        entering("a")(tx)
        tx.publish("run", "1")

    def broken(tx):
        tx.publish("run", "never")
        raise LookupError

    await database.write(telling)
    with pytest.raises(LookupError):
        await database.write(broken)
    assert told == [[("run", "1")]]


async def test_who_stops_waiting_does_not_undo_the_write(database):
    held = Held(database)
    task = asyncio.create_task(database.write(entering("a")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    held.let_go()
    await database.write(lambda tx: None)
    assert await database.read(names) == ["a"]


async def test_readers_do_not_wait_for_the_writer(database):
    held = Held(database)
    async with asyncio.timeout(30):
        assert await database.read(names) == []
    held.let_go()


async def test_a_reader_sees_nothing_of_a_write_that_is_under_way(database):
    begun, go = threading.Event(), threading.Event()

    def slow(tx):
        entering("a")(tx)
        begun.set()
        go.wait()

    task = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(begun.wait)
    assert await database.read(names) == []
    go.set()
    await task
    assert await database.read(names) == ["a"]


async def test_a_beat_gets_through_from_any_thread(database):
    assert await asyncio.to_thread(database.write_at_once, entering("beat")) == "beat"
    assert await database.read(names) == ["beat"]


def test_a_beat_does_not_wait_for_other_writes_where_two_may_write(postgres_engine):
    url = postgres_engine.url.render_as_string(hide_password=False)
    with open_database(url) as database:
        held = Held(database)
        assert database.write_at_once(lambda tx: tx.execute(select(literal(1))).scalar()) == 1
        held.let_go()


def test_the_clock_of_leases_is_that_of_the_database(database):
    found = database.read_now(lambda reads: reads.execute(select(database.now())).scalar())
    assert abs(found - time.time()) < 60


async def test_a_database_that_drops_its_connections_is_used_again(postgres_engine):
    url = postgres_engine.url.render_as_string(hide_password=False)
    with open_database(url) as database:
        await database.write(lambda tx: None)
        drop = text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with postgres_engine.begin() as connection:
            connection.execute(drop)
        postgres_engine.dispose()  # of those of its own that were dropped too

        async def again():
            try:
                return await database.write(lambda tx: tx.execute(select(literal(7))).scalar())
            except Exception:
                return None

        answers = [await again() for _ in range(3)]
    assert answers[-1] == 7


async def test_two_that_wait_for_each_other_both_get_through(postgres_engine):
    """PostgreSQL ends one of two transactions that wait in a circle; it is tried again."""
    url = postgres_engine.url.render_as_string(hide_password=False)
    with open_database(url) as first, open_database(url) as second:
        await first.write(lambda tx: tx.execute(workers.delete()))
        for name in ("x", "y"):
            await first.write(entering(name))
        met = threading.Barrier(2)

        def crossing(one, two):
            once = [True]

            def job(tx):
                for name in (one, two):
                    tx.execute(update(workers).where(workers.c.worker_id == name).values(host=one))
                    if once.pop() if once else False:
                        met.wait(10)
                return one

            return job

        answers = await asyncio.gather(
            first.write(crossing("x", "y")), second.write(crossing("y", "x"))
        )
        assert answers == ["x", "y"]


async def test_closing_finishes_what_was_asked_for(url):
    database = Database(url)
    waiting = [database.write_soon(entering(f"w{number}")) for number in range(20)]
    database.close()
    assert [each.result(0) for each in waiting] == [f"w{number}" for number in range(20)]


@pytest.mark.parametrize("url", ["mysql://root:geheim@host/db", "no url: geheim", "oracle+x://a"])
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url):
    with pytest.raises(DatabaseUrlError) as refused:
        open_engine(url)
    assert isinstance(refused.value, CheckrailError)
    assert "geheim" not in str(refused.value)


def test_sqlite_is_set_up_for_one_writer_and_many_readers(tmp_path):
    engine = open_engine(sqlite_url(tmp_path / "a.db"))
    with engine.connect() as connection:
        mode = connection.execute(text("PRAGMA journal_mode")).scalar()
    engine.dispose()
    assert mode == "wal"


async def test_a_batch_whose_commit_was_not_answered_is_looked_up_and_not_done_again(
    postgres_engine,
):
    """Nobody is told that it failed, and nothing of it is done twice."""
    url = postgres_engine.url.render_as_string(hide_password=False)
    with PostgresProxy(url) as proxy, open_database(proxy.url) as database:
        await database.write(lambda tx: tx.execute(workers.delete()))
        calls = []

        def job(name):
            return lambda tx: calls.append(name) or entering(name)(tx)

        proxy.lose_commits(1)
        assert await database.write(job("a")) == "a"
        proxy.await_loss()
        assert calls == ["a"]
        assert await database.read(names) == ["a"]


async def test_a_batch_that_did_not_get_to_its_commit_is_done_again(postgres_engine):
    url = postgres_engine.url.render_as_string(hide_password=False)
    with PostgresProxy(url) as proxy, open_database(proxy.url) as database:
        await database.write(lambda tx: tx.execute(workers.delete()))
        calls = []

        def job(tx):
            calls.append(1)
            if len(calls) == 1:
                proxy.cut()
                proxy.mend()
            return entering("a")(tx)

        assert await database.write(job) == "a"
        assert len(calls) == 2
        assert await database.read(names) == ["a"]


async def test_a_job_that_ends_each_connection_is_refused_and_the_others_are_done(
    postgres_engine,
):
    url = postgres_engine.url.render_as_string(hide_password=False)
    with open_database(url) as database:
        await database.write(lambda tx: tx.execute(workers.delete()))

        def poison(tx):
            tx.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

        held = Held(database)
        waiting = [asyncio.ensure_future(database.write(job)) for job in (entering("a"), poison)]
        await asyncio.sleep(0)
        held.let_go()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers[0] == "a"
    assert isinstance(answers[1], DatabaseUnavailableError)


async def test_an_outage_is_refused_in_words_and_logged_once(postgres_engine, monkeypatch, caplog):
    monkeypatch.setattr("checkrail.store.database.PATIENCE", 0.7)
    url = postgres_engine.url.render_as_string(hide_password=False)
    with PostgresProxy(url) as proxy, open_database(proxy.url) as database:
        await database.write(lambda tx: tx.execute(workers.delete()))
        proxy.cut()
        patient = asyncio.ensure_future(database.write(entering("a"), patient=True))
        for _ in range(5):
            with pytest.raises(DatabaseUnavailableError, match="cannot be reached"):
                await database.write(lambda tx: None)
            with pytest.raises(DatabaseUnavailableError, match="cannot be reached"):
                await database.read(names)
        assert database.health.trouble is not None
        assert not patient.done()
        proxy.mend()
        assert await patient == "a"
        assert database.health.trouble is None
    told = [record.getMessage() for record in caplog.records if record.name == "checkrail.store"]
    assert len(told) == 2, told
    assert "cannot be reached" in told[0]
    assert "works again" in told[1]


async def test_connections_from_a_read_only_time_are_no_second_outage(
    postgres, monkeypatch, caplog
):
    monkeypatch.setattr("checkrail.store.health._SHORT", 0.05)
    url = postgres.with_tables()
    name = sql.Identifier(url.partition("?")[0].rpartition("/")[2])

    def allow_writes(*, yes):
        change = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(change.format(name, sql.Literal(not yes)))

    allow_writes(yes=False)
    with open_database(url) as database:
        waiting = asyncio.ensure_future(database.write(entering("a"), patient=True))
        await asyncio.to_thread(until, lambda: caplog.messages, "word of it")
        reads = (database.read(doze) for _ in range(4))
        await asyncio.gather(*reads)
        allow_writes(yes=True)
        await waiting
        for number in range(8):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(database.write_at_once, entering(f"b{number}"))
        assert len(await database.read(names)) == 9
    assert caplog.text.count("The database is read-only") == 1
    assert caplog.text.count("The database works again") == 1
    postgres.drop(url)


async def test_who_ends_does_not_wait_for_a_database_that_is_away(postgres_engine):
    url = postgres_engine.url.render_as_string(hide_password=False)
    with PostgresProxy(url) as proxy, open_database(proxy.url) as database:
        await database.write(lambda tx: tx.execute(workers.delete()))
        proxy.cut()
        patient = asyncio.ensure_future(database.write(entering("a"), patient=True))
        await asyncio.sleep(0.2)
        database.end_waiting()
        with pytest.raises(DatabaseUnavailableError):
            await patient


async def test_the_time_is_the_databases_however_wrong_this_machines_clock_is(
    postgres_engine, monkeypatch
):
    url = postgres_engine.url.render_as_string(hide_password=False)
    right = time.time()
    monkeypatch.setattr(time, "time", lambda: right - 3600)
    with open_database(url) as database:
        found = await database.write(lambda tx: tx.time())
        assert abs(found - right) < 60
        assert abs(database.time() - right) < 60


async def test_an_answer_that_is_long_on_its_way_puts_no_clock_back(postgres_engine):
    """Or a run could begin before the one ended that it has waited for."""
    url = postgres_engine.url.render_as_string(hide_password=False)
    with PostgresProxy(url) as proxy, open_database(proxy.url) as late, open_database(url) as other:
        for database in (late, other):
            for _ in range(10):
                await database.write(lambda tx: None)
        proxy.delay = 0.3
        await late.write(lambda tx: None)
        proxy.delay = 0.0
        assert abs(late.time() - other.time()) < 0.15


@pytest.mark.parametrize(
    ("told", "began", "ended", "offset"),
    [
        (1010.0, 10.0, 10.5, 1000.0),  # it can still be what it was
        (1011.0, 10.0, 10.5, 1000.5),  # the database's clock was put forward, or runs faster
        (1009.0, 10.0, 10.5, 999.0),  # it was put back
    ],
)
def test_a_clock_that_is_put_forward_or_back_is_followed(told, began, ended, offset):
    clock = _Batches(uuid7())
    clock.set_clock(1001.0, 1.0, 1.0)
    clock.set_clock(told, began, ended)
    assert clock.time() - time.monotonic() == pytest.approx(offset, abs=0.05)
