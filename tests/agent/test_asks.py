"""Asking a person on the way, and trying a policy without enforcing it."""

import asyncio
import dataclasses

import pytest

from checkrail import (
    Approval,
    Ask,
    AssistantMessage,
    Block,
    Continue,
    Fail,
    Hooks,
    Replace,
    Retry,
    Stop,
    ToolCall,
    ToolResult,
)
from checkrail.agent import RunFailed
from checkrail.testing import approve, capture, deny

LOOP = ("before_llm_call", "after_llm_call", "before_tool_call", "before_final_response")
CALL = ToolCall("1", "echo", {"text": "x"})


def result(response):
    return [message["content"] for message in response.messages if message["role"] == "tool"]


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("point", LOOP)
async def test_what_is_approved_goes_on(make, hooks, tools, point, lane):
    asked = []

    async def person(question):
        asked.append((str(question.point), question.reason))
        return Approval(approved=True)

    hooks.hook(point, lane=lane)(lambda event: Ask("May it?") if event.iteration == 1 else None)
    hooks.before_final_response(lambda event: Ask("May it?"), lane=lane, mode="off")
    script = ["hi"] if point == "before_final_response" else [CALL, "hi"]
    agent = make(*script, hooks=hooks, tools=tools, ask=person)
    assert (await agent.run("hello")).content == "hi"
    assert asked == [(point, "May it?")]


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_what_is_denied_is_blocked(make, hooks, point):
    hooks.hook(point, lane="gate")(lambda event: Ask("May it?"))
    response = await make("hi", hooks=hooks, ask=deny).run("hello")
    assert (response.stop_reason, response.error) == ("block", "May it?: denied")


async def test_a_call_that_is_denied_is_an_error_that_the_model_sees(make, hooks, tools):
    hooks.before_tool_call(lambda event: Ask("May it?"), lane="gate")
    response = await make(CALL, "hi", hooks=hooks, tools=tools, ask=deny).run("hello")
    assert (result(response), response.content) == (["May it?: denied"], "hi")


@pytest.mark.parametrize("point", LOOP)
async def test_where_nobody_can_be_asked_it_is_blocked_and_says_so(make, hooks, tools, point):
    hooks.hook(point, lane="gate")(lambda event: Ask("May it?"))
    script = ["hi"] if point == "before_final_response" else [CALL, "hi"]
    response = await make(*script, hooks=hooks, tools=tools).run("hello")
    told = result(response)[0] if point == "before_tool_call" else response.error
    assert told == "May it?, but there is nobody to ask"


async def test_a_person_may_edit_the_arguments_before_they_approve(make, hooks, tools):
    async def edit(question):
        return Approval(
            approved=True, value=dataclasses.replace(question.value, args={"text": "edited"})
        )

    hooks.before_tool_call(lambda event: Ask("May it?"))
    response = await make(CALL, "hi", hooks=hooks, tools=tools, ask=edit).run("hello")
    assert result(response) == ["edited"]
    (call,) = response.messages[1]["tool_calls"]
    assert call["function"]["arguments"] == '{"text": "edited"}'


async def test_what_a_person_edits_passes_the_gates(make, hooks, tools):
    async def edit(question):
        return Approval(approved=True, value='{"text": "rm -rf"}')

    hooks.before_tool_call(lambda event: Ask("May it?"))
    hooks.before_tool_call(
        lambda event, call: Block("never") if "rm" in call.args["text"] else None, lane="gate"
    )
    response = await make(CALL, "hi", hooks=hooks, tools=tools, ask=edit).run("hello")
    assert result(response) == ["never"]


async def test_each_of_several_calls_is_asked_about(make, hooks, calls, tools):
    asked = []

    async def person(question):
        asked.append(question.context.tool_call_id)
        await asyncio.sleep(0)
        return Approval(approved=question.value.args["text"] == "b")

    hooks.before_tool_call(lambda event: Ask("May it?"), lane="gate")
    answer = calls(("1", "echo", {"text": "a"}), ("2", "echo", {"text": "b"}))
    response = await make(answer, "hi", hooks=hooks, tools=tools, ask=person).run("hello")
    assert result(response) == ["May it?: denied", "b"]
    assert sorted(asked) == ["1", "2"]


async def test_a_person_who_takes_too_long_has_not_approved(make, hooks, tools):
    async def absent(question):
        await asyncio.sleep(10)

    hooks.before_tool_call(lambda event: Ask("May it?", timeout=0.05), lane="gate")
    response = await make(CALL, "hi", hooks=hooks, tools=tools, ask=absent).run("hello")
    assert result(response) == ["May it?: nobody answered in time"]


async def test_a_denial_may_mean_the_end(make, hooks, tools):
    hooks.before_tool_call(lambda event: Ask("May it?", on_deny="fail"), lane="gate")
    with pytest.raises(RunFailed, match="denied"):
        await make(CALL, "hi", hooks=hooks, tools=tools, ask=deny).run("hello")


async def test_nobody_further_in_approves_what_is_asked_further_out(make, hooks, tools):
    hooks = Hooks(ask=deny)
    hooks.before_tool_call(lambda event: Ask("May it?"), lane="gate", tools=["echo"])
    inner = make(CALL, "so be it", name="inner", tools=tools, ask=approve)
    call = ToolCall("2", "inner", {"query": "go"})
    await make(call, "hi", hooks=hooks, tools=[inner], ask=approve).run("hello")
    assert inner.model.requests[1].messages[-1]["content"] == "May it?: denied"


async def test_a_run_can_be_cancelled_while_a_person_thinks(make, hooks, witness, tools):
    asked = asyncio.Event()

    async def person(question):
        asked.set()
        await asyncio.sleep(10)

    hooks.before_tool_call(lambda event: Ask("May it?"), lane="gate")
    agent = make(CALL, "hi", hooks=hooks, tools=tools, ask=person)
    task = asyncio.create_task(agent.run("hello"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert witness.end.stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("point", "outcome"),
    [
        ("before_llm_call", Stop("no")),
        ("before_llm_call", Replace("no")),
        ("before_llm_call", Block("no")),
        ("before_llm_call", Continue(inject=[{"role": "user", "content": "no"}])),
        ("after_llm_call", Retry("no")),
        ("after_llm_call", Continue(AssistantMessage("no"))),
        ("before_tool_call", Block("no")),
        ("before_tool_call", Replace("no")),
        ("before_tool_call", Fail("no")),
        ("before_tool_call", Ask("no")),
        ("after_tool_call", Continue(ToolResult(content="no"))),
        ("before_final_response", Continue("no", redacted=True)),
        ("before_final_response", Stop("no")),
        ("query_end", Continue("no")),
    ],
)
async def test_in_shadow_nothing_changes_and_everything_is_recorded(
    make, hooks, tools, point, outcome
):
    plain = await make(CALL, "hi", tools=tools).run("hello")
    hooks.hook(point, mode="shadow", name="trial")(lambda event: outcome)
    with capture(hooks.registry) as records:
        response = await make(CALL, "hi", hooks=hooks, tools=tools).run("hello")
    assert response == plain
    told = [record for record in records if record.kind != "hook_start"]
    assert {(record.hook, record.shadow) for record in told} == {("trial", True)}
    assert {record.decision for record in told} == {outcome.decision}


async def test_a_shadow_that_crashes_harms_nobody(make, hooks, tools):
    @hooks.before_tool_call(mode="shadow", lane="gate")
    def crash(event):
        raise RuntimeError("boom")

    assert result(await make(CALL, "hi", hooks=hooks, tools=tools).run("hello")) == ["x"]
