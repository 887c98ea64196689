"""Tools and models that swallow a cancellation, or make one of their own."""

import asyncio
import contextvars
from contextlib import suppress

import pytest

from checkrail import ToolCall, tool
from checkrail.agent import RunFailed


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_a_tool_that_swallows_the_cancellation_does_not_keep_the_run_going(
    *, make, hooks, witness, calls, number, how
):
    started = asyncio.Event()

    async def stubborn() -> str:
        try:
            started.set()
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            if how == "raises":
                raise ValueError("interrupted") from None
        return "never mind"

    agent = make(
        calls(*((f"{n}", "stubborn") for n in range(number))), "hi", hooks=hooks, tools=[stubborn]
    )
    task = asyncio.create_task(agent.run("hello"))
    await started.wait()
    await cancelled(task)
    assert witness.end.stop_reason == "cancelled"
    assert len(agent.model.requests) == 1


@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_a_model_that_swallows_the_cancellation_does_not_keep_the_run_going(
    make, hooks, witness, how
):
    started = asyncio.Event()

    async def stubborn(request):
        try:
            started.set()
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            if how == "raises":
                raise ConnectionError("interrupted") from None
        return "never mind"

    task = asyncio.create_task(make(stubborn, hooks=hooks).run("hello"))
    await started.wait()
    await cancelled(task)
    assert witness.end.stop_reason == "cancelled"


@pytest.fixture
async def forever(monkeypatch):
    """Something that swallows every cancellation until the test is over, and says it has begun."""
    monkeypatch.setattr("checkrail.llm.timeouts.GRACE", 0.05)
    released = asyncio.Event()

    async def work(*_) -> None:
        work.started.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    work.started = asyncio.Event()
    yield work
    released.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("which", ["model", "one tool", "two tools"])
async def test_what_will_not_end_is_left_behind(
    *, make, hooks, witness, calls, caplog, forever, which
):
    async def endless() -> None:
        await forever()

    number = 2 if which == "two tools" else 1
    answer = calls(*((f"{n}", "endless") for n in range(number)))
    reply = forever if which == "model" else answer
    task = asyncio.create_task(make(reply, hooks=hooks, tools=[endless]).run("hello"))
    await forever.started.wait()
    async with asyncio.timeout(5):
        await cancelled(task)
    assert witness.end.stop_reason == "cancelled"
    assert "goes on although nobody waits for it any more" in caplog.text


async def test_a_tool_whose_time_is_over_and_that_will_not_end_does_not_keep_the_run(
    make, caplog, forever
):
    async def hang() -> None:
        await forever()

    agent = make(ToolCall("1", "hang"), "hi", tools=[tool(timeout=0.05)(hang)])
    async with asyncio.timeout(5):
        response = await agent.run("hello")
    assert response.messages[2]["content"] == "hang timed out after 0.05 s"
    assert "goes on although nobody waits for it any more" in caplog.text


async def test_a_cancellation_within_a_tool_is_only_an_error_of_the_tool(make, hooks, witness):
    async def await_a_lost_cause() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    call = ToolCall("1", "await_a_lost_cause")
    response = await make(call, "hi", hooks=hooks, tools=[await_a_lost_cause]).run("hello")
    assert response.content == "hi"
    assert response.messages[2]["content"] == "await_a_lost_cause was cancelled from within"


async def test_an_agent_runs_in_the_clean_up_of_a_cancelled_task_as_ever(make):
    async def await_a_lost_cause() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    agent = make(ToolCall("1", "await_a_lost_cause"), "hi", tools=[await_a_lost_cause])
    responses = []

    async def work():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            responses.append(await agent.run("say goodbye"))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancelled(task)
    assert [response.content for response in responses] == ["hi"]


async def group_that_fails(moment):
    async def fail():
        await asyncio.sleep(0)
        raise ValueError("bad")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        if moment == "within":
            await asyncio.sleep(10)


@pytest.mark.parametrize("moment", ["within", "leaving"])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_task_group_that_fails_in_a_tool_is_an_error_of_the_tool(
    make, calls, moment, number
):
    async def work() -> None:
        await group_that_fails(moment)

    answer = calls(*((f"{n}", "work") for n in range(number)))
    response = await make(answer, "hi", tools=[work]).run("hello")
    told = [message["content"] for message in response.messages if message["role"] == "tool"]
    assert all(text.startswith("ExceptionGroup: unhandled errors") for text in told)
    assert response.content == "hi"


@pytest.mark.parametrize("moment", ["within", "leaving"])
async def test_a_task_group_that_fails_in_a_model_is_an_error_of_the_model(
    make, hooks, witness, moment
):
    with pytest.raises(RunFailed, match="failed with ExceptionGroup"):
        await make(lambda request: group_that_fails(moment), hooks=hooks).run("hello")
    assert witness.end.stop_reason == "error"


@pytest.mark.parametrize("moment", ["within", "leaving"])
async def test_who_recovers_from_a_task_group_that_failed_goes_on(make, moment):
    async def recover(*_) -> str:
        with suppress(ExceptionGroup):
            await group_that_fails(moment)
        return "recovered"

    async def reply(request):
        return await recover() if len(request.messages) > 1 else ToolCall("1", "recover")

    async def tool() -> str:
        return await recover()

    tool.__name__ = "recover"
    response = await make(reply, tools=[tool]).run("hello")
    assert [message["content"] for message in response.messages[2:]] == ["recovered"] * 2


async def test_a_run_that_is_dropped_from_another_context_ends_quietly(make):
    run = make(lambda request: asyncio.sleep(10)).run("hello")
    contextvars.copy_context().run(run.send, None)
    run.close()
