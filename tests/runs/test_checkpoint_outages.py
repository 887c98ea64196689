"""A PostgreSQL that goes away and comes back: what runs and clients see of it."""

import asyncio
import contextlib
import socket

import psycopg
import pytest
from psycopg import sql
from tests.pg_proxy import PostgresProxy

from checkrail.runs.graphs import postgres as patience
from checkrail.runs.graphs.checkpoints import open_checkpointer, open_store
from checkrail.store.health import DatabaseUnavailableError

from .graphs.support_graphs import at, greet
from .graphs.support_graphs import chain as plain_chain
from .support import Gate, Place, World, chain, say, until


@contextlib.asynccontextmanager
async def away(postgres, *, immediate=False):
    """Shut a PostgreSQL down, and start it again in the end."""
    await asyncio.to_thread(postgres.shut_down, immediate=immediate)
    try:
        yield
    finally:
        await asyncio.to_thread(postgres.start_again)


async def test_nothing_fails_after_a_restart_that_nobody_saw(postgres):
    url = postgres.fresh()
    async with open_checkpointer(url) as saver, open_store(url) as store:
        graph = plain_chain(greet, checkpointer=saver)
        for count in (1, 2):
            runs = [graph.ainvoke({"said": []}, at(f"t{number}")) for number in range(20)]
            items = [store.aput(("n",), f"k{number}", {"v": count}) for number in range(20)]
            ran, *_ = await asyncio.gather(asyncio.gather(*runs), *items)
            assert [each["count"] for each in ran] == [count] * 20
            assert len(await store.asearch(("n",), limit=50)) == 20
            if count == 1:
                async with away(postgres):
                    pass
    postgres.drop(url)


@pytest.mark.parametrize("opened", [open_checkpointer, open_store])
async def test_who_starts_while_it_is_away_is_told_so(opened):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be reached\. See that it runs"):
        async with opened(f"postgresql://nobody@127.0.0.1:{port}/none"):
            pass


@pytest.mark.parametrize("opened", [open_checkpointer, open_store])
async def test_who_starts_waits_for_a_database_that_is_slow_to_connect(
    postgres, monkeypatch, opened
):
    monkeypatch.setattr(patience, "_CONNECTING", 0.05)
    url = postgres.fresh()
    with PostgresProxy(url) as proxy:
        proxy.delay = 0.1
        async with opened(proxy.url):
            pass
    postgres.drop(url)


@pytest.mark.parametrize("immediate", [False, True], ids=["fast", "immediate"])
async def test_runs_go_on_after_a_restart_in_the_middle_of_them(
    postgres, postgres_place, immediate
):
    postgres.keep_commits()
    gate = Gate()
    async with World(postgres_place) as world:
        served = await world.open({"slow": gate.graph(say, after=(say_more,))}, lease=20.0)
        threads = [await served.thread() for _ in range(5)]
        rows = [await served.admit("slow", {"text": each}, each) for each in threads]
        await until(lambda: _reached(gate, len(rows)), "all runs")
        async with away(postgres, immediate=immediate):
            gate.open.set()
            await asyncio.sleep(1)
        for row, thread in zip(rows, threads, strict=True):
            ended = await served.over(row)
            assert (ended.status, ended.error) == ("success", None)
            said = [thread, f"{thread} passed", "more"]
            assert (await served.state("slow", thread))["said"] == said


@pytest.mark.parametrize("immediate", [False, True], ids=["fast", "immediate"])
async def test_a_single_write_after_a_restart_is_done_again(postgres, immediate):
    """An immediate shutdown is told in a notice, which answers nothing that was asked."""
    url = postgres.fresh()
    async with open_checkpointer(url) as saver:
        assert await _ask_writer(saver)
        async with away(postgres, immediate=immediate):
            pass
        assert await _ask_writer(saver)
    postgres.drop(url)


async def _ask_writer(saver):
    return await saver.writer._writer.write(lambda tx: tx.run("SELECT 1", ()).fetchone())


async def say_more(state):
    return {"said": ["more"]}


async def _reached(gate, count):
    return gate.count == count


@pytest.fixture
def apart(postgres):
    """Runs in one database, and checkpoints in another."""
    place = Place(postgres.with_tables(), postgres.fresh())
    yield place
    postgres.drop(place.url)
    postgres.drop(place.checkpoints)


def let_in(postgres, url, *, yes):
    """Let nobody connect to a database, and send away who is; or let all in again."""
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        change = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        connection.execute(change.format(sql.Identifier(name), sql.Literal(yes)))
        gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(gone, [name])


async def test_a_run_waits_for_its_checkpoints_for_as_long_as_it_may(postgres, apart, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0.0)  # of requests
    gate = Gate()
    async with World(apart) as world:
        served = await world.open({"slow": gate.graph()})
        rows = [
            await served.admit("slow", {"text": "a"}, await served.thread(), **limit)
            for limit in ({}, {"timeout_seconds": 1.5})
        ]
        await until(lambda: _reached(gate, 2), "both runs")
        let_in(postgres, apart.checkpoints, yes=False)
        gate.open.set()
        assert (await served.over(rows[1])).status == "timeout"
        assert (await served.row(rows[0])).ended_at is None
        let_in(postgres, apart.checkpoints, yes=True)
        ended = await served.over(rows[0])
        assert (ended.status, ended.attempt) == ("success", 1)


async def test_a_run_that_waited_for_the_store_in_vain_is_taken_up_again(
    postgres, apart, monkeypatch
):
    monkeypatch.setattr(patience, "STORE_PATIENCE", 0.5)
    gate = Gate()

    async def put(state, *, store):
        await gate.pass_through(state)
        await store.aput(("n",), "k", {"v": 1})

    items = postgres.fresh()
    async with World(apart) as world, open_store(items) as store:
        served = await world.open({"slow": chain(put)}, store=store)
        row = await served.admit("slow", {"text": "a"}, await served.thread())
        await gate.entered.wait()
        let_in(postgres, items, yes=False)
        gate.open.set()
        await until(lambda: _lost(served, row), "the run to be given back")
        let_in(postgres, items, yes=True)
        ended = await served.over(row)
        assert (ended.status, ended.lost > 0) == ("success", True)
        assert (await store.aget(("n",), "k")).value == {"v": 1}
    postgres.drop(items)


async def _lost(served, row):
    return (await served.row(row)).lost


async def test_a_request_is_told_soon_that_the_checkpoints_are_away(postgres, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0.2)
    url = postgres.fresh()
    async with open_checkpointer(url) as saver:
        let_in(postgres, url, yes=False)
        with pytest.raises(DatabaseUnavailableError, match="See that it runs"):
            await saver.aget_tuple(at("t"))
        let_in(postgres, url, yes=True)
        assert await saver.aget_tuple(at("t")) is None
    postgres.drop(url)


@contextlib.asynccontextmanager
async def read_only(postgres, saver, url):
    """Have a database refuse writes of whoever connects from now on, and let all write in the end.

    The saver connects anew, but for its writer.
    """
    name = sql.Identifier(url.partition("?")[0].rpartition("/")[2])

    def allow_writes(*, yes):
        change = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute(change.format(name, sql.Literal(not yes)))

    allow_writes(yes=False)
    await saver.conn.drain()
    try:
        yield
    finally:
        allow_writes(yes=True)


async def test_a_write_to_a_read_only_database_waits_for_one_that_is_not(postgres, caplog):
    url = postgres.fresh()
    async with open_checkpointer(url) as saver:
        graph = plain_chain(greet, checkpointer=saver)
        async with read_only(postgres, saver, url):
            writing = asyncio.create_task(graph.ainvoke({"said": []}, at("t")))
            await until(lambda: _told(caplog, "The database is read-only"), "word of it")
            assert await saver.aget_tuple(at("t")) is None
        assert (await writing)["count"] == 1
        assert caplog.text.count("The database is read-only") == 1
        assert caplog.text.count("The database works again") == 1
    postgres.drop(url)


async def test_a_write_that_was_given_up_is_no_sign_that_others_are_kept(postgres, caplog):
    url = postgres.fresh()
    async with open_checkpointer(url) as saver:
        graph = plain_chain(greet, checkpointer=saver)
        async with read_only(postgres, saver, url):
            writing = asyncio.create_task(graph.ainvoke({"said": []}, at("t")))
            await until(lambda: _told(caplog, "The database is read-only"), "word of it")
            writing.cancel()
            await asyncio.wait([writing])
            for _ in range(3):
                assert await saver.aget_tuple(at("t")) is None
            assert saver.patiently.health.trouble is not None
        assert "works again" not in caplog.text
    postgres.drop(url)


async def _told(caplog, text):
    return text in caplog.text
