"""The checkpoints of stateless runs: gone soon after, for many at once, and when a server stops."""

import asyncio
import uuid

from langgraph.checkpoint.base import empty_checkpoint

from checkrail.runs import leftovers
from checkrail.runs.leftovers import Leftovers


async def threads_of(saver):
    return {found.config["configurable"]["thread_id"] async for found in saver.alist(None)}


async def keep(saver, count):
    """Leave checkpoints of some threads behind, and give the threads."""
    kept = [str(uuid.uuid4()) for _ in range(count)]
    for thread_id in kept:
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        stored = await saver.aput(config, empty_checkpoint(), {}, {})
        await saver.aput_writes(stored, [("a", 1)], "task")
    return kept


async def until(done):
    async with asyncio.timeout(30):
        while not await done():  # noqa: ASYNC110 - a table cannot say when it has changed
            await asyncio.sleep(0.01)


async def test_what_stateless_runs_leave_is_deleted_soon_and_nothing_else(saver):
    stays, *goes = await keep(saver, 4)
    left = Leftovers(saver)
    for thread_id in goes:
        left.add(thread_id)
    assert await threads_of(saver) == {stays, *goes}

    async def gone():
        return await threads_of(saver) == {stays}

    await until(gone)
    await left.close()


async def test_what_waits_when_a_server_stops_is_deleted_before_it_has(saver, monkeypatch):
    monkeypatch.setattr(leftovers, "_EVERY", 60)
    goes = await keep(saver, 3)
    left = Leftovers(saver)
    for thread_id in goes:
        left.add(thread_id)
    await asyncio.sleep(0)
    await left.close()
    assert await threads_of(saver) == set()


async def test_more_than_a_batch_is_deleted_in_several(saver, monkeypatch):
    monkeypatch.setattr(leftovers, "_EVERY", 0.01)
    monkeypatch.setattr(leftovers, "_MOST", 2)
    left = Leftovers(saver)
    for thread_id in await keep(saver, 5):
        left.add(thread_id)
    await left.close()
    assert await threads_of(saver) == set()


async def test_one_that_fails_is_told_of_and_does_not_stop_the_next(caplog, saver, monkeypatch):
    monkeypatch.setattr(leftovers, "_EVERY", 0.01)
    delete = leftovers.delete_thread
    failures = [OSError("the disk is full")]

    async def failing(saver, *thread_ids):
        if failures:
            raise failures.pop()
        await delete(saver, *thread_ids)

    monkeypatch.setattr(leftovers, "delete_thread", failing)
    first, second = await keep(saver, 2)
    left = Leftovers(saver)
    left.add(first)

    async def tried():
        return not failures

    await until(tried)
    left.add(second)
    await left.close()
    assert await threads_of(saver) == {first}
    assert "1 stateless runs stay behind" in caplog.text


async def test_nothing_to_delete_is_nothing_to_wait_for(saver):
    await Leftovers(saver).close()
