"""What becomes of the run above when an agent beneath fails, is refused, or takes too long."""

import asyncio

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    Fail,
    Reject,
    Stop,
    ToolCall,
    tool,
)
from checkrail.agent import RunFailed

ASK = ToolCall("1", "inner", {"query": "go"})
USED = {"total_tokens": 10}
LOOP = (
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
    "query_end",
)


def told(response):
    return next(message for message in response.messages if message["role"] == "tool")


@pytest.fixture(params=["tool", "function", "thread"])
def beneath(request):
    """Put an agent beneath another: as a tool, in a function, in a function with a thread."""

    def placed(agent):
        async def inner(query: str) -> str:
            return (await agent.run(query)).content

        def inner_sync(query: str) -> str:
            return agent.run_sync(query).content

        ways = {"tool": agent, "function": inner, "thread": tool(inner_sync, name="inner")}
        return [ways[request.param]]

    return placed


async def test_what_it_used_is_counted_although_it_failed(make, beneath):
    inner = make(
        AssistantMessage(tool_calls=[ToolCall("2", "x")], usage=USED),
        RuntimeError("down"),
        name="inner",
    )
    call = AssistantMessage(tool_calls=[ASK], usage=USED)
    agent = make(call, AssistantMessage("hi", usage=USED), tools=beneath(inner))
    assert (await agent.run("hello")).usage == {"total_tokens": 30}


async def test_its_provider_failing_is_an_error_of_the_tool(make, hooks, witness, beneath):
    inner = make(RuntimeError("down"), name="inner")
    response = await make(ASK, "hi", hooks=hooks, tools=beneath(inner)).run("hello")
    assert response.content == "hi"
    assert told(response)["is_error"] is True
    assert "down" in told(response)["content"]


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_a_block_in_it_is_an_error_of_the_tool(make, hooks, point):
    hooks.hook(point, agents=["inner"], lane="gate")(lambda event: Block("not for you"))
    inner = make("a secret", name="inner")
    response = await make(ASK, "hi", hooks=hooks, tools=[inner]).run("hello")
    assert response.content == "hi"
    assert told(response)["content"] == "the agent inner gave no answer: not for you"
    assert "secret" not in str(response)


async def test_its_limit_is_an_error_of_the_tool(make, tools):
    inner = make(ToolCall("2", "echo"), name="inner", tools=tools, max_iterations=1)
    response = await make(ASK, "hi", tools=[inner]).run("hello")
    assert "the limit of 1 iterations" in told(response)["content"]


@pytest.mark.parametrize("point", LOOP[:-1])
async def test_a_fail_in_it_ends_the_whole_run(*, make, hooks, witness, tools, beneath, point):
    hooks.hook(point, agents=["inner"])(lambda event: Fail("all is lost"))
    inner = make(ToolCall("2", "broken"), "pong", name="inner", tools=tools)
    agent = make(ASK, "hi", hooks=hooks, tools=beneath(inner))
    with pytest.raises(RunFailed, match="all is lost") as failed:
        await agent.run("hello")
    assert failed.value.response.stop_reason == "fail"
    assert failed.value.response.error == "all is lost"
    assert [event.value.stop_reason for event in witness.at("query_end")] == ["fail", "fail"]


@pytest.mark.parametrize("whose", ["above", "its own"])
@pytest.mark.parametrize("how", ["returns", "raises", "raises from", "groups"])
async def test_a_fail_in_it_cannot_be_swallowed_by_the_tool(make, hooks, whose, how):
    inner = make("pong", name="inner")
    if whose == "above":
        hooks.before_llm_call(lambda event: Fail("all is lost"), agents=["inner"])
    else:
        inner.on("before_llm_call").handle("fail", reason="all is lost")

    async def careful() -> str:
        try:
            await inner.run("go")
        except RunFailed as failed:
            if how == "raises":
                raise
            if how == "raises from":
                raise ValueError("hm") from failed
            if how == "groups":
                raise ExceptionGroup("several", [ValueError("hm"), failed]) from None
        return "all is well"

    agent = make(ToolCall("1", "careful"), "hi", hooks=hooks, tools=[careful])
    with pytest.raises(RunFailed, match=r"^all is lost$") as failed:
        await agent.run("hello")
    assert (failed.value.by_hook, len(agent.model.requests)) == (True, 1)


async def test_a_fail_in_it_cancels_the_other_calls_although_it_was_swallowed(make, hooks, calls):
    hooks.before_llm_call(lambda event: Fail("all is lost"), agents=["inner"])
    inner = make("pong", name="inner")

    async def careful() -> str:
        try:
            await inner.run("go")
        except RunFailed:
            return "all is well"

    async def hang() -> None:
        await asyncio.sleep(10)

    agent = make(calls(("1", "careful"), ("2", "hang")), hooks=hooks, tools=[careful, hang])
    async with asyncio.timeout(5):
        with pytest.raises(RunFailed, match="all is lost"):
            await agent.run("hello")


async def test_a_fail_two_levels_down_ends_the_whole_run(make, hooks, witness):
    hooks.before_final_response(lambda event: Fail("all is lost"), agents=["lowest"])
    lowest = make("pong", name="lowest")
    middle = make(ToolCall("2", "lowest", {"query": "go"}), "ok", name="inner", tools=[lowest])
    with pytest.raises(RunFailed, match="all is lost"):
        await make(ASK, "hi", hooks=hooks, tools=[middle]).run("hello")
    ends = witness.at("query_end")
    assert [event.agent_name for event in ends] == ["lowest", "inner", "agent"]
    assert [event.parent_run_id for event in ends] == [ends[1].run_id, ends[2].run_id, None]


@pytest.mark.parametrize("how", ["swallows", "raises"])
async def test_a_model_that_runs_an_agent_cannot_keep_its_fail_to_itself(make, hooks, how):
    hooks.before_llm_call(lambda event: Fail("all is lost"), agents=["inner"])
    inner = make("pong", name="inner")

    async def committee(request):
        try:
            await inner.run("go")
        except RunFailed:
            if how == "raises":
                raise
        return "hi"

    with pytest.raises(RunFailed, match="all is lost") as failed:
        await make(committee, hooks=hooks).run("hello")
    assert (failed.value.response.stop_reason, failed.value.by_hook) == ("fail", True)


async def test_a_stop_in_it_is_an_answer_of_the_tool(make, hooks):
    hooks.before_llm_call(lambda event: Stop("enough"), agents=["inner"])
    inner = make("pong", name="inner")
    response = await make(ASK, "hi", hooks=hooks, tools=[inner]).run("hello")
    assert (told(response)["content"], response.stop_reason) == ("enough", "answer")


async def test_a_tool_whose_time_is_over_ends_the_agent_in_it_and_counts_what_it_used(
    make, hooks, witness
):
    async def think(request):
        if len(request.messages) > 1:
            await asyncio.sleep(10)
        return AssistantMessage(tool_calls=[ToolCall("2", "x")], usage=USED)

    inner = make(think, name="inner")

    @tool(timeout=0.3)
    async def ask() -> str:
        return (await inner.run("go")).content

    call = AssistantMessage(tool_calls=[ToolCall("1", "ask")], usage=USED)
    agent = make(call, AssistantMessage("hi", usage=USED), hooks=hooks, tools=[ask])
    response = await agent.run("hello")
    assert told(response)["content"] == "ask timed out after 0.3 s"
    assert response.usage == {"total_tokens": 30}
    assert [event.value.stop_reason for event in witness.at("query_end")] == ["cancelled", "answer"]


async def test_a_fail_in_a_hooks_own_agent_is_a_failure_of_the_hook_alone(make, hooks):
    judge = make("fine", name="judge")
    judge.on("before_llm_call").handle("fail", reason="no judge today")
    hooks.after_llm_call(lambda event: judge.run("Is it good?"), name="judging")
    response = await make("hi", hooks=hooks).run("hello")
    assert (response.content, response.stop_reason) == ("hi", "answer")


async def test_a_reject_in_a_tools_hook_of_it_is_seen_by_its_model_alone(make, hooks, tools):
    @hooks.before_tool_call(agents=["inner"])
    def refuse(event):
        raise Reject("no")

    inner = make(ToolCall("2", "echo"), "so be it", name="inner", tools=tools)
    response = await make(ASK, "hi", hooks=hooks, tools=[inner]).run("hello")
    assert told(response)["content"] == "so be it"
    assert inner.model.requests[1].messages[-1]["content"] == "no"
