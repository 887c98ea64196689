"""What becomes of one tool call: the hooks around it, its result, and what is kept of it."""

import asyncio
import dataclasses
import json

import pytest

from checkrail import (
    Block,
    Continue,
    Reject,
    Replace,
    ToolCall,
    ToolResult,
    tool,
)
from checkrail.agent import Tool, ToolContext, ToolError


def call_in(response, number=0):
    """Give the name and the arguments of a call as the conversation shows them."""
    calls = [call for message in response.messages for call in message.get("tool_calls", ())]
    function = calls[number]["function"]
    return function["name"], json.loads(function["arguments"])


def result_in(response, number=0):
    return [message for message in response.messages if message["role"] == "tool"][number]


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        (None, ""),
        (42, "42"),
        (True, "true"),
        ({"a": [1, 2]}, '{"a": [1, 2]}'),
        ([1, "é"], '[1, "é"]'),
        ([{"type": "text", "text": "part"}], [{"type": "text", "text": "part"}]),
        (ToolResult(content="whole"), "whole"),
        (ToolResult("other id", "other name", content="whole"), "whole"),
    ],
)
async def test_what_a_tool_returns_is_told_to_the_model(make, hooks, witness, returned, content):
    def give():
        return returned

    agent = make(ToolCall("1", "give"), "hi", tools=[give], hooks=hooks)
    response = await agent.run("hello")
    assert result_in(response) == {"role": "tool", "tool_call_id": "1", "content": content}
    assert agent.model.requests[1].messages[-1] == result_in(response)
    (event,) = witness.at("after_tool_call")
    assert (event.value.id, event.value.name, event.value.is_error) == ("1", "give", False)
    assert event.value.duration_ms > 0


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("no such city"), "no such city"),
        (ValueError("bad"), "ValueError: bad"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (ExceptionGroup("several", [ValueError("bad")]), "ExceptionGroup: several"),
        (Reject("not a hook"), "Reject: not a hook"),
        (UnprintableError(), "UnprintableError"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Exception) else "",
)
async def test_an_error_of_a_tool_is_told_to_the_model_and_the_run_goes_on(
    make, hooks, witness, error, told
):
    async def fail() -> None:
        raise error

    response = await make(ToolCall("1", "fail"), "hi", tools=[fail], hooks=hooks).run("hello")
    assert response.content == "hi"
    assert result_in(response)["is_error"] is True
    assert result_in(response)["content"].startswith(told)
    (event,) = witness.at("on_tool_error")
    assert event.value.error == event.value.content == result_in(response)["content"]


async def test_a_result_may_be_an_error_itself(make, hooks, witness):
    async def refuse() -> ToolResult:
        return ToolResult(content="", is_error=True, error="closed")

    response = await make(ToolCall("1", "refuse"), "hi", tools=[refuse], hooks=hooks).run("hello")
    assert result_in(response)["content"] == "closed"
    assert len(witness.at("on_tool_error")) == 1


async def test_a_tool_that_is_not_there_is_an_error_that_names_those_that_are(make, tools):
    response = await make(ToolCall("1", "ecko"), "hi", tools=tools).run("hello")
    told = "there is no tool 'ecko' (did you mean 'echo'?). The tools are: echo, broken"
    assert (result_in(response)["content"], result_in(response)["is_error"]) == (told, True)
    assert (await make(ToolCall("1", "x"), "hi").run("hello")).messages[2]["content"] == (
        "there is no tool 'x'. The tools are: none"
    )


async def test_wrong_arguments_are_explained_to_the_model(make):
    async def add(number: int) -> int:
        return number + 1

    response = await make(ToolCall("1", "add", {"number": "x"}), "hi", tools=[add]).run("hello")
    assert "the arguments of 'add' do not fit" in result_in(response)["content"]


@pytest.mark.parametrize("decorated", [True, False])
async def test_a_tool_that_takes_too_long_is_cancelled(make, decorated):
    ended = []

    @tool(timeout=0.05)
    async def slow() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(1)

    class Slow(Tool):
        name, description, parameters, timeout = "slow", "", {"type": "object"}, 0.05

        async def call(self, args, context):
            await slow.fn()

    agent = make(ToolCall("1", "slow"), "hi", tools=[slow if decorated else Slow()])
    response = await agent.run("hello")
    assert result_in(response)["content"] == "slow timed out after 0.05 s"
    assert (response.content, ended) == ("hi", [1])


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_blocked_call_is_an_error_that_the_model_sees(make, hooks, witness, lane):
    ran = []

    async def act() -> None:
        ran.append(1)

    hooks.before_tool_call(lambda event: Block("ask the finance desk"), lane=lane)
    agent = make(ToolCall("1", "act"), "hi", tools=[act], hooks=hooks)
    response = await agent.run("hello")
    assert (ran, response.stop_reason) == ([], "answer")
    assert result_in(response)["content"] == "ask the finance desk"
    assert agent.model.requests[1].messages[-1]["is_error"] is True
    assert len(witness.at("after_tool_call")) == len(witness.at("on_tool_error")) == 1


async def test_a_replaced_call_is_not_made(make, hooks, witness):
    ran = []

    async def act() -> None:
        ran.append(1)

    hooks.before_tool_call(lambda event: Replace(ToolResult("x", "y", content="from the cache")))
    response = await make(ToolCall("1", "act"), "hi", tools=[act], hooks=hooks).run("hello")
    assert (ran, result_in(response)["content"]) == ([], "from the cache")
    (event,) = witness.at("after_tool_call")
    assert (event.value.id, event.value.name, event.tool_call_id) == ("1", "act", "1")


async def test_a_gate_sees_the_replaced_call_too(make, hooks, tools):
    hooks.before_tool_call(lambda event: Replace("from the cache"))
    hooks.before_tool_call(lambda event: Block("never"), lane="gate")
    response = await make(ToolCall("1", "echo"), "hi", tools=tools, hooks=hooks).run("hello")
    assert result_in(response)["content"] == "never"


async def test_a_hook_may_change_a_result_and_turn_an_error_into_none(make, hooks, witness, tools):
    @hooks.after_tool_call
    def comfort(event, result):
        return Continue(dataclasses.replace(result, is_error=False, content="all is well"))

    response = await make(ToolCall("1", "broken"), "hi", tools=tools, hooks=hooks).run("hello")
    assert result_in(response) == {"role": "tool", "tool_call_id": "1", "content": "all is well"}
    assert witness.at("on_tool_error") == []


@pytest.mark.parametrize("point", ["after_tool_call", "on_tool_error"])
async def test_a_blocked_result_is_kept_from_the_model(make, hooks, tools, point):
    hooks.hook(point, lane="gate")(lambda event: Block("this stays here"))
    call = ToolCall("1", "broken", {"why": "password 1234"})
    agent = make(call, "hi", tools=tools, hooks=hooks)
    response = await agent.run("hello")
    assert result_in(response)["content"] == "this stays here"
    assert "1234" not in str(result_in(response))


async def test_a_tool_is_told_where_it_is_called(make):
    seen = []

    async def look(context: ToolContext) -> None:
        seen.append(context)

    agent = make(ToolCall("1", "look"), "hi", tools=[look], name="clerk")
    await agent.run("hello", run_id="r", user="ann")
    (context,) = seen
    assert (context.call.id, context.call.name, context.call.context) == ("1", "look", "r")
    ids = context.ids
    assert (ids.run_id, ids.agent_name, ids.iteration) == ("r", "clerk", 1)
    assert (ids.tool_call_id, ids.user.identity) == ("1", "ann")


async def test_text_beside_tool_calls_is_kept(make, tools, calls):
    agent = make(calls(("1", "echo"), content="Let me look."), "hi", tools=tools)
    response = await agent.run("hello")
    assert response.messages[1]["content"] == "Let me look."
    assert response.content == "hi"


async def test_what_a_tool_is_given_it_cannot_damage(make):
    async def damage(context: ToolContext) -> None:
        context.call.args["text"] = "other"

    response = await make(ToolCall("1", "damage"), "hi", tools=[damage]).run("hello")
    assert "FrozenError" in result_in(response)["content"]
