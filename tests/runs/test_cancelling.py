"""Cancelling runs, in every phase of their lives."""

import asyncio

import pytest

from checkrail.runs.errors import NotFoundError
from checkrail.runs.graphs.fences import StaleRunError
from checkrail.store import runs

from .support import Gate, chain, say, until

GONE = "5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11"


@pytest.fixture
async def gate():
    return Gate()


def watching(told):
    async def watch(event):
        told.append((event.run_id, event.value.error_type))

    return watch, "on_run_error"


async def stopped(served, row, action="interrupt"):
    await served.service.cancel(row.run_id, action, "enough")
    return await served.over(row)


async def test_an_unknown_run_cannot_be_cancelled(world):
    served = await world.open({"say": chain(say)})
    with pytest.raises(NotFoundError):
        await served.service.cancel(GONE, "interrupt")


async def test_a_scheduled_run_ends_at_once_and_never_starts(world, gate):
    served = await world.open({"slow": gate.graph()})
    thread = await served.thread()
    row = await served.admit("slow", {}, thread, after_seconds=0.2)
    ended = await stopped(served, row)
    assert (ended.phase, ended.cancel_reason) == ("cancelled", "enough")
    await asyncio.sleep(0.3)
    assert gate.count == 0
    assert (await served.thread_row(thread)).status == "idle"


async def test_a_queued_run_ends_at_once_and_the_thread_stays_with_its_holder(world, gate):
    told = []
    served = await world.open({"slow": gate.graph()}, watching(told))
    thread = await served.thread()
    first = await served.admit("slow", {"text": "a"}, thread)
    second = await served.admit("slow", {"text": "b"}, thread)
    ended = await stopped(served, second)
    assert (ended.status, ended.phase, ended.started_at) == (
        "interrupted",
        "cancelled",
        None,
    )
    assert (await served.thread_row(thread)).status == "busy"
    gate.open.set()
    assert (await served.over(first)).output["said"] == ["a passed"]
    await served.settled(second)
    assert told == [(second.run_id, "CancelledError")]
    assert [event.event for event in await served.events(second)] == ["end"]


async def test_a_run_that_nobody_has_begun_with_ends_at_once_and_the_next_gets_the_thread(
    world, gate
):
    served = await world.open({"slow": gate.graph(), "say": chain(say)}, capacity=1)
    busy = await served.admit("slow", {})
    thread = await served.thread()
    first = await served.admit("say", {"text": "a"}, thread)
    second = await served.admit("say", {"text": "b"}, thread)
    assert (first.phase, second.phase) == ("ready", "queued")
    assert (await stopped(served, first)).phase == "cancelled"
    assert (await served.row(second)).phase in ("starting", "ready")
    gate.open.set()
    await served.over(busy)
    assert (await served.over(second)).output["said"] == ["b"]


async def test_a_run_whose_start_hook_thinks_ends_with_the_hook(world, gate):
    thinking = asyncio.Event()

    async def think(event):
        thinking.set()
        await asyncio.sleep(60)

    served = await world.open({"slow": gate.graph()}, (think, "on_run_start", {"timeout": 60}))
    row = await served.admit("slow", {}, await served.thread())
    await thinking.wait()
    ended = await stopped(served, row)
    assert (ended.phase, ended.error_type, gate.count) == ("cancelled", "CancelledError", 0)
    last = (await served.records(row))[-1]
    assert (last["event_type"], last["failure"]) == ("hook_failed", "cancelled")


async def test_a_run_under_way_ends_and_keeps_what_it_did(world, gate):
    served = await world.open({"slow": gate.graph(say)})
    thread = await served.thread()
    row = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    ended = await stopped(served, row)
    assert (ended.status, ended.phase, ended.unwound) == (
        "interrupted",
        "cancelled",
        True,
    )
    assert ended.output["said"] == ["a"]
    assert (await served.thread_row(thread)).values["said"] == ["a"]
    end = (await served.events(row))[-1]
    assert (end.event, end.data["phase"]) == ("end", "cancelled")


async def test_a_run_whose_result_is_being_ruled_on_ends(world, gate):
    thinking = asyncio.Event()

    async def think(event):
        thinking.set()
        await asyncio.sleep(60)

    served = await world.open({"say": chain(say)}, (think, "on_result", {"timeout": 60}))
    row = await served.admit("say", {"text": "a"}, await served.thread())
    await thinking.wait()
    assert (await stopped(served, row)).phase == "cancelled"


async def test_a_run_that_does_not_unwind_holds_its_thread_until_its_grace_is_over(world, gate):
    gate.stubborn = True
    served = await world.open({"slow": gate.graph(), "say": chain(say)}, cancel_grace=0.3)
    thread = await served.thread()
    row = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    following = await served.admit("say", {"text": "b"}, thread)
    await served.service.cancel(row.run_id, "interrupt")
    await asyncio.sleep(0.1)
    assert (await served.row(following)).phase == "queued"
    ended = await served.over(row)
    assert (ended.phase, ended.unwound) == ("cancelled", False)
    assert (await served.over(following)).status == "success"
    left_behind = [task for task in asyncio.all_tasks() if "Executor._run_body" in repr(task)]
    assert len(left_behind) == 1
    gate.open.set()
    await asyncio.wait(left_behind)
    assert isinstance(left_behind[0].exception(), StaleRunError)
    assert (await served.state("say", thread))["said"] == ["b"]  # and not what came too late


async def test_a_run_that_is_over_stays_as_it_is(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "a"}, await served.thread())
    assert (await served.service.cancel(row.run_id, "rollback")).status == "success"
    assert (await served.row(row)).status == "success"


async def test_cancelling_twice_ends_it_once_and_the_first_word_stands(world, gate):
    told = []
    served = await world.open({"slow": gate.graph(say)}, watching(told))
    thread = await served.thread()
    row = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    await asyncio.gather(*(served.service.cancel(row.run_id, "interrupt") for _ in range(5)))
    await served.service.cancel(row.run_id, "rollback")
    assert (await served.over(row)).phase == "cancelled"
    assert (await served.row(row)).phase == "cancelled"
    await served.settled(row)
    assert told == [(row.run_id, "CancelledError")]


async def test_a_rollback_of_a_run_that_was_handed_back_removes_what_it_left(world, gate):
    """Nobody works on it, but an earlier attempt has written checkpoints."""
    graphs = {"slow": gate.graph(say), "say": chain(say)}
    async with world.opened(graphs) as first:
        thread = await first.thread()
        await first.run("say", {"text": "before"}, thread)
        row = await first.admit("slow", {"text": "a"}, thread)
        await gate.entered.wait()
    async with world.opened(graphs, capacity=0) as second:
        assert (await second.row(row)).phase == "ready"
        await second.service.cancel(row.run_id, "rollback")
    third = await world.open(graphs)

    async def gone():
        return await third.row(row) is None

    await until(gone)
    assert gate.count == 1
    assert (await third.state("say", thread))["said"] == ["before"]
    assert (await third.thread_row(thread)).values["said"] == ["before"]


async def test_a_cancel_that_only_the_database_was_told_of_is_heard_with_the_next_beat(world, gate):
    served = await world.open({"slow": gate.graph()})
    row = await served.admit("slow", {})
    await gate.entered.wait()
    await served.write(lambda tx: runs.update_run(tx, row.run_id, cancel="interrupt"))
    assert (await served.over(row)).phase == "cancelled"


async def test_a_run_on_one_server_is_cancelled_through_another(postgres_world, gate):
    first = await postgres_world.open({"slow": gate.graph()})
    second = await postgres_world.open({"slow": gate.graph()}, capacity=0)
    row = await first.admit("slow", {})
    await gate.entered.wait()
    ended = await stopped(second, row)
    assert (ended.phase, gate.count) == ("cancelled", 1)
