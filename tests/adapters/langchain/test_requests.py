"""Requests as hooks see them, and what becomes of their changes."""

import dataclasses

import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from checkrail.adapters.langchain import RunEnded
from checkrail.adapters.langchain.requests import render_message
from checkrail.engine.outcomes import Ask, Continue, Fail, Replace, Stop
from checkrail.engine.values import AssistantMessage, ToolCall

from .support_graphs import Scripted, async_graph, called, guard_of, hooks, look, pay, scripted

HISTORY = [
    SystemMessage("be brief", id="s"),
    HumanMessage([{"type": "text", "text": "hi"}], id="h", name="ann"),
    called(("pay", {"amount": 1}, "c1")),
    ToolMessage("broke", tool_call_id="c1", status="error"),
]


def changing(**fields):
    def change(event, request):
        return Continue(dataclasses.replace(request, **fields))

    return guard_of(hooks(("before_llm_call", change)))


async def asked(guard, model=None, given="hi", **options):
    model = model or scripted("hello")
    with guard.activate():
        answer = await model.ainvoke(given, **options)
    return getattr(model, "bound", model).asked[0], answer


def test_messages_are_shown_in_the_shape_of_the_openai_api():
    system, human, ai, result = map(render_message, HISTORY)
    assert system == {"role": "system", "content": "be brief"}
    assert human == {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann"}
    function = {"name": "pay", "arguments": '{"amount": 1}'}
    assert ai["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert result == {"role": "tool", "content": "broke", "tool_call_id": "c1", "is_error": True}
    assert render_message(ChatMessage("x", role="critic"))["role"] == "critic"


async def test_messages_that_hooks_leave_alone_are_passed_on_as_they_are():
    def last(event, request):
        said = [*request.messages[:-1], {**request.messages[-1], "content": "mended"}]
        return Continue(dataclasses.replace(request, messages=said))

    guard = guard_of(hooks(("before_llm_call", last)))
    sent, _ = await asked(guard, given=HISTORY)
    assert all(a is b for a, b in zip(sent["messages"], HISTORY[:-1], strict=False))
    assert sent["messages"][-1] == ToolMessage("mended", tool_call_id="c1", status="error")


async def test_a_redacted_request_is_what_the_model_is_sent():
    sent, _ = await asked(changing(messages=[{"role": "user", "content": "[redacted]"}]))
    assert sent["messages"] == [HumanMessage("[redacted]")]


async def test_params_can_be_changed_and_taken_away():
    guard = changing(params={"temperature": 0.9})
    headers = {"x-key": "sk-secret"}
    sent, _ = await asked(guard, top_p=1, temperature=0.1, extra_headers=headers)
    assert (sent["temperature"], sent["extra_headers"]) == (0.9, headers)
    assert "top_p" not in sent


async def test_tools_can_be_taken_away_and_added():
    def only_look(event, request):
        mine = {"type": "function", "function": {"name": "mine", "parameters": {}}}
        left = [tool for tool in request.tools if tool["function"]["name"] == "look"]
        return Continue(dataclasses.replace(request, tools=[*left, mine]))

    model = scripted("hello")
    guard = guard_of(hooks(("before_llm_call", only_look)))
    with guard.activate():
        await model.bind_tools([pay, look]).ainvoke("hi")
    (kept, mine) = model.asked[0]["tools"]
    assert kept is look
    assert mine["function"]["name"] == "mine"


async def test_a_tool_choice_goes_with_the_last_tool():
    model = scripted("hello")
    with changing(tools=[]).activate():
        await model.bind_tools([pay], tool_choice="any").ainvoke("hi")
    assert {"tools", "tool_choice"}.isdisjoint(model.asked[0])


async def test_another_model_of_the_same_class_can_be_asked():
    guard, model = changing(model="large"), scripted("hello")
    sent, _ = await asked(guard, model)
    assert sent["model"] == "large"
    assert model.model == "small"
    assert [*guard.usage] == ["large"]
    other = scripted("hello")
    await asked(changing(model="large"), other.bind(model="medium"))
    assert other.asked[0]["model"] == "large"


async def test_a_model_that_cannot_be_exchanged_ends_the_run():
    class Bound(Scripted):
        deployment_name: str = "prod"

    guard, model = changing(model="large"), scripted("hello", kind=Bound)
    with guard.activate(), pytest.raises(RunEnded, match="bound to 'small'"):
        await model.ainvoke("hi")
    assert model.asked == []
    assert (guard.ended.decision, guard.ended.code) == ("fail", "hook_invalid")


async def test_messages_that_are_injected_are_sent_with_that_request():
    inject = [{"role": "system", "content": "be kind"}, {"role": "tool", "content": "no place"}]
    guard = guard_of(hooks(("before_llm_call", lambda event: Continue(inject=inject))))
    sent, _ = await asked(guard)
    assert sent["messages"] == [HumanMessage("hi"), SystemMessage("be kind")]


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
async def test_an_answer_can_be_given_without_the_model(way):
    seen = []
    registry = hooks(
        ("before_llm_call", lambda event: Replace("from memory")),
        ("after_llm_call", lambda event: seen.append(event.value.content)),
    )
    guard, model = guard_of(registry), scripted()
    with guard.activate():
        if way == "ainvoke":
            text = (await model.ainvoke("hi")).content
        else:
            text = "".join([piece.content async for piece in model.astream("hi")])
    assert (text, seen, model.asked, guard.usage) == ("from memory", ["from memory"], [], {})


async def test_a_replaced_answer_may_call_tools():
    call = ToolCall("c9", "look", {"where": "here"})
    answers = [AssistantMessage("", tool_calls=[call])]
    registry = hooks(("before_llm_call", lambda event: Replace(answers.pop()) if answers else None))
    with guard_of(registry).activate():
        result = await async_graph(scripted("done")).ainvoke({"messages": ["go"]})
    assert [said.content for said in result["messages"]] == ["go", "", "nothing in here", "done"]


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call"])
async def test_a_stop_ends_the_run_with_its_message(point):
    guard = guard_of(hooks((point, lambda event: Stop("that is all", "enough"))))
    with guard.activate(), pytest.raises(RunEnded):
        await async_graph(scripted("hello")).ainvoke({"messages": ["go"]})
    ended = guard.ended
    assert (ended.decision, ended.point, ended.reason) == ("stop", point, "enough")
    assert ended.message == AssistantMessage("that is all")


async def test_an_ask_that_nobody_can_answer_ends_the_run_as_blocked():
    guard = guard_of(hooks(("before_llm_call", lambda event: Ask("may I?"))))
    with guard.activate(), pytest.raises(RunEnded, match="nobody to ask"):
        await scripted("hello").ainvoke("hi")
    assert (guard.ended.decision, guard.ended.code) == ("block", "ask_unanswered")


async def test_an_answer_that_hooks_spoiled_ends_the_run():
    def spoil(event, message):
        return Continue(dataclasses.replace(message, content=3))

    guard = guard_of(hooks(("after_llm_call", spoil)))
    with guard.activate(), pytest.raises(RunEnded, match=r"the answer of hook .* is invalid"):
        await scripted("hello").ainvoke("hi")


async def test_the_first_verdict_is_the_one_that_ended_the_run():
    guard = guard_of(hooks(("before_llm_call", lambda e, r: Fail(r.messages[-1]["content"]))))
    with guard.activate():
        for text in ("one", "two"):
            with pytest.raises(RunEnded, match="one"):
                await scripted("hello").ainvoke(text)
    assert guard.ended.hook == "<lambda>"


async def test_several_generations_are_each_shown():
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Two(Scripted):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            texts = ("good", "bad")
            return ChatResult(
                generations=[ChatGeneration(message=AIMessage(text)) for text in texts]
            )

    def mend(event, message):
        return Continue("mended") if message.content == "bad" else None

    with guard_of(hooks(("after_llm_call", mend))).activate():
        result = await scripted(kind=Two).agenerate([[HumanMessage("hi")]])
    assert [one.text for one in result.generations[0]] == ["good", "mended"]


async def test_calls_whose_arguments_cannot_be_read_survive_a_change():
    invalid = [
        {"id": "c1", "name": "f", "args": "{sk-x", "error": None},
        {"id": "c2", "name": "g", "args": "[1]", "error": None},
    ]
    calls = [{"id": "c3", "name": "h", "args": {"a": 1}}]
    message = AIMessage("", invalid_tool_calls=invalid, tool_calls=calls)

    def mend(event, request):
        said = [{**request.messages[0], "content": "mended"}, *request.messages[1:]]
        return Continue(dataclasses.replace(request, messages=said))

    given = [message, HumanMessage("x")]
    sent, _ = await asked(guard_of(hooks(("before_llm_call", mend))), given=given)
    (made, _) = sent["messages"]
    assert made.content == "mended"
    assert [call["args"] for call in made.invalid_tool_calls] == ["{sk-x", "[1]"]
    assert [call["id"] for call in made.tool_calls] == ["c3"]
