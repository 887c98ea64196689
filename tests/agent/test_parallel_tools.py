"""Several tool calls in one answer: side by side, each with its own hooks, results in order."""

import asyncio
import dataclasses
import threading

import pytest

from checkrail import Block, Continue, Fail, Reject, Replace, ToolCall, tool
from checkrail.agent import RunFailed


def results(response):
    return [message["content"] for message in response.messages if message["role"] == "tool"]


def three(tool):
    return (("1", tool, {"n": 1}), ("2", tool, {"n": 2}), ("3", tool, {"n": 3}))


async def test_calls_run_side_by_side(make, calls):
    together = asyncio.Barrier(3)

    async def meet(n: int) -> str:
        async with asyncio.timeout(5):
            await together.wait()
        return f"met {n}"

    response = await make(calls(*three("meet")), "hi", tools=[meet]).run("hello")
    assert results(response) == ["met 1", "met 2", "met 3"]


async def test_sync_tools_run_side_by_side_too(make, calls):
    together = threading.Barrier(3)

    def meet(n: int) -> str:
        together.wait(5)
        return f"met {n}"

    response = await make(calls(*three("meet")), "hi", tools=[meet]).run("hello")
    assert results(response) == ["met 1", "met 2", "met 3"]


async def test_results_come_in_the_models_order_whatever_the_tools_took(make, calls):
    first_is_last = [asyncio.Event() for _ in range(4)]
    first_is_last[3].set()

    async def work(n: int) -> str:
        await first_is_last[n].wait()
        first_is_last[n - 1].set()
        return f"done {n}"

    agent = make(calls(*three("work")), "hi", tools=[work])
    assert results(await agent.run("hello")) == ["done 1", "done 2", "done 3"]
    sent = agent.model.requests[1].messages
    assert [message["tool_call_id"] for message in sent[2:]] == ["1", "2", "3"]


async def test_each_call_passes_its_own_points_with_its_own_id(make, hooks, witness, calls, tools):
    answer = calls(("1", "echo"), ("2", "broken"), ("3", "unknown"))
    await make(answer, "hi", hooks=hooks, tools=tools).run("hello")
    told = {
        call: [str(event.point) for event in witness.events if event.tool_call_id == call]
        for call in ("1", "2", "3")
    }
    around = ["before_tool_call", "after_tool_call"]
    assert told == {
        "1": around,
        "2": [*around, "on_tool_error"],
        "3": [*around, "on_tool_error"],
    }


async def test_hooks_of_one_call_do_not_wait_for_those_of_another(make, hooks, calls, tools):
    together = asyncio.Barrier(2)

    @hooks.before_tool_call
    async def meet(event):
        await together.wait()

    response = await make(calls(("1", "echo"), ("2", "echo")), "hi", hooks=hooks, tools=tools).run(
        "hello"
    )
    assert response.content == "hi"


async def test_each_call_is_decided_on_its_own(make, hooks, calls):
    ran = []

    async def act(n: int) -> str:
        ran.append(n)
        return f"did {n}"

    @hooks.before_tool_call
    async def decide(event, call):
        await asyncio.sleep(0)
        if call.args["n"] == 1:
            return Block("not this one")
        if call.args["n"] == 2:
            return Replace("as ever")
        return Continue(dataclasses.replace(call, args={"n": 30}))

    response = await make(calls(*three("act")), "hi", hooks=hooks, tools=[act]).run("hello")
    assert results(response) == ["not this one", "as ever", "did 30"]
    assert ran == [30]


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call"])
async def test_a_reject_raised_for_a_call_refuses_it(make, hooks, calls, point, number):
    async def act(n: int) -> str:
        return "secret"

    @hooks.hook(point)
    async def refuse(event):
        await asyncio.sleep(0)
        raise Reject("no")

    response = await make(calls(*three("act")[:number]), "hi", hooks=hooks, tools=[act]).run("x")
    assert results(response) == ["no"] * number


@pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call", "on_tool_error"])
async def test_a_fail_ends_the_run_and_cancels_the_others(make, hooks, witness, calls, point):
    ended = []

    async def work(n: int) -> str:
        try:
            if n == 1:
                return "quick"
            if n == 2:
                await asyncio.sleep(0.01)
                raise ValueError("broken")
            await asyncio.sleep(10)
        finally:
            ended.append(n)

    @hooks.hook(point)
    async def guard(event):
        await asyncio.sleep(0.01)
        return Fail("stop everything") if event.tool_call_id == "2" else None

    agent = make(calls(*three("work")), "hi", hooks=hooks, tools=[work])
    with pytest.raises(RunFailed, match="stop everything") as failed:
        await agent.run("hello")
    assert len(agent.model.requests) == 1
    assert 3 in ended or point == "before_tool_call"
    assert results(failed.value.response)[1:] == [
        "stop everything",
        "the run ended before this call had a result",
    ]
    assert witness.end == failed.value.response


async def test_a_result_that_was_there_before_the_fail_is_kept(make, hooks, calls, tools):
    @hooks.after_tool_call
    async def guard(event):
        if event.tool_call_id == "2":
            await asyncio.sleep(0.01)
            return Fail("no")
        return None

    answer = calls(("1", "echo", {"text": "kept"}), ("2", "echo"))
    with pytest.raises(RunFailed) as failed:
        await make(answer, hooks=hooks, tools=tools).run("hello")
    assert results(failed.value.response) == ["kept", "no"]


@pytest.mark.parametrize("fails", ["1", "2", "3"])
async def test_it_does_not_matter_which_call_fails(make, hooks, calls, fails):
    async def work(n: int) -> None:
        await asyncio.sleep(10)

    hooks.before_tool_call(lambda event: Fail("no") if event.tool_call_id == fails else None)
    with pytest.raises(RunFailed, match="no"):
        await make(calls(*three("work")), hooks=hooks, tools=[work]).run("hello")


async def test_an_error_or_a_timeout_of_one_tool_does_not_touch_the_others(make, calls, tools):
    @tool(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(10)

    answer = calls(("1", "broken"), ("2", "slow"), ("3", "echo", {"text": "fine"}))
    response = await make(answer, "hi", tools=[*tools, slow]).run("hello")
    assert results(response) == ["it broke", "slow timed out after 0.05 s", "fine"]


async def test_a_tool_that_cancels_itself_does_not_touch_the_others(make, calls):
    async def work(n: int) -> str:
        if n == 2:
            raise asyncio.CancelledError
        await asyncio.sleep(0.01)
        return "fine"

    response = await make(calls(*three("work")), "hi", tools=[work]).run("hello")
    assert results(response) == ["fine", "work was cancelled from within", "fine"]


async def test_calls_with_the_same_id_are_told_apart(make, hooks, witness, calls, tools):
    answer = calls(("1", "echo", {"text": "a"}), ("1", "echo", {"text": "b"}), ("", "echo"))
    response = await make(answer, "hi", hooks=hooks, tools=tools).run("hello")
    assert results(response) == ["a", "b", ""]
    assert len({event.tool_call_id for event in witness.at("before_tool_call")}) == 3


async def test_one_call_runs_in_the_runs_own_order_of_hooks(make, hooks, calls, tools):
    order = []
    hooks.before_tool_call(lambda event: order.append(("outer", event.tool_call_id)))
    agent = make(calls(("1", "echo"), ("2", "echo")), "hi", hooks=hooks, tools=tools)
    agent.on("before_tool_call").handle(
        effects=[lambda status: order.append(("own", status.tool_call.id))]
    )
    await agent.run("hello")
    for call in ("1", "2"):
        assert [level for level, told in order if told == call] == ["outer", "own"]


async def test_two_runs_of_one_agent_do_not_mix(make, hooks, witness, tools):
    def reply(request):
        text = request.messages[0]["content"]
        return text if len(request.messages) > 1 else ToolCall(text, "echo", {"text": text})

    agent = make(reply, hooks=hooks, tools=tools)
    hooks.before_tool_call(lambda event: asyncio.sleep(0))
    one, two = await asyncio.gather(agent.run("one"), agent.run("two"))
    assert [(r.content, results(r)) for r in (one, two)] == [("one", ["one"]), ("two", ["two"])]
    runs = {event.run_id: event.value.content for event in witness.at("query_end")}
    assert {*runs.values()} == {"one", "two"}
