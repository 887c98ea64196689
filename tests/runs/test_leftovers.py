"""The checkpoints of stateless runs: gone soon after, for many at once, and when a server stops."""

import asyncio
import sys
import uuid

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from checkrail.engine.containment import contain_tasks
from checkrail.engine.errors import CodeExited
from checkrail.runs.execute import worker
from checkrail.runs.execute.worker import CheckpointCleanup
from checkrail.runs.graphs import thread_rows


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
    left = CheckpointCleanup(saver)
    for thread_id in goes:
        left.add(thread_id)
    assert await threads_of(saver) == {stays, *goes}

    async def gone():
        return await threads_of(saver) == {stays}

    await until(gone)
    await left.close()


async def test_what_waits_when_a_server_stops_is_deleted_before_it_has(saver, monkeypatch):
    monkeypatch.setattr(worker, "_SWEEP_EVERY", 60)
    goes = await keep(saver, 3)
    left = CheckpointCleanup(saver)
    for thread_id in goes:
        left.add(thread_id)
    await asyncio.sleep(0)
    await left.close()
    assert await threads_of(saver) == set()


async def test_more_than_a_batch_is_deleted_in_several(saver, monkeypatch):
    monkeypatch.setattr(worker, "_SWEEP_EVERY", 0.01)
    monkeypatch.setattr(worker, "_MOST_SWEPT", 2)
    left = CheckpointCleanup(saver)
    for thread_id in await keep(saver, 5):
        left.add(thread_id)
    await left.close()
    assert await threads_of(saver) == set()


async def test_one_that_fails_is_told_of_and_does_not_stop_the_next(caplog, saver, monkeypatch):
    monkeypatch.setattr(worker, "_SWEEP_EVERY", 0.01)
    delete = worker.delete_thread
    failures = [OSError("the disk is full")]

    async def failing(saver, *thread_ids):
        if failures:
            raise failures.pop()
        await delete(saver, *thread_ids)

    monkeypatch.setattr(worker, "delete_thread", failing)
    first, second = await keep(saver, 2)
    left = CheckpointCleanup(saver)
    left.add(first)

    async def tried():
        return not failures

    await until(tried)
    left.add(second)
    await left.close()
    assert await threads_of(saver) == {first}
    assert "1 stateless runs stay behind" in caplog.text


class Exiting(InMemorySaver):
    """A project's own saver, which ends the process as long as `exits`."""

    exits = True

    async def adelete_thread(self, thread_id):
        if self.exits:
            sys.exit(3)
        await super().adelete_thread(thread_id)


async def test_a_saver_that_exits_is_told_of_and_does_not_stop_the_next(caplog, monkeypatch):
    monkeypatch.setattr(worker, "_SWEEP_EVERY", 0.01)
    contain_tasks()  # as in a server
    saver = Exiting()
    first, second = await keep(saver, 2)
    left = CheckpointCleanup(saver)
    left.add(first)

    async def tried():
        return "1 stateless runs stay behind" in caplog.text

    await until(tried)
    saver.exits = False
    left.add(second)
    await left.close()
    assert await threads_of(saver) == {first}


@pytest.mark.parametrize("act", ["delete_thread", "copy_thread", "prune_threads"])
async def test_what_a_saver_raises_is_an_ordinary_error(act):
    class Own(Exiting):
        async def acopy_thread(self, source, target):
            sys.exit(3)

        async def aprune(self, thread_ids, *, strategy):
            sys.exit(3)

    given = {"copy_thread": ("a", "b"), "prune_threads": (["a"],)}.get(act, ("a",))
    with pytest.raises(CodeExited, match=r"sys.exit\(3\)"):
        await getattr(thread_rows, act)(Own(), *given)


async def test_nothing_to_delete_is_nothing_to_wait_for(saver):
    await CheckpointCleanup(saver).close()
