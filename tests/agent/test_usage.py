from collections.abc import Mapping

import pytest

from checkrail import AssistantMessage, Replace, ToolCall
from checkrail.llm.usage import sum_usage


@pytest.mark.parametrize(
    ("total", "more", "sum_of_both"),
    [
        ({}, {}, {}),
        ({}, None, {}),
        ({"input_tokens": 1}, None, {"input_tokens": 1}),
        ({"input_tokens": 1}, {"input_tokens": 2}, {"input_tokens": 3}),
        ({"input_tokens": 1}, {"output_tokens": 2}, {"input_tokens": 1, "output_tokens": 2}),
        ({"cost": 0.5}, {"cost": 0.25}, {"cost": 0.75}),
        ({"details": {"cached": 1}}, {"details": {"cached": 2}}, {"details": {"cached": 3}}),
        ({}, {"details": {"cached": 2}}, {"details": {"cached": 2}}),
        ({"input_tokens": 1}, {"input_tokens": None}, {"input_tokens": 1}),
        ({"input_tokens": None}, {"input_tokens": 2}, {"input_tokens": 2}),
        ({"tier": "a"}, {"tier": "b"}, {"tier": "b"}),
        ({"fast": True}, {"fast": True}, {"fast": True}),
        ({"details": 1}, {"details": {"cached": 2}}, {"details": {"cached": 2}}),
    ],
)
def test_usages_are_added_number_by_number(total, more, sum_of_both):
    assert sum_usage(total, more) == sum_of_both


def test_what_was_added_is_left_alone():
    total, more = {"details": {"cached": 1}}, {"details": {"cached": 2}}
    sum_usage(total, more)["details"]["cached"] = 9
    assert (total, more) == ({"details": {"cached": 1}}, {"details": {"cached": 2}})


async def test_the_details_of_all_answers_are_added_up(make, tools):
    def cost(cached):
        return {"total_tokens": 10, "input_token_details": {"cached": cached}}

    agent = make(
        AssistantMessage(tool_calls=[ToolCall("1", "echo")], usage=cost(1)),
        AssistantMessage("hi", usage=cost(2)),
        tools=tools,
    )
    response = await agent.run("hello")
    assert response.usage == {"total_tokens": 20, "input_token_details": {"cached": 3}}


async def test_a_model_that_counts_nothing_costs_nothing(make):
    class Silent:
        name, provider, params = "silent", None, {}

        async def complete(self, request):
            return AssistantMessage("hi")

    agent = make("unused")
    agent.model = Silent()
    assert (await agent.run("hello")).usage == {}


async def test_an_answer_that_a_hook_gave_costs_nothing(make, hooks):
    hooks.before_llm_call(lambda event: Replace("hi"))
    assert (await make("unused", hooks=hooks).run("hello")).usage == {}


async def test_each_run_counts_its_own(make):
    conversation = make("one two", "three").conversation()
    first, second = await conversation.run("a"), await conversation.run("b")
    assert isinstance(first.usage, Mapping)
    assert (first.usage["output_tokens"], second.usage["output_tokens"]) == (2, 1)
