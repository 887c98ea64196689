"""How a run ends: what is returned or raised, what is in it, and what is left of it."""

import dataclasses

import pytest

from checkrail import (
    AgentResponse,
    AssistantMessage,
    Block,
    CheckrailError,
    Continue,
    Fail,
    Retry,
    Stop,
    ToolCall,
)
from checkrail.agent import RunFailed

USER = {"role": "user", "content": "hello"}


def used(number):
    return {"input_tokens": number, "output_tokens": 1, "total_tokens": number + 1}


def say(text, tokens=10):
    return AssistantMessage(text, usage=used(tokens))


def use(tool, tokens=10, **args):
    return AssistantMessage(tool_calls=[ToolCall("1", tool, args)], usage=used(tokens))


def ends_with(response, stop_reason, content, error):
    assert (response.stop_reason, response.content, response.error) == (
        stop_reason,
        content,
        error,
    )


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", "refusal", None])
async def test_a_response_tells_how_the_model_ended_its_answer(make, finish):
    seen = []
    agent = make(AssistantMessage("So lo", stop_reason=finish))
    agent.registry.register(
        lambda event, response: seen.append(response.finish), "query_end", lane="observe"
    )
    response = await agent.run("hello")
    ends_with(response, "answer", "So lo", None)
    assert (response.finish, seen) == (finish, [finish])


async def test_a_run_without_an_answer_has_no_finish(make):
    agent = make(AssistantMessage("So lo", stop_reason="length"))
    agent.registry.register(lambda event: Block("no"), "after_llm_call")
    response = await agent.run("hello")
    assert (response.stop_reason, response.finish) == ("block", None)


async def test_an_answer_is_returned_with_the_conversation_and_what_it_cost(make, tools):
    agent = make(use("echo", text="x"), say("hi", 20), tools=tools, system_prompt="Be kind.")
    response = await agent.run("hello")
    ends_with(response, "answer", "hi", None)
    assert response.usage == {"input_tokens": 30, "output_tokens": 2, "total_tokens": 32}
    call = {"name": "echo", "arguments": '{"text": "x"}'}
    assert response.messages == [
        USER,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "assistant", "content": "hi"},
    ]


async def test_a_response_cannot_be_changed(make):
    response = await make("hi").run("hello")
    assert isinstance(response, AgentResponse)
    with pytest.raises(TypeError, match="frozen"):
        response.messages[0]["content"] = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        response.content = "other"


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_a_stop_is_a_success_with_its_value(make, hooks, witness, point):
    hooks.hook(point)(lambda event: Stop("enough"))
    response = await make(say("hi"), hooks=hooks).run("hello")
    ends_with(response, "stop", "enough", None)
    assert response.messages == [USER, {"role": "assistant", "content": "enough"}]
    assert response.usage == ({} if point == "before_llm_call" else used(10))
    assert witness.end == response


async def test_the_tool_calls_of_a_stop_value_are_not_made(make, hooks, tools):
    hooks.after_llm_call(lambda event, message: Stop(dataclasses.replace(message, content="bye")))
    response = await make(use("echo"), hooks=hooks, tools=tools).run("hello")
    ends_with(response, "stop", "bye", None)
    assert response.messages == [USER, {"role": "assistant", "content": "bye"}]


async def test_the_tool_calls_that_a_hook_puts_into_a_final_answer_are_not_made(
    make, hooks, witness, tools
):
    @hooks.before_final_response
    def add(event, message):
        return Continue(dataclasses.replace(message, tool_calls=[ToolCall("1", "echo")]))

    response = await make("hi", hooks=hooks, tools=tools).run("hello")
    ends_with(response, "answer", "hi", None)
    assert response.messages == [USER, {"role": "assistant", "content": "hi"}]
    assert witness.at("before_tool_call") == []


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call"])
async def test_a_stop_value_still_passes_before_final_response(make, hooks, point):
    hooks.hook(point)(lambda event: Stop("password: 1234"))
    hooks.before_final_response(lambda event, message: Block("secret"), lane="gate")
    response = await make("hi", hooks=hooks).run("hello")
    ends_with(response, "block", "", "secret")
    assert "1234" not in str(response)


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_a_block_ends_the_run_with_the_reason_and_without_the_answer(
    make, hooks, witness, point
):
    hooks.hook(point, lane="gate")(lambda event: Block("not today"))
    response = await make(say("a secret"), hooks=hooks).run("hello")
    ends_with(response, "block", "", "not today")
    assert "secret" not in str(response.messages)
    assert response.usage == ({} if point == "before_llm_call" else used(10))
    assert witness.end == response


async def test_a_block_without_a_reason_says_who_blocked(make, hooks):
    hooks.after_llm_call(lambda event: Block(), name="silent")
    response = await make("hi", hooks=hooks).run("hello")
    assert response.error == "blocked by hook 'silent' at after_llm_call"


@pytest.mark.parametrize(
    ("point", "tool", "cost"),
    [
        ("before_llm_call", "echo", {}),
        ("after_llm_call", "echo", used(10)),
        ("before_tool_call", "echo", used(10)),
        ("after_tool_call", "echo", used(10)),
        ("on_tool_error", "broken", used(10)),
        ("before_final_response", None, used(10)),
    ],
)
async def test_a_fail_raises_with_the_response_so_far(
    *, make, hooks, witness, tools, point, tool, cost
):
    hooks.hook(point, lane="gate")(lambda event: Fail("the vault is open"))
    agent = make(say("hi") if tool is None else use(tool), hooks=hooks, tools=tools)
    with pytest.raises(RunFailed, match=r"^the vault is open$") as failed:
        await agent.run("hello")
    assert isinstance(failed.value, CheckrailError)
    assert (failed.value.reason, failed.value.by_hook) == ("the vault is open", True)
    response = failed.value.response
    ends_with(response, "fail", "", "the vault is open")
    assert (response.messages[0], response.usage) == (USER, cost)
    assert witness.end == response


async def test_the_limit_of_iterations_is_an_end_that_says_so(make, hooks, witness, tools):
    agent = make(use("echo"), "never", hooks=hooks, tools=tools, max_iterations=1)
    response = await agent.run("hello")
    told = "the limit of 1 iterations was reached before an answer"
    ends_with(response, "max_iterations", "", told)
    assert (response.usage, len(response.messages)) == (used(10), 3)
    assert witness.end == response


async def test_an_answer_at_the_limit_is_an_answer(make, tools):
    agent = make(use("echo"), "hi", tools=tools, max_iterations=2)
    assert (await agent.run("hello")).stop_reason == "answer"


async def test_a_retry_is_an_iteration(make, hooks):
    hooks.after_llm_call(lambda event: Retry("again"))
    response = await make("a", "b", "c", hooks=hooks, max_iterations=2).run("hello")
    assert response.stop_reason == "max_iterations"


@pytest.mark.parametrize("limit", [0, -1])
def test_an_agent_needs_one_iteration(make, limit):
    with pytest.raises(ValueError, match=f"max_iterations is {limit}"):
        make("hi", max_iterations=limit)


@pytest.mark.parametrize("ending", ["answer", "stop", "block", "max_iterations", "fail", "error"])
async def test_query_end_may_change_the_response_on_every_path(make, hooks, ended, tools, ending):
    hooks.query_end(lambda event, response: Continue(f"{response.stop_reason}, and goodbye"))
    decisions = {"stop": Stop("s"), "block": Block("b"), "fail": Fail("f")}
    hooks.after_llm_call(lambda event: decisions.get(ending))
    replies = {"error": RuntimeError("down"), "max_iterations": use("echo")}
    agent = make(replies.get(ending, "hi"), hooks=hooks, tools=tools, max_iterations=1)
    response = await ended(agent.run("hello"))
    assert response.content == f"{ending}, and goodbye"
    assert response.stop_reason == ending


async def test_query_end_may_take_the_response_away(make, hooks):
    hooks.query_end(lambda event: Continue(None))
    response = await make('{"a": 1}', hooks=hooks, output_schema=dict[str, int]).run("hello")
    assert (response.content, response.output, response.stop_reason) == ("", None, "answer")


@pytest.mark.parametrize("wrong", [Block("no"), Fail("no"), Retry("no"), Stop("no"), "text", 42])
async def test_at_query_end_nothing_can_be_decided_any_more(make, hooks, witness, wrong):
    hooks.query_end(lambda event: wrong, name="late")
    with pytest.raises(RunFailed, match="'late' at query_end broke its contract") as failed:
        await make("hi", hooks=hooks).run("hello")
    assert (failed.value.by_hook, failed.value.response.stop_reason) == (True, "fail")
    ends_with(witness.end, "answer", "hi", None)


async def test_a_breach_at_query_end_is_passed_over_if_the_hook_says_so(make, hooks):
    hooks.query_end(lambda event: "text", on_error="continue")
    ends_with(await make("hi", hooks=hooks).run("hello"), "answer", "hi", None)


async def test_a_breach_at_query_end_does_not_hide_how_the_run_ended(make, hooks):
    hooks.query_end(lambda event: "text")
    hooks.after_llm_call(lambda event: Block("no"), lane="gate")
    ends_with(await make("hi", hooks=hooks).run("hello"), "block", "", "no")


async def test_a_query_end_hook_that_fails_harms_nothing(make, hooks, witness):
    @hooks.query_end
    def crash(event):
        raise RuntimeError("no disk")

    response = await make("hi", hooks=hooks).run("hello")
    ends_with(response, "answer", "hi", None)
    assert witness.end == response


async def test_an_empty_answer_is_an_answer(make):
    response = await make("").run("hello")
    ends_with(response, "answer", "", None)


async def test_a_query_may_be_parts(make):
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]
    response = await make("a dot").run(parts)
    assert response.messages[0] == {"role": "user", "content": parts}


@pytest.mark.parametrize("wrong", [None, 42, {"role": "user", "content": "hello"}])
async def test_what_is_no_query_is_refused(make, wrong):
    agent = make("hi")
    with pytest.raises(TypeError, match="query"):
        await agent.run(wrong)
    assert agent.model.requests == []
