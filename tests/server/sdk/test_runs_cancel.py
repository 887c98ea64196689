"""How runs are stopped, one or many, kept or undone."""

import uuid

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from .support import collect, eventually, names_of, over, running


@pytest.fixture
async def busy(client, thread):
    """A run that would take minutes, and is being executed."""
    run = await client.runs.create(thread, "slow", input={"seconds": 120})
    await running(client, run)
    return run


async def test_a_cancelled_run_ends_as_interrupted(client, thread, busy):
    assert await client.runs.cancel(thread, busy["run_id"]) is None
    run = await over(client, busy)
    assert run["status"] == "interrupted"


async def test_cancelling_can_wait_for_the_end(client, thread, busy):
    await client.runs.cancel(thread, busy["run_id"], wait=True)
    assert (await client.runs.get(thread, busy["run_id"]))["status"] == "interrupted"


async def test_a_thread_says_whether_a_cancelled_run_left_work_to_do(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 120})

    async def begun():
        return (await client.threads.get_state(thread))["next"] == ["lap"]

    await eventually(begun, "the first step")
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.threads.get(thread))["status"] == "interrupted"


async def test_what_was_done_before_is_kept(client, thread):
    run = await client.runs.create(thread, "slow", input={"seconds": 0.1, "laps": 500})

    async def laps():
        return len((await client.threads.get_state(thread))["values"].get("done", [])) >= 2

    await eventually(laps, "two laps")
    await client.runs.cancel(thread, run["run_id"], wait=True, action="interrupt")
    assert len((await client.threads.get_state(thread))["values"]["done"]) >= 2
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def test_rolling_back_leaves_nothing_of_the_run(client, thread):
    await client.runs.wait(thread, "slow", input={"seconds": 0, "laps": 1})
    before = await client.threads.get_state(thread)
    run = await client.runs.create(thread, "slow", input={"seconds": 0.1, "laps": 500})

    async def laps():
        return len((await client.threads.get_state(thread))["values"]["done"]) >= 3

    await eventually(laps, "two laps more")
    await client.runs.cancel(thread, run["run_id"], wait=True, action="rollback")
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, run["run_id"])
    after = await client.threads.get_state(thread)
    assert after["values"] == before["values"]
    assert after["checkpoint"] == before["checkpoint"]
    thread_now = await client.threads.get(thread)
    assert (thread_now["status"], thread_now["values"]) == ("idle", before["values"])


async def test_a_pending_run_ends_at_once(client, thread):
    late = await client.runs.create(thread, "echo", input={"text": "a"}, after_seconds=600)
    await client.runs.cancel(thread, late["run_id"])
    run = await over(client, late)
    assert run["status"] == "interrupted"
    assert (await client.threads.get(thread))["status"] == "idle"
    assert not (await client.threads.get_state(thread))["values"]


async def test_a_pending_run_can_be_rolled_back(client, thread):
    late = await client.runs.create(thread, "echo", input={"text": "a"}, after_seconds=600)
    await client.runs.cancel(thread, late["run_id"], action="rollback", wait=True)
    assert await client.runs.list(thread) == []


async def test_cancelling_twice_is_the_same_as_once(client, thread, busy):
    await client.runs.cancel(thread, busy["run_id"])
    try:
        await client.runs.cancel(thread, busy["run_id"])
    except ConflictError:
        assert (await client.runs.get(thread, busy["run_id"]))["status"] == "interrupted"
    assert (await over(client, busy))["status"] == "interrupted"


async def test_a_run_that_is_over_cannot_be_cancelled(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    with pytest.raises(ConflictError):
        await client.runs.cancel(thread, run["run_id"])
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


async def test_a_run_of_another_thread_is_not_found(client, busy):
    other = (await client.threads.create())["thread_id"]
    with pytest.raises(NotFoundError):
        await client.runs.cancel(other, busy["run_id"])
    await client.runs.cancel(busy["thread_id"], busy["run_id"], wait=True)


async def test_an_unknown_action_is_refused(client, busy):
    with pytest.raises(UnprocessableEntityError):
        await client.runs.cancel(busy["thread_id"], busy["run_id"], action="explode")
    await client.runs.cancel(busy["thread_id"], busy["run_id"], wait=True)


async def test_those_who_wait_and_listen_are_told(client, thread, busy):
    await client.runs.cancel(thread, busy["run_id"], wait=True)
    await client.runs.join(thread, busy["run_id"])
    parts = await collect(client.runs.join_stream(thread, busy["run_id"], last_event_id="-1"))
    assert "error" not in names_of(parts)


async def test_a_blocking_node_is_waited_for(client, thread):
    run = await client.runs.create(thread, "blocking", input={"seconds": 1, "laps": 100})
    await running(client, run)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def test_many_are_cancelled_by_their_ids(client, thread):
    runs = [await client.runs.create(thread, "slow", input={"seconds": 120}) for _ in range(3)]
    ids = [run["run_id"] for run in runs]
    answer = await client.runs.cancel_many(
        thread_id=thread, run_ids=[ids[0], ids[2], str(uuid.uuid4())]
    )
    assert answer is None
    for place in (0, 2):
        assert (await over(client, runs[place]))["status"] == "interrupted"
    await running(client, runs[1])
    await client.runs.cancel_many(thread_id=thread, run_ids=[ids[1]], action="rollback")

    async def two_left():
        return len(await client.runs.list(thread)) == 2

    await eventually(two_left, "a run that is rolled back")


@pytest.mark.parametrize(("status", "ended"), [("pending", {1}), ("running", {0}), ("all", {0, 1})])
async def test_many_are_cancelled_by_their_status(client, thread, status, ended):
    runs = [
        await client.runs.create(thread, "slow", input={"seconds": 120}),
        await client.runs.create(thread, "slow", input={"seconds": 120}),
    ]
    await running(client, runs[0])
    await client.runs.cancel_many(status=status)
    for place in ended:
        assert (await over(client, runs[place]))["status"] == "interrupted"
    for place in {0, 1} - ended:
        now = await client.runs.get(thread, runs[place]["run_id"])
        assert now["status"] in {"pending", "running"}
    await client.runs.cancel_many(status="all")


async def test_runs_that_are_over_are_left_alone(client, thread):
    run = await over(client, await client.runs.create(thread, "echo", input={"text": "hi"}))
    await client.runs.cancel_many(thread_id=thread, run_ids=[run["run_id"]], action="rollback")
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"


@pytest.mark.parametrize(
    "wrong", [{}, {"status": "all", "run_ids": [str(uuid.uuid4())]}, {"status": "success"}]
)
async def test_it_must_be_clear_which_ones_are_meant(client, thread, wrong):
    chosen = {"thread_id": thread, **wrong} if "run_ids" in wrong else wrong
    with pytest.raises(UnprocessableEntityError):
        await client.runs.cancel_many(**chosen)


async def test_runs_of_an_unknown_thread_are_not_found(client):
    with pytest.raises(NotFoundError):
        await client.runs.cancel_many(thread_id=str(uuid.uuid4()), run_ids=[str(uuid.uuid4())])


async def test_a_run_under_way_cannot_be_deleted(client, thread, busy):
    with pytest.raises(ConflictError):
        await client.runs.delete(thread, busy["run_id"])
    await client.runs.cancel(thread, busy["run_id"], wait=True)
    await client.runs.delete(thread, busy["run_id"])
