"""Checkpoints on SQLite: what runs ask for at a time is done in one commit."""

import asyncio
import sqlite3

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from checkrail.runs.graphs.checkpoints import open_checkpointer
from checkrail.runs.graphs.fences import RunFence, StaleRunError, hold_fence

from .support_graphs import at, chain, greet


@pytest.fixture
async def saver(tmp_path):
    async with open_checkpointer(tmp_path / "checkpoints.db") as opened:
        yield opened


def put(saver, thread_id, checkpoint_ns=""):
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}}
    return saver.aput(config, empty_checkpoint(), {}, {})


async def put_all(saver, *writes):
    """Ask for writes while somebody has the lock, and return how each went."""
    async with saver.lock:
        asked = [asyncio.ensure_future(each) for each in writes]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in asked)
    return await asyncio.gather(*asked, return_exceptions=True)


async def statements(saver):
    """Note each statement of the connection from now on."""
    noted = []
    await saver.conn.run(lambda connection: connection.set_trace_callback(noted.append))
    return noted


async def test_what_is_asked_for_together_is_one_commit(saver):
    noted = await statements(saver)
    writes = [put(saver, f"t{number}") for number in range(20)]
    read = saver.aget_tuple(at("t5"))
    *_, found = await put_all(saver, *writes, read)
    assert noted.count("COMMIT") == 1
    assert found.config["configurable"]["thread_id"] == "t5"  # in the order of asking


async def test_one_that_fails_does_not_spoil_the_others(saver):
    bad = put(saver, "bad", object())  # which SQLite cannot keep
    first, failed, last = await put_all(saver, put(saver, "a"), bad, put(saver, "b"))
    assert isinstance(failed, sqlite3.Error)
    for thread_id, config in (("a", first), ("b", last)):
        assert (await saver.aget_tuple(at(thread_id))).config == config
    assert await saver.aget_tuple(at("bad")) is None


async def test_what_nobody_waits_for_any_more_is_not_written(saver):
    async with saver.lock:
        asked = asyncio.ensure_future(put(saver, "t"))
        await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.wait([asked], timeout=5)
        assert asked.cancelled()  # at once, though the lock is not free
    await put(saver, "other")
    assert await saver.aget_tuple(at("t")) is None


async def test_a_run_that_ends_while_its_write_waits_is_refused(saver):
    over = []

    async def never():
        raise AssertionError

    async def write():
        fence = RunFence("run", 1, "me", lambda: bool(over), never, lambda: over.append("stopped"))
        with hold_fence(fence):
            await put(saver, "mine")

    async with saver.lock:
        asked = [asyncio.ensure_future(each) for each in (write(), put(saver, "other"))]
        await asyncio.sleep(0.01)
        over.append("ended")
    mine, other = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(mine, StaleRunError)
    assert over == ["ended", "stopped"]
    assert (await saver.aget_tuple(at("other"))).config == other
    assert await saver.aget_tuple(at("mine")) is None


async def test_who_asks_after_the_end_hears_of_it(tmp_path):
    async with open_checkpointer(tmp_path / "checkpoints.db") as saver:
        pass
    with pytest.raises(ValueError, match="no active connection"):
        await saver.aget_tuple(at("t"))


async def test_what_was_asked_for_before_the_end_is_kept(tmp_path):
    async with open_checkpointer(tmp_path / "checkpoints.db") as saver:
        asked = asyncio.ensure_future(put(saver, "t"))
        await asyncio.sleep(0)
    config = await asked
    async with open_checkpointer(tmp_path / "checkpoints.db") as saver:
        assert (await saver.aget_tuple(config)).checkpoint["id"]


async def test_it_reads_what_langgraphs_own_saver_reads(saver, tmp_path):
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    graph = chain(greet, checkpointer=saver)
    await graph.ainvoke({"said": []}, at("t"))
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as official:
        official.serde = saver.serde
        listed = [found async for found in official.alist(at("t"))]
        assert len(listed) == 3
        for found in listed:
            assert await saver.aget_tuple(found.config) == found
        assert await saver.aget_tuple(at("t")) == await official.aget_tuple(at("t"))
