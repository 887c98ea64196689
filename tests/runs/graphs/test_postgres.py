"""Checkpoints on PostgreSQL: what runs ask for at a time is one transaction, for those who may."""

import asyncio
import contextlib
import math
import os
import signal
import threading
from enum import StrEnum

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from checkrail.runs.graphs import postgres as saving
from checkrail.runs.graphs import thread_rows
from checkrail.runs.graphs.checkpoints import open_checkpointer
from checkrail.runs.graphs.fences import RunFence, StaleRunError, hold_fence

from .support_graphs import at, chain, greet

RUNS = """
CREATE TABLE runs (run_id text PRIMARY KEY, attempt int, worker_id text, ended_at float8);
INSERT INTO runs SELECT 'r' || number, 1, 'me', NULL FROM generate_series(0, 19) AS number
"""


@pytest.fixture
def url(postgres):
    made = postgres.fresh()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(RUNS)
    yield made
    postgres.drop(made)


@pytest.fixture
async def saver(url):
    async with open_checkpointer(url) as opened:
        yield opened


def fence(run_id, stopped=None):
    async def never():
        raise AssertionError

    stop = (stopped if stopped is not None else []).append
    return hold_fence(RunFence(run_id, 1, "me", lambda: False, never, lambda: stop(run_id)))


async def put(saver, run_id, stopped=None):
    """Write a checkpoint of a run, on a thread of the same name."""
    config = {"configurable": {"thread_id": run_id, "checkpoint_ns": ""}}
    with fence(run_id, stopped):
        return await saver.aput(config, empty_checkpoint(), {}, {})


@contextlib.contextmanager
def busy(saver):
    """Keep the writer busy, so that all that is asked for meanwhile waits."""
    entered, gate = threading.Event(), threading.Event()
    saver.writer._writer.submit(lambda _: (entered.set(), gate.wait(30)))
    assert entered.wait(30)
    try:
        yield
    finally:
        gate.set()


async def put_all(saver, *run_ids, stopped=None):
    """Write checkpoints of several runs at a time, and return how each went."""
    with busy(saver):
        writes = [asyncio.ensure_future(put(saver, each, stopped)) for each in run_ids]
        await asyncio.sleep(0.05)
    return await asyncio.gather(*writes, return_exceptions=True)


def ask(url, query):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def change(url, query):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query)


async def test_what_is_asked_for_together_is_one_transaction(saver, url):
    run_ids = [f"r{number}" for number in range(20)]
    await put_all(saver, *run_ids)
    found = ask(url, "SELECT count(*), count(DISTINCT xmin::text) FROM checkpoints")
    assert found == [(20, 1)]


@pytest.mark.parametrize("lost", ["worker_id = 'other'", "attempt = 2", "ended_at = 1"])
async def test_one_whose_run_is_lost_is_refused_alone(saver, url, lost):
    change(url, f"UPDATE runs SET {lost} WHERE run_id = 'r1'")
    stopped = []
    first, refused, last = await put_all(saver, "r0", "r1", "r2", stopped=stopped)
    assert isinstance(refused, StaleRunError)
    assert stopped == ["r1"]
    assert (await saver.aget_tuple(first)).config == first
    assert (await saver.aget_tuple(last)).config == last
    assert await saver.aget_tuple(at("r1")) is None


async def test_a_run_that_somebody_works_on_keeps_nobody_else_waiting(saver, url):
    with psycopg.connect(url) as other:
        other.execute("UPDATE runs SET ended_at = NULL WHERE run_id = 'r1'")  # not committed
        with busy(saver):
            writes = [asyncio.ensure_future(put(saver, each)) for each in ("r0", "r1", "r2")]
            await asyncio.sleep(0.05)
        await asyncio.gather(writes[0], writes[2])
        await asyncio.wait([writes[1]], timeout=0.2)
        assert not writes[1].done()
        other.commit()
    config = await writes[1]
    assert (await saver.aget_tuple(config)).config == config


async def test_what_nobody_waits_for_any_more_is_not_begun_with(saver):
    with busy(saver):
        asked = asyncio.ensure_future(put(saver, "r0"))
        await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.wait([asked], timeout=10)
        assert asked.cancelled()  # at once, though the writer is busy
    await put(saver, "r1")
    assert await saver.aget_tuple(at("r0")) is None


async def reads(saver):
    return await saver.aget_tuple(at("r0"))


async def deletes(saver):
    await thread_rows.delete_thread(saver, "r0")


@pytest.mark.parametrize("next_step", [reads, deletes])
async def test_what_was_begun_with_is_settled_before_its_thread_is_looked_at(saver, url, next_step):
    await put(saver, "r1")  # which connects
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE checkpoints IN SHARE MODE")  # which may be read
        asked = asyncio.ensure_future(put(saver, "r0"))
        await asyncio.to_thread(wait_for_lock, url)
        asked.cancel()
        await asyncio.wait([asked], timeout=10)
        assert asked.cancelled()
        following = asyncio.ensure_future(next_step(saver))
        await asyncio.wait([following], timeout=0.3)
        assert not following.done()
    found = await following
    if next_step is reads:
        assert found.config["configurable"]["thread_id"] == "r0"
    else:
        assert await saver.aget_tuple(at("r0")) is None


def wait_for_lock(url):
    """Wait until somebody waits for a lock."""
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    for _ in range(1000):
        if ask(url, query)[0][0]:
            return
        threading.Event().wait(0.01)
    raise AssertionError


async def test_a_database_that_is_frozen_holds_up_no_end(url, monkeypatch):
    monkeypatch.setattr(saving, "_FAREWELL", 0.2)
    async with open_checkpointer(url) as saver:
        await put(saver, "r1")
        backend = await saver.writer._writer.write(
            lambda tx: tx.run("SELECT pg_backend_pid()", ()).fetchone()[0]
        )
        os.kill(backend, signal.SIGSTOP)
        try:
            asked = asyncio.ensure_future(put(saver, "r0"))
            await asyncio.sleep(0.1)
            assert not asked.done()
            asked.cancel()
            await asyncio.wait([asked], timeout=10)
            assert asked.cancelled()
            await asyncio.wait_for(saver.writer.close(), 30)
        finally:
            os.kill(backend, signal.SIGCONT)


async def test_values_are_what_langgraphs_own_saver_writes_and_reads(saver, url):
    graph = chain(greet, checkpointer=saver)
    await graph.ainvoke({"said": ["a"], "count": 2**60}, at("t"))
    async with AsyncPostgresSaver.from_conn_string(url) as official:
        official.serde = saver.serde
        listed = [found async for found in official.alist(at("t"))]
        assert len(listed) == 3
        assert listed[0].checkpoint["channel_values"] == {
            "said": ["a", "hello"],
            "count": 2**60 + 1,
        }
        theirs = chain(greet, checkpointer=official)
        await theirs.ainvoke({"said": ["a"], "count": 2**60}, at("u"))
        same = "SELECT channel, type, blob FROM checkpoint_blobs WHERE thread_id = '{}' ORDER BY 1"
        assert ask(url, same.format("t")) == ask(url, same.format("u"))
        kept = "SELECT checkpoint -> 'channel_values' FROM checkpoints WHERE thread_id = '{}'"
        assert ask(url, kept.format("t")) == ask(url, kept.format("u"))


class Label(StrEnum):
    FRAGILE = "fragile"


@pytest.mark.parametrize("value", [math.inf, -math.inf, "a\0b", "Zo\u00eb", Label.FRAGILE])
async def test_a_value_that_is_no_json_comes_back_as_it_was(url, value):
    assert await keep_and_read(url, value) == (value, type(value))


async def test_half_a_pair_is_read_as_it_is_on_sqlite(url):
    assert await keep_and_read(url, "half \ud800 a pair") == ("half ? a pair", str)


async def keep_and_read(url, value):
    """Return a value, and its type, as it is read again from a checkpoint."""
    async with open_checkpointer(url, types=[Label]) as saver:
        checkpoint = {
            **empty_checkpoint(),
            "channel_values": {"it": value},
            "channel_versions": {"it": "1"},
        }
        place = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        await saver.aput(place, checkpoint, {}, {"it": "1"})
        found = (await saver.aget_tuple(at("t"))).checkpoint["channel_values"]["it"]
        return found, type(found)


async def test_text_that_postgresql_cannot_keep_is_refused(saver):
    config = {"configurable": {"thread_id": "a\0b", "checkpoint_ns": ""}}
    with pytest.raises(psycopg.DataError, match="NUL"):
        await saver.aput(config, empty_checkpoint(), {}, {})
    assert await saver.aget_tuple(at("a")) is None
