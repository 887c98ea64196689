"""What happens to a run that comes while another of its thread is under way."""

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError

from .support import eventually, over, running


@pytest.fixture
async def busy(client, thread):
    """A run that would take a minute, and is being executed."""
    run = await client.runs.create(thread, "slow", input={"seconds": 60})
    await running(client, run)
    yield run
    await client.runs.cancel_many(status="all")


async def test_a_busy_thread_rejects_a_run_that_wants_to_be_rejected(client, thread, busy):
    with pytest.raises(ConflictError) as refused:
        await client.runs.create(thread, "echo", input={"text": "x"}, multitask_strategy="reject")
    assert thread in refused.value.message
    assert [run["run_id"] for run in await client.runs.list(thread)] == [busy["run_id"]]


async def test_a_thread_whose_run_only_waits_is_busy_too(client, thread):
    late = await client.runs.create(thread, "echo", input={"text": "a"}, after_seconds=60)
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "echo", input={"text": "b"}, multitask_strategy="reject")
    await client.runs.cancel(thread, late["run_id"], wait=True)
    run = await client.runs.create(thread, "echo", input={"text": "c"}, multitask_strategy="reject")
    assert (await over(client, run))["status"] == "success"


async def test_runs_wait_for_one_another_unless_said(client, thread):
    runs = [
        await client.runs.create(thread, "echo", input={"text": str(n)}, **strategy)
        for n, strategy in enumerate([{}, {"multitask_strategy": "enqueue"}, {}])
    ]
    for run in runs:
        assert (await over(client, run))["status"] == "success"
    assert (await client.threads.get(thread))["values"]["log"] == ["0", "1", "2"]


async def test_a_queued_run_is_pending_until_its_turn(client, thread, busy):
    queued = await client.runs.create(thread, "slow", input={"seconds": 0})
    assert (await client.runs.get(thread, queued["run_id"]))["status"] == "pending"
    await client.runs.cancel(thread, busy["run_id"])
    assert (await over(client, queued))["status"] == "success"
    assert (await over(client, busy))["status"] == "interrupted"


async def test_an_interrupting_run_stops_the_one_before_and_keeps_its_work(client, thread):
    first = await client.runs.create(thread, "slow", input={"seconds": 0.2, "laps": 500})

    async def one_lap():
        return len((await client.threads.get_state(thread))["values"].get("done", [])) > 0

    await eventually(one_lap, "a lap")
    second = await client.runs.create(
        thread, "slow", input={"seconds": 0, "laps": 1}, multitask_strategy="interrupt"
    )
    assert second["multitask_strategy"] == "interrupt"
    assert (await over(client, second))["status"] == "success"
    assert (await over(client, first))["status"] == "interrupted"
    done = (await client.threads.get(thread))["values"]["done"]
    assert done == [*range(1, len(done) + 1)]
    assert len(done) >= 2


async def test_a_run_that_rolls_back_undoes_the_one_before(client, thread):
    await client.runs.wait(thread, "slow", input={"seconds": 0, "laps": 1})
    first = await client.runs.create(thread, "slow", input={"seconds": 0.2, "laps": 500})

    async def two_laps():
        return len((await client.threads.get_state(thread))["values"].get("done", [])) > 1

    await eventually(two_laps, "a lap of the second run")
    second = await client.runs.create(
        thread, "slow", input={"seconds": 0, "laps": 2}, multitask_strategy="rollback"
    )
    assert (await over(client, second))["status"] == "success"
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, first["run_id"])
    assert (await client.threads.get(thread))["values"]["done"] == [1, 2]


async def test_interrupting_an_idle_thread_is_only_running(client, thread):
    for strategy in ("interrupt", "rollback", "reject", "enqueue"):
        result = await client.runs.wait(
            thread, "echo", input={"text": strategy}, multitask_strategy=strategy
        )
        assert result["answer"] == strategy


async def test_interrupting_also_ends_what_is_queued(client, thread, busy):
    queued = await client.runs.create(thread, "slow", input={"seconds": 60})
    last = await client.runs.create(
        thread, "slow", input={"seconds": 0}, multitask_strategy="interrupt"
    )
    assert (await over(client, last))["status"] == "success"
    assert (await over(client, busy))["status"] == "interrupted"
    assert (await over(client, queued))["status"] == "interrupted"
