"""The way in: what is kept when a run is asked for, and what is refused."""

import asyncio
import time

import pytest

from checkrail.engine.values import User
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError, TooManyError
from checkrail.store import assistants, idempotency, runs
from checkrail.store.assistants import Assistant
from checkrail.store.idempotency import StoredRequest

from .support import ADA, Gate, chain, say, until

BOB = Principal(User("bob"), owner="bob")


@pytest.fixture
async def served(world):
    return await world.open({"say": chain(say)})


def wanted(agent="say", **more):
    return RunRequest(assistant_id=agent, **more)


async def all_runs(served):
    return await served.read(lambda reads: runs.search(reads, limit=1000))


async def test_a_run_says_who_asked_for_what(served):
    thread = await served.thread()
    row = await served.run(
        "say", {"text": "x"}, thread, metadata={"tag": "t"}, config={"tags": ["a"]}
    )
    kept = await served.row(row)
    assert (kept.owner, kept.user["email"]) == ("ada", "ada@example.com")
    assert (kept.agent_name, kept.thread_id) == ("say", thread)
    ids = {"created_by": "system", "graph_id": "say", "assistant_id": kept.assistant_id}
    assert (kept.metadata, kept.input) == ({"tag": "t", **ids}, {"text": "x"})
    assert (kept.kwargs["config"], kept.origin) == ({"tags": ["a"]}, "api")


async def test_an_assistant_brings_its_config_and_what_a_request_says_goes_over_it(served):
    row = Assistant(
        assistant_id="5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b12",
        graph_id="say",
        name="mine",
        config={"configurable": {"a": 1, "b": 1}, "tags": ["own"]},
        context={"tone": "plain"},
        metadata={"team": "x"},
        version=1,
        created_at=time.time(),
        updated_at=time.time(),
    )
    await served.write(lambda tx: assistants.add(tx, row))
    made = await served.admit(
        row.assistant_id, {"text": "x"}, config={"configurable": {"b": 2}}, metadata={"k": "v"}
    )
    assert made.kwargs["config"] == {"configurable": {"a": 1, "b": 2}, "tags": ["own"]}
    assert made.kwargs["context"] == {"tone": "plain", "b": 2}
    ids = {"graph_id": "say", "assistant_id": row.assistant_id}
    assert made.metadata == {"team": "x", "k": "v", **ids}


async def test_an_unknown_assistant_is_not_found(served):
    with pytest.raises(NotFoundError, match="assistant 'nobody' not found"):
        await served.admit("nobody")


async def test_an_unknown_thread_is_not_found_unless_it_may_be_made(served):
    thread = "5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11"
    with pytest.raises(NotFoundError, match=r"thread '.*' not found"):
        await served.admit("say", {"text": "x"}, thread)
    await served.run("say", {"text": "x"}, thread, if_not_exists="create", metadata={"k": "v"})
    made = await served.thread_row(thread)
    assert (made.owner, made.metadata["k"]) == ("ada", "v")


async def test_somebody_elses_thread_is_not_found(served):
    thread = await served.thread()
    for again in ("reject", "create"):
        request = wanted(thread_id=thread, input={}, if_not_exists=again)
        with pytest.raises(NotFoundError):
            await served.service.admit([request], BOB)
    assert await all_runs(served) == []


async def test_of_a_batch_all_are_kept_or_none(served):
    good = wanted(input={"text": "x"})
    with pytest.raises(NotFoundError):
        await served.service.admit([good, wanted("nobody"), good], ADA)
    assert await all_runs(served) == []
    rows = await served.service.admit([good, good, good], ADA)
    assert {(await served.over(row)).status for row in rows} == {"success"}


async def test_of_a_batch_with_a_run_that_its_thread_rejects_none_is_kept(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(), "say": chain(say)})
    thread = await served.thread()
    held = await served.admit("slow", {}, thread)
    others = [wanted(input={}), wanted(thread_id=thread, input={}, multitask_strategy="reject")]
    with pytest.raises(ConflictError):
        await served.service.admit(others, ADA)
    assert [row.run_id for row in await all_runs(served)] == [held.run_id]
    gate.open.set()
    await served.over(held)


async def test_the_same_key_and_body_give_the_same_run(served):
    once = Idempotency("key", "/runs", "digest")
    first = await served.admit("say", {"text": "x"}, once=once)
    again = await served.admit("say", {"text": "x"}, once=once)
    assert again.run_id == first.run_id
    assert len(await all_runs(served)) == 1


async def test_a_key_counts_for_one_user_and_one_route(served):
    once = Idempotency("key", "/runs", "digest")
    rows = [await served.admit("say", {}, once=once)]
    rows.append(await served.admit("say", {}, once=Idempotency("key", "/runs/wait", "digest")))
    rows += await served.service.admit([wanted(input={})], Principal(User("bob")), once)
    assert len({row.run_id for row in rows}) == 3


async def test_a_key_with_another_body_is_refused(served):
    await served.admit("say", {}, once=Idempotency("key", "/runs", "digest"))
    with pytest.raises(InvalidError, match="'key' was used with another body"):
        await served.admit("say", {}, once=Idempotency("key", "/runs", "other"))


async def test_a_key_is_forgotten_after_a_day(served):
    old = StoredRequest("ada", "/runs", "key", "other", ["gone"], time.time() - 86_401)
    await served.write(lambda tx: idempotency.add(tx, old))
    once = Idempotency("key", "/runs", "digest")
    first = await served.admit("say", {}, once=once)
    assert (await served.admit("say", {}, once=once)).run_id == first.run_id


async def test_a_key_whose_run_is_gone_says_so(served):
    once = Idempotency("key", "/runs", "digest")
    row = await served.run("say", {}, once=once)
    await served.write(lambda tx: runs.remove(tx, [row.run_id]))
    with pytest.raises(ConflictError, match=r"'key'.*removed"):
        await served.admit("say", {}, once=once)


async def test_the_same_request_at_once_runs_once(served):
    once = Idempotency("key", "/runs", "digest")
    rows = await asyncio.gather(*(served.admit("say", {}, once=once) for _ in range(10)))
    assert len({row.run_id for row in rows}) == 1
    assert len(await all_runs(served)) == 1


async def test_the_same_request_to_two_servers_at_once_runs_once(postgres_world):
    servers = [await postgres_world.open({"say": chain(say)}) for _ in range(2)]
    for number in range(20):
        once = Idempotency(f"key {number}", "/runs", "digest")
        rows = await asyncio.gather(*(each.admit("say", {}, once=once) for each in servers))
        assert len({row.run_id for row in rows}) == 1


async def test_a_run_that_is_scheduled_waits_for_its_time(served):
    thread = await served.thread()
    row = await served.admit("say", {"text": "x"}, thread, after_seconds=0.4)
    assert (row.status, row.phase) == ("pending", "scheduled")
    assert (await served.thread_row(thread)).status == "idle"
    ended = await served.over(row)
    assert ended.status == "success"
    assert ended.started_at >= row.created_at + 0.4


async def test_a_scheduled_run_does_not_hold_up_those_that_come_before_it(served):
    thread = await served.thread()
    later = await served.admit("say", {"text": "later"}, thread, after_seconds=0.5)
    now = await served.run("say", {"text": "now"}, thread)
    assert now.output["said"] == ["now"]
    assert (await served.over(later)).output["said"] == ["now", "later"]


async def test_a_scheduled_run_whose_thread_is_busy_waits_for_it_too(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(), "say": chain(say)})
    thread = await served.thread()
    later = await served.admit("say", {"text": "later"}, thread, after_seconds=0.1)
    held = await served.admit("slow", {"text": "held"}, thread)

    async def queued():
        return (await served.row(later)).phase == "queued"

    await until(queued)
    gate.open.set()
    await served.over(held)
    assert (await served.over(later)).output["said"] == ["held passed", "later"]


async def test_too_many_runs_that_wait_for_a_thread_are_refused(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, queued_per_thread=2)
    thread = await served.thread()
    rows = [await served.admit("slow", {}, thread) for _ in range(3)]
    with pytest.raises(TooManyError, match="2 runs wait"):
        await served.admit("slow", {}, thread)
    gate.open.set()
    for row in rows:
        await served.over(row)


async def test_whoever_stops_waiting_for_admission_does_not_leave_its_run_lying(served):
    task = asyncio.create_task(served.admit("say", {"text": "x"}, await served.thread()))

    async def kept():
        return await all_runs(served)

    while not task.done() and not await kept():
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    rows = await kept()
    for row in rows:
        assert (await served.over(row)).status == "success"
