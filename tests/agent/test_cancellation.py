"""A cancellation from outside goes through, and leaves everything in order."""

import asyncio
import gc
from contextlib import suppress

import pytest

from checkrail import AssistantMessage, Continue, Fail, ToolCall
from checkrail.agent import RunFailed

POINTS = (
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def waiting_at(started):
    async def wait(*_):
        started.set()
        await asyncio.sleep(10)

    return wait


async def test_a_run_can_be_cancelled_while_the_model_thinks(make, hooks, witness):
    started = asyncio.Event()
    task = asyncio.create_task(make(waiting_at(started), hooks=hooks).run("hello"))
    await started.wait()
    await cancelled(task)
    assert (witness.end.stop_reason, witness.end.error) == ("cancelled", "the run was cancelled")
    assert witness.end.messages == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("number", [1, 3])
async def test_a_run_can_be_cancelled_while_tools_work(make, hooks, witness, calls, number):
    started, ended = asyncio.Event(), []

    async def work() -> None:
        try:
            started.set()
            await asyncio.sleep(10)
        finally:
            ended.append(1)

    answer = calls(*((f"{n}", "work") for n in range(number)))
    task = asyncio.create_task(make(answer, hooks=hooks, tools=[work]).run("hello"))
    await started.wait()
    await cancelled(task)
    assert len(ended) == number
    assert witness.end.stop_reason == "cancelled"
    results = [message for message in witness.end.messages if message["role"] == "tool"]
    assert [result["is_error"] for result in results] == [True] * number
    assert results[0]["content"] == "the run ended before this call had a result"
    assert witness.end.usage["total_tokens"] > 0


@pytest.mark.parametrize("point", POINTS)
async def test_a_run_can_be_cancelled_while_a_hook_works(make, hooks, witness, tools, point):
    started = asyncio.Event()
    hooks.hook(point)(waiting_at(started))
    tool = "broken" if point == "on_tool_error" else "echo"
    task = asyncio.create_task(
        make(ToolCall("1", tool), "hi", hooks=hooks, tools=tools).run("hello")
    )
    await started.wait()
    await cancelled(task)
    assert witness.end.stop_reason == "cancelled"


async def test_query_end_hooks_may_take_their_time_although_the_run_was_cancelled(make, hooks):
    started, kept = asyncio.Event(), []

    @hooks.query_end
    async def write_down(event, response):
        await asyncio.sleep(0.01)
        kept.append(response.stop_reason)
        return Continue("changed, for nobody to see")

    task = asyncio.create_task(make(waiting_at(started), hooks=hooks).run("hello"))
    await started.wait()
    await cancelled(task)
    assert kept == ["cancelled"]


async def test_a_second_cancellation_ends_the_query_end_hooks_too(make, hooks):
    started, ending = asyncio.Event(), asyncio.Event()
    hooks.query_end(waiting_at(ending))
    task = asyncio.create_task(make(waiting_at(started), hooks=hooks).run("hello"))
    await started.wait()
    task.cancel()
    await ending.wait()
    await cancelled(task)


async def test_cancelled_at_any_moment_a_run_leaves_a_valid_conversation_and_ends_once(
    make, hooks, witness, calls, tools
):
    for point in (*POINTS, "query_end"):
        hooks.hook(point)(lambda event: asyncio.sleep(0))

    async def think(request):
        await asyncio.sleep(0)
        if len(request.messages) > 1:
            return "hi"
        return calls(("1", "echo"), ("2", "broken"))

    ends = set()
    for moment in range(1, 60):
        witness.events.clear()
        conversation = make(think, hooks=hooks, tools=tools).conversation()
        task = asyncio.create_task(conversation.run("hello"))
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert len(witness.at("query_end")) <= 1
        if "query_end" not in witness.points:  # it was cut off by the cancellation itself
            assert witness.points[-1:] in (["before_final_response"], [])
        ends.add(witness.end.stop_reason if witness.at("query_end") else None)
    assert {"cancelled", "answer"} <= ends


async def test_a_timeout_of_the_caller_goes_through(make, hooks, witness):
    async def hang(request):
        await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(make(hang, hooks=hooks).run("hello"), 0.05)
    assert witness.end.stop_reason == "cancelled"


async def test_cancelling_a_run_cancels_the_agents_beneath_it(make, hooks, witness):
    started = asyncio.Event()
    inner = make(waiting_at(started), name="inner")
    outer = make(ToolCall("1", "inner", {"query": "go"}), hooks=hooks, tools=[inner])
    task = asyncio.create_task(outer.run("hello"))
    await started.wait()
    await cancelled(task)
    ends = witness.at("query_end")
    assert [(event.agent_name, event.value.stop_reason) for event in ends] == [
        ("inner", "cancelled"),
        ("agent", "cancelled"),
    ]


@pytest.mark.parametrize("moment", ["at once", "one after the other"])
async def test_several_calls_that_fail_leave_no_exception_behind(make, hooks, calls, moment):
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, told: unheard.append(told))
    hooks.after_tool_call(lambda event: Fail("no"))

    async def work(seconds: float = 0) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)

    late = {"seconds": 0 if moment == "at once" else 10}
    agent = make(calls(("1", "work"), ("2", "work", late)), hooks=hooks, tools=[work])
    with suppress(RunFailed):
        await agent.run("hello")
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []


async def test_background_observers_outlive_a_cancelled_run_and_are_waited_for_at_the_end(
    make, hooks
):
    started, seen = asyncio.Event(), []

    @hooks.query_end(background=True)
    async def report(event, response):
        await asyncio.sleep(0.01)
        seen.append(response.stop_reason)

    agent = make(waiting_at(started), hooks=hooks)
    async with agent:
        task = asyncio.create_task(agent.run("hello"))
        await started.wait()
        await cancelled(task)
        assert seen == []
    assert seen == ["cancelled"]


async def test_a_run_leaves_no_task_behind(make, hooks, calls, tools):
    hooks.before_tool_call(lambda event: asyncio.sleep(0))
    before = asyncio.all_tasks()
    await make(
        calls(("1", "echo"), ("2", "broken")), AssistantMessage("hi"), hooks=hooks, tools=tools
    ).run("hello")
    assert asyncio.all_tasks() == before
