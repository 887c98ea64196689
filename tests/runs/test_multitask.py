"""What becomes of a thread's runs when another one is asked for."""

import asyncio
import itertools

import pytest

from checkrail.runs.errors import ConflictError, NotFoundError

from .support import Gate, chain, say, until

LAST_WORDS = {"status": "interrupted", "phase": "cancelled", "error": "the run was cancelled"}


@pytest.fixture
async def gate():
    return Gate()


@pytest.fixture
async def served(world, gate):
    return await world.open({"slow": gate.graph(say), "say": chain(say)})


@pytest.fixture
async def thread(served):
    thread = await served.thread()
    await served.run("say", {"text": "before"}, thread)
    return thread


async def test_reject_refuses_the_second_and_leaves_the_first_alone(served, gate, thread):
    first = await served.admit("slow", {"text": "a"}, thread)
    with pytest.raises(ConflictError, match=f"busy with the run {first.run_id}"):
        await served.admit("say", {"text": "b"}, thread, multitask_strategy="reject")
    gate.open.set()
    ended = await served.over(first)
    assert ended.output["said"] == ["before", "a", "a passed"]


async def test_reject_on_a_free_thread_runs(served, thread):
    ended = await served.run("say", {"text": "b"}, thread, multitask_strategy="reject")
    assert ended.output["said"] == ["before", "b"]


async def test_enqueued_runs_come_one_after_the_other_in_the_order_they_were_asked_for(
    served, gate, thread
):
    first = await served.admit("slow", {"text": "0"}, thread)
    rows = [await served.admit("say", {"text": str(n)}, thread) for n in range(1, 30)]
    assert {(row.status, row.phase) for row in rows} == {("pending", "queued")}
    gate.open.set()
    ended = [await served.over(row) for row in rows]
    assert ended[-1].output["said"] == ["before", "0", "0 passed", *map(str, range(1, 30))]
    starts = [row.started_at for row in [await served.over(first), *ended]]
    assert starts == sorted(starts)


async def test_a_thread_stays_busy_until_the_last_of_its_runs_is_over(served, gate, thread):
    await served.admit("slow", {"text": "a"}, thread)
    last = await served.admit("say", {"text": "b"}, thread)
    assert (await served.thread_row(thread)).status == "busy"
    gate.open.set()
    await served.over(last)
    assert (await served.thread_row(thread)).status == "idle"


async def test_interrupt_ends_the_first_and_keeps_what_it_did(served, gate, thread):
    first = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    second = await served.admit("say", {"text": "b"}, thread, multitask_strategy="interrupt")
    ended = await served.over(first)
    assert (ended.status, ended.phase) == ("interrupted", "cancelled")
    assert (await served.row(first)).cancel_reason == "another run took its place"
    assert (await served.over(second)).output["said"] == ["before", "a", "b"]


async def test_rollback_removes_the_first_and_puts_the_threads_state_back(served, gate, thread):
    first = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    second = await served.admit("say", {"text": "b"}, thread, multitask_strategy="rollback")
    assert (await served.over(second)).output == {"text": "b", "said": ["before", "b"]}
    assert await served.row(first) is None
    assert await served.events(first) == []
    assert (await served.thread_row(thread)).values["said"] == ["before", "b"]
    assert (await served.state("say", thread))["said"] == ["before", "b"]


async def test_rollback_of_the_only_run_leaves_the_thread_as_it_was(served, gate, thread):
    first = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    await served.service.cancel(first.run_id, "rollback")

    async def gone():
        return await served.row(first) is None

    await until(gone)
    left = await served.thread_row(thread)
    assert (left.status, left.values) == ("idle", {"text": "before", "said": ["before"]})
    assert await served.state("say", thread) == {"text": "before", "said": ["before"]}


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_runs_that_waited_are_ended_too(served, gate, thread, strategy):
    first = await served.admit("slow", {"text": "a"}, thread)
    waiting = [await served.admit("say", {"text": "w"}, thread) for _ in range(3)]
    last = await served.admit("say", {"text": "b"}, thread, multitask_strategy=strategy)
    assert (await served.over(last)).output["said"][-1] == "b"
    for row in waiting:
        kept = await served.row(row)
        assert kept is None if strategy == "rollback" else kept.phase == "cancelled"
    said = (await served.over(last)).output["said"]
    assert "w" not in said
    assert gate.count <= 1
    assert first.run_id not in served.parts.live


async def test_a_scheduled_run_is_not_ended_by_one_that_takes_the_thread(served, gate, thread):
    later = await served.admit("say", {"text": "later"}, thread, after_seconds=0.4)
    await served.admit("slow", {"text": "a"}, thread)
    await served.run("say", {"text": "b"}, thread, multitask_strategy="interrupt")
    assert (await served.over(later)).status == "success"


async def test_a_waiter_of_a_run_that_was_rolled_back_while_queued_is_told(served, gate, thread):
    await served.admit("slow", {"text": "a"}, thread)
    queued = await served.admit("say", {"text": "w"}, thread)
    waiter = asyncio.create_task(served.over(queued))
    await asyncio.sleep(0.05)
    await served.admit("say", {"text": "b"}, thread, multitask_strategy="rollback")
    with pytest.raises(NotFoundError, match="rolled back"):
        await waiter


async def test_the_numbers_of_a_threads_events_go_on_from_run_to_run(served, gate, thread):
    """Also over runs that were cancelled before anybody began with them."""
    rows = [await served.run("say", {"text": str(n)}, thread) for n in range(3)]
    first = await served.admit("slow", {"text": "a"}, thread)
    await gate.entered.wait()
    last = await served.admit("say", {"text": "b"}, thread, multitask_strategy="interrupt")
    await served.over(last)
    kept = [await served.row(row) for row in [*rows, first, last]]
    for before, after in itertools.pairwise(kept):
        assert after.base_seq == before.base_seq + before.last_seq
    end = kept[-1].base_seq + kept[-1].last_seq
    assert (await served.thread_row(thread)).last_seq == end


async def test_a_run_that_takes_the_place_of_one_nobody_has_begun_numbers_after_it(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(), "say": chain(say)}, capacity=1)
    thread = await served.thread()
    busy = await served.admit("slow", {"text": "elsewhere"})
    await gate.entered.wait()
    first = await served.admit("say", {"text": "a"}, thread)
    assert (first.phase, first.worker_id) == ("ready", None)
    second = await served.admit("say", {"text": "b"}, thread, multitask_strategy="interrupt")
    one, two = await served.row(first), await served.row(second)
    assert one.phase == "cancelled"
    assert two.base_seq == one.base_seq + one.last_seq
    gate.open.set()
    await served.over(busy)
    assert (await served.over(second)).output["said"] == ["b"]


async def test_one_who_follows_a_thread_sees_every_run_of_it_in_order(served, gate, thread):
    rows = [await served.run("say", {"text": str(n)}, thread) for n in range(3)]
    seen = []
    async with asyncio.timeout(30):
        async for row, batch in served.service.follow_thread(thread, 0):
            ends = [event for event in batch if event.event == "end"]
            seen += [row.run_id for _ in ends]
            if rows[-1].run_id in seen:
                break
    assert seen[-3:] == [row.run_id for row in rows]
