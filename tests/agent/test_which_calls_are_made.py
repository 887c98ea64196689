"""Which calls are made: as the model wants them, or as hooks change, hide or mend them."""

import dataclasses
import json

import pytest

from checkrail import (
    AssistantMessage,
    Continue,
    Replace,
    ToolCall,
)


def call_in(response, number=0):
    """Give the name and the arguments of a call as the conversation shows them."""
    calls = [call for message in response.messages for call in message.get("tool_calls", ())]
    function = calls[number]["function"]
    return function["name"], json.loads(function["arguments"])


def result_in(response, number=0):
    return [message for message in response.messages if message["role"] == "tool"][number]


@pytest.mark.parametrize("how", ["model", "lost metadata", "no id", "doubled id"])
async def test_arguments_that_are_no_json_never_run_the_tool(make, hooks, how):
    ran = []

    async def wipe(path: str = "/") -> None:
        ran.append(path)

    @hooks.after_llm_call
    def rewrite(event, message):
        if how == "lost metadata" and message.tool_calls:
            return Continue(AssistantMessage("one moment", message.tool_calls))
        return None

    given = "" if how == "no id" else "1"
    answer = AssistantMessage(
        tool_calls=[ToolCall(given, "wipe")] * (2 if how == "doubled id" else 1),
        metadata={"unparsed_arguments": {given: '{"path": "/tmp'}},
    )
    response = await make(answer, "hi", tools=[wipe], hooks=hooks).run("hello")
    assert ran == []
    told = "" if how == "lost metadata" else ': {"path": "/tmp'
    assert result_in(response)["content"] == f"the arguments are no JSON object{told}"
    assert call_in(response) == ("wipe", {})


async def test_a_hook_that_mends_broken_arguments_is_obeyed(make, hooks, tools):
    @hooks.after_llm_call
    def mend(event, message):
        if event.iteration == 1:
            call = dataclasses.replace(message.tool_calls[0], args={"text": "x"})
            return Continue(dataclasses.replace(message, tool_calls=[call]))
        return None

    answer = AssistantMessage(
        tool_calls=[ToolCall("1", "echo")], metadata={"unparsed_arguments": {"1": '{"text": "x'}}
    )
    response = await make(answer, "hi", tools=tools, hooks=hooks).run("hello")
    assert result_in(response)["content"] == "x"


async def test_rewritten_arguments_are_what_runs_and_what_the_history_shows(
    make, hooks, witness, tools
):
    @hooks.before_tool_call
    def rewrite(event, call):
        return Continue(dataclasses.replace(call, args={"text": call.args["text"] + "!"}))

    @hooks.before_tool_call
    def rewrite_again(event, call):
        return Continue(json.dumps({"text": call.args["text"] + "?"}))

    agent = make(ToolCall("1", "echo", {"text": "a"}), "hi", tools=tools, hooks=hooks)
    response = await agent.run("hello")
    assert call_in(response) == ("echo", {"text": "a!?"})
    assert result_in(response)["content"] == "a!?"
    assert agent.model.requests[1].messages == response.messages[:-1]


async def test_a_hook_may_send_a_call_to_another_tool(make, hooks, witness, tools):
    hooks.before_tool_call(
        lambda event, call: Continue(dataclasses.replace(call, name="echo", id="mine")),
        tools=["broken"],
    )
    response = await make(ToolCall("1", "broken"), "hi", tools=tools, hooks=hooks).run("hello")
    assert call_in(response) == ("echo", {})
    assert result_in(response) == {"role": "tool", "tool_call_id": "1", "content": ""}
    assert [event.value.name for event in witness.at("after_tool_call")] == ["echo"]


def hide(*names):
    def hidden(event, request):
        kept = [told for told in request.tools if told["function"]["name"] not in names]
        return Continue(dataclasses.replace(request, tools=kept))

    return hidden


async def test_a_tool_that_was_hidden_from_the_model_is_not_executed(make, hooks, tools):
    hooks.before_llm_call(hide("echo"))
    agent = make(ToolCall("1", "echo"), "hi", tools=tools, hooks=hooks)
    response = await agent.run("hello")
    assert "there is no tool 'echo'" in result_in(response)["content"]
    assert [told["function"]["name"] for told in agent.model.requests[0].tools] == ["broken"]


@pytest.mark.parametrize("way", ["replace", "after_llm_call", "before_tool_call"])
async def test_no_hook_brings_back_a_tool_that_another_hid(make, hooks, way):
    ran = []

    async def wipe() -> None:
        ran.append(1)

    async def echo() -> None: ...

    hooks.before_llm_call(hide("wipe"), priority=1)
    wanted = AssistantMessage(tool_calls=[ToolCall("0", "wipe")])
    first = {"replace": "before_llm_call"}.get(way, way)

    @hooks.hook(first, priority=2)
    def bring_back(event):
        if event.iteration > 1:
            return None
        if way == "before_tool_call":
            return Continue(ToolCall("1", "wipe"))
        return Replace(wanted) if way == "replace" else Continue(wanted)

    agent = make(ToolCall("1", "echo"), "hi", "hi", tools=[wipe, echo], hooks=hooks)
    await agent.run("hello")
    assert ran == []


async def test_hidden_tools_are_back_when_nobody_hides_them(make, hooks, tools):
    hooks.before_llm_call(hide("echo"), when=lambda event: event.iteration == 1)
    script = ToolCall("1", "echo"), ToolCall("2", "echo", {"text": "x"}), "hi"
    response = await make(*script, tools=tools, hooks=hooks).run("hello")
    assert (result_in(response, 0)["is_error"], result_in(response, 1)["content"]) == (True, "x")


async def test_a_hook_may_add_and_take_away_calls_of_an_answer(make, hooks, tools):
    @hooks.after_llm_call
    def other_calls(event, message):
        if event.iteration > 1:
            return None
        extra = [ToolCall("", "echo", {"text": "a"}), ToolCall("", "echo", {"text": "b"})]
        return Continue(dataclasses.replace(message, tool_calls=extra))

    response = await make(ToolCall("1", "broken"), "hi", tools=tools, hooks=hooks).run("hello")
    assert [call_in(response, n)[1]["text"] for n in (0, 1)] == ["a", "b"]
    assert [result_in(response, n)["content"] for n in (0, 1)] == ["a", "b"]


async def test_calls_that_came_without_ids_are_told_apart(make, witness, hooks, tools):
    script = ToolCall(name="echo"), ToolCall(name="echo"), "hi"
    await make(*script, tools=tools, hooks=hooks).run("hello")
    ids = [event.tool_call_id for event in witness.at("before_tool_call")]
    assert len({*ids}) == 2
    assert all(ids)


async def test_an_id_that_a_model_gives_again_in_a_later_turn_is_told_apart(
    make, hooks, witness, tools
):
    script = ToolCall("call_0", "echo"), ToolCall("call_0", "echo"), "hi"
    await make(*script, tools=tools, hooks=hooks).run("hello")
    assert len({event.tool_call_id for event in witness.at("before_tool_call")}) == 2
