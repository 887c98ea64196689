"""Asking the model again: with feedback, without the rejected answer, and not for ever."""

import pytest

from checkrail import AssistantMessage, Block, Hooks, Retry, Stop, ToolCall
from checkrail.agent import RunFailed
from checkrail.testing import capture

RETRYABLE = ("after_llm_call", "before_final_response")


def say(text):
    return AssistantMessage(text, usage={"total_tokens": 10})


def contents(messages):
    return [message["content"] for message in messages]


@pytest.fixture(params=RETRYABLE)
def point(request):
    return request.param


async def test_the_model_is_told_why_and_the_rejected_answer_is_gone(make, hooks, point):
    hooks.hook(point)(lambda event: Retry("Be polite.") if event.iteration == 1 else None)
    agent = make(say("No!"), say("No, thank you."), hooks=hooks)
    response = await agent.run("hello")
    assert contents(response.messages) == ["hello", "Be polite.", "No, thank you."]
    assert contents(agent.model.requests[1].messages) == ["hello", "Be polite."]
    assert response.messages[1]["role"] == "user"
    assert (response.content, response.stop_reason) == ("No, thank you.", "answer")


async def test_the_tokens_of_rejected_answers_count(make, hooks, witness, point):
    hooks.hook(point)(lambda event: Retry("again") if event.iteration < 3 else None)
    response = await make(say("a"), say("b"), say("c"), hooks=hooks).run("hello")
    assert response.usage["total_tokens"] == 30
    assert witness.end.usage == response.usage


async def test_a_retry_without_a_reason_still_says_something(make, hooks, point):
    hooks.hook(point)(lambda event: Retry() if event.iteration == 1 else None)
    response = await make("a", "b", hooks=hooks).run("hello")
    assert response.messages[1]["content"] == "Your answer was not accepted. Please answer again."


async def test_the_tools_of_a_rejected_answer_are_not_called(make, hooks, witness, tools):
    hooks.after_llm_call(lambda event: Retry("no tools") if event.iteration == 1 else None)
    response = await make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools).run("hello")
    assert contents(response.messages) == ["hello", "no tools", "hi"]
    assert witness.at("before_tool_call") == []


async def test_three_retries_of_one_hook_are_enough(make, hooks, witness, point):
    hooks.hook(point, name="picky")(lambda event: Retry("not good"))
    agent = make(*map(say, "abcdef"), hooks=hooks)
    told = f"hook 'picky' at {point} has used up its 3 retries. Its last reason: not good"
    with pytest.raises(RunFailed) as failed:
        await agent.run("hello")
    response = failed.value.response
    assert (response.error, response.stop_reason) == (told, "fail")
    assert (response.usage["total_tokens"], len(agent.model.requests)) == (40, 4)
    assert contents(response.messages) == ["hello", "not good", "not good", "not good"]
    assert witness.end == response


def picky(turn):
    return lambda event: Retry("not good") if event.iteration % 4 == turn else None


async def test_ten_retries_of_a_run_are_enough(make, hooks, point):
    for turn in range(4):
        hooks.hook(point, name=f"picky{turn}")(picky(turn))
    agent = make(*["a"] * 15, hooks=hooks)
    with pytest.raises(RunFailed, match="the run's 10 retries are used up") as failed:
        await agent.run("hello")
    assert len(agent.model.requests) == 11
    assert failed.value.response.stop_reason == "fail"


async def test_how_often_can_be_configured(make, point):
    hooks = Hooks(max_retries=2)
    hooks.hook(point, max_retries=5)(lambda event: Retry("not good"))
    agent = make(*["a"] * 5, hooks=hooks)
    with pytest.raises(RunFailed, match="the run's 2 retries are used up"):
        await agent.run("hello")


async def test_each_run_has_its_own_retries(make, hooks, point):
    hooks.hook(point)(lambda event: Retry("again") if event.iteration < 4 else None)
    agent = make(*["a"] * 8, hooks=hooks)
    assert [(await agent.run("hello")).content for _ in range(2)] == ["a", "a"]


async def test_a_sub_agent_has_its_own_retries_too(make, hooks, point):
    hooks.hook(point)(lambda event: Retry("again") if event.iteration < 4 else None)
    inner = make(*"abc", "inner", name="inner")
    call = ToolCall("1", "inner", {"query": "go"})
    outer = make(
        *([call] * 4 if point == "after_llm_call" else [call]), *"abc", hooks=hooks, tools=[inner]
    )
    assert (await outer.run("hello")).stop_reason == "answer"


async def test_every_hook_that_retried_is_charged_for_it(make, hooks, point):
    hooks.hook(point, lane="gate", name="one")(lambda event: Retry("one"))
    hooks.hook(point, lane="gate", name="two", max_retries=1)(lambda event: Retry("two"))
    with pytest.raises(RunFailed, match=r"'two' at .* has used up its 1 retries"):
        await make(*"abcd", hooks=hooks).run("hello")


async def test_a_retry_and_a_block_are_a_block(make, hooks, point):
    hooks.hook(point)(lambda event: Retry("again"))
    hooks.hook(point, lane="gate")(lambda event: Block("no"))
    response = await make("a", hooks=hooks).run("hello")
    assert (response.stop_reason, response.error) == ("block", "no")


async def test_a_stop_that_is_not_accepted_is_retried_and_comes_to_an_end(make, hooks):
    hooks.before_llm_call(lambda event: Stop("cached"))
    hooks.before_final_response(lambda event: Retry("not that"), name="picky")
    agent = make("never asked", hooks=hooks)
    with pytest.raises(RunFailed, match="'picky' at before_final_response has used up"):
        await agent.run("hello")
    assert agent.model.requests == []


async def test_in_shadow_a_retry_changes_nothing_and_costs_nothing(make, hooks, point):
    hooks.hook(point, mode="shadow", name="trial")(lambda event: Retry("again"))
    with capture(hooks.registry) as records:
        response = await make("a", hooks=hooks).run("hello")
    assert contents(response.messages) == ["hello", "a"]
    assert [(r.hook, str(r.decision), r.shadow) for r in records[1::2]] == [
        ("trial", "retry", True)
    ]


@pytest.mark.parametrize(
    "wrong", ["before_llm_call", "before_tool_call", "after_tool_call", "on_tool_error"]
)
async def test_a_retry_where_there_is_none_fails_the_run_and_names_the_hook(
    make, hooks, tools, wrong
):
    hooks.hook(wrong, name="lost")(lambda event: Retry("again"))
    agent = make(ToolCall("1", "broken"), "hi", hooks=hooks, tools=tools)
    with pytest.raises(RunFailed, match=f"hook 'lost' at {wrong} .*Retry.* does not allow"):
        await agent.run("hello")
