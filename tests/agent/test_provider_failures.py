"""A provider that errors, hangs or answers garbage: a clean end, with an error that says which."""

import asyncio
import dataclasses

import pytest

from checkrail import AssistantMessage, Continue, Retry, ToolCall
from checkrail.agent import ModelError, RunFailed

USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


async def failure(agent, **ids):
    with pytest.raises(RunFailed) as failed:
        await agent.run("hello", **ids)
    assert failed.value.by_hook is False
    assert (failed.value.response.stop_reason, failed.value.response.content) == ("error", "")
    assert failed.value.response.error == str(failed.value)
    return failed.value


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModelError("429: slow down"), "429: slow down"),
        (RuntimeError("boom"), "model 'scripted' failed with RuntimeError: boom"),
        (ConnectionError("refused"), "model 'scripted' failed with ConnectionError: refused"),
        (TimeoutError(), "model 'scripted' did not answer in time"),
        (asyncio.CancelledError(), "model 'scripted' was cancelled from within"),
        (UnprintableError(), "model 'scripted' failed with UnprintableError"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, BaseException) else "",
)
async def test_an_error_ends_the_run_and_says_which(make, hooks, witness, error, told):
    failed = await failure(make(error, hooks=hooks))
    assert str(failed) == told
    assert failed.__cause__ is error or failed.__cause__.__cause__ is error
    assert witness.points == ["before_llm_call", "query_end"]
    assert witness.end == failed.response


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OSError("no route"), "unreachable"), (TimeoutError(), "timeout"), (ValueError(), "error")],
)
async def test_the_cause_says_of_which_kind_the_failure_is(make, error, kind):
    failed = await failure(make(error))
    assert isinstance(failed.__cause__, ModelError)
    assert failed.__cause__.kind == kind


async def test_a_model_that_hangs_is_given_up_when_its_time_is_over(make, hooks, witness):
    async def hang(request):
        await asyncio.sleep(10)

    failed = await failure(make(hang, hooks=hooks, model_timeout=0.05))
    assert "did not answer in time (0.05 s, the agent's model_timeout" in str(failed)
    assert witness.end == failed.response


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        42,
        {"role": "assistant", "content": "hi"},
        AssistantMessage(content=None, usage=USAGE),
        AssistantMessage(content=42, usage=USAGE),
        AssistantMessage(tool_calls=None, usage=USAGE),
        AssistantMessage(tool_calls=[{"id": "1", "name": "echo"}], usage=USAGE),
        AssistantMessage(tool_calls=[ToolCall("1", "echo", ["no", "dict"])], usage=USAGE),
        AssistantMessage(tool_calls=[ToolCall(1, "echo")], usage=USAGE),
        AssistantMessage(tool_calls=[ToolCall("1", None)], usage=USAGE),
        AssistantMessage("hi", usage="much"),
        AssistantMessage("hi", usage=USAGE, metadata=None),
    ],
)
async def test_garbage_ends_the_run_and_says_so(make, hooks, witness, tools, garbage):
    failed = await failure(make(lambda request: garbage, hooks=hooks, tools=tools))
    assert "model 'scripted' gave no proper answer" in str(failed)
    assert failed.__cause__.kind == "invalid"
    assert witness.points == ["before_llm_call", "query_end"]


async def test_what_was_done_before_the_failure_is_in_the_response(make, hooks, witness, tools):
    call = AssistantMessage(tool_calls=[ToolCall("1", "echo", {"text": "x"})], usage=USAGE)
    failed = await failure(make(call, RuntimeError("boom"), hooks=hooks, tools=tools))
    assert failed.response.usage == USAGE
    assert [message["role"] for message in failed.response.messages] == [
        "user",
        "assistant",
        "tool",
    ]
    assert witness.end == failed.response


async def test_tokens_that_a_failed_answer_cost_are_counted(make):
    failed = await failure(make(ModelError("cut off", kind="invalid", usage=USAGE)))
    assert failed.response.usage == USAGE


async def test_a_script_that_is_too_short_says_so(make, tools):
    failed = await failure(make(ToolCall("1", "echo"), tools=tools))
    assert "the script has 1 replies, but the model was asked 2 times: add a reply" in str(failed)


async def test_no_retry_of_a_hook_brings_a_failed_model_back(make, hooks):
    hooks.after_llm_call(lambda event: Retry("again"))
    assert str(await failure(make(RuntimeError("boom"), "hi", hooks=hooks))).endswith("boom")


async def test_a_conversation_goes_on_after_a_failure(make):
    conversation = make(RuntimeError("boom"), "hi").conversation()
    with pytest.raises(RunFailed):
        await conversation.run("hello")
    assert (await conversation.run("still there?")).content == "hi"
    assert [message["content"] for message in conversation.messages] == [
        "hello",
        "still there?",
        "hi",
    ]


class RefusingSource:
    async def tools(self):
        raise ConnectionError("refused")

    async def aclose(self): ...


async def test_tools_that_cannot_be_had_end_the_run_before_the_model_is_asked(make, hooks, witness):
    agent = make("hi", hooks=hooks, tools=[RefusingSource()])
    failed = await failure(agent)
    assert "refused" in str(failed)
    assert isinstance(failed.__cause__, ConnectionError)
    assert (witness.points, agent.model.requests) == (["query_end"], [])


@pytest.mark.parametrize(
    "broken",
    [
        AssistantMessage(tool_calls=[{"id": "1"}]),
        AssistantMessage(content=None),
        AssistantMessage(tool_calls=[ToolCall("1", "echo", ["x"])]),
    ],
)
async def test_a_hook_that_makes_garbage_of_an_answer_fails_the_run_as_a_model_would(
    make, hooks, witness, tools, broken
):
    hooks.after_llm_call(lambda event: Continue(broken))
    agent = make(ToolCall("1", "echo"), hooks=hooks, tools=tools, max_iterations=1)
    with pytest.raises(RunFailed) as failed:
        await agent.run("hello")
    assert witness.end == failed.value.response


async def test_a_tool_of_the_providers_own_that_a_hook_adds_is_passed_on(make, hooks, tools):
    search = {"type": "web_search"}

    @hooks.before_llm_call
    def with_search(event, request):
        return Continue(dataclasses.replace(request, tools=[*request.tools, search]))

    agent = make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools)
    assert (await agent.run("hello")).content == "hi"
    assert search in agent.model.requests[0].tools
