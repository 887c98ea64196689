"""Every rule in every kind of graph, whichever way it is run: no path leads around a hook."""

import dataclasses

import pytest
from langchain_core.messages import HumanMessage

from checkrail.adapters.langchain import RunEnded
from checkrail.engine.outcomes import Block, Continue, Fail, Retry

from .support_graphs import GRAPHS, RAN, WAYS, called, guard_of, hooks, scripted

PAYS = called(("pay", {"amount": 5}, "c1"), ("look", {"where": "here"}, "c2"), text="one moment")


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


@pytest.fixture(params=WAYS)
def go(request):
    return WAYS[request.param]


async def run(registry, graph, go, *replies):
    guard, model = guard_of(registry), scripted(*replies)
    with guard.activate():
        seen, result = await go(graph(model))
    return guard, model, [*seen, ("result", result)], result["messages"]


async def ends(registry, graph, go, *replies):
    guard, model = guard_of(registry), scripted(*replies)
    with guard.activate(), pytest.raises(RunEnded) as raised:
        await go(graph(model))
    assert raised.value.ended == guard.ended
    return guard, model


def result_of(messages, id):
    return next(said for said in messages if getattr(said, "tool_call_id", None) == id)


async def test_a_blocked_tool_is_not_called_and_the_model_is_told(graph, go):
    registry = hooks(("before_tool_call", lambda event: Block("too dear"), {"tools": "pay"}))
    guard, model, _, messages = await run(registry, graph, go, PAYS, "all done")
    told = result_of(messages, "c1")
    assert (told.content, told.status, told.name) == ("too dear", "error", "pay")
    assert RAN == [("look", "here")]
    assert told in model.asked[1]["messages"]
    assert guard.ended is None


async def test_a_tool_is_called_with_the_arguments_that_hooks_gave_it(graph, go):
    def less(event, call):
        return Continue(dataclasses.replace(call, args={**call.args, "amount": 77}))

    registry = hooks(("before_tool_call", less, {"tools": "pay"}))
    _, model, seen, messages = await run(registry, graph, go, PAYS, "all done")
    assert ("pay", 77, "bob") in RAN
    assert result_of(messages, "c1").content == "paid 77 to bob"
    assert messages[1].tool_calls[0]["args"] == {"amount": 77}
    assert model.asked[1]["messages"][1].tool_calls[0]["args"] == {"amount": 77}
    assert '"amount": 5' not in repr(seen)
    assert "'amount': 5" not in repr(seen)


async def test_what_was_redacted_in_an_answer_is_in_no_stream_and_no_history(graph, go):
    def redact(event, message):
        return Continue(message.content.replace("hunter2", "[redacted]"), redacted=True)

    _, _, seen, messages = await run(
        hooks(("after_llm_call", redact)), graph, go, "the password is hunter2 and no other"
    )
    assert messages[-1].content.strip() == "the password is [redacted] and no other"
    assert "hunter2" not in repr(seen)


async def test_a_blocked_request_reaches_no_model_and_ends_the_run(graph, go):
    registry = hooks(("before_llm_call", lambda event: Block("not today", 429, "later")))
    guard, model = await ends(registry, graph, go, "hello")
    assert model.asked == []
    ended = guard.ended
    assert (ended.decision, ended.reason, ended.status) == ("block", "not today", 429)
    assert (ended.code, ended.point) == ("later", "before_llm_call")


async def test_a_failing_gate_ends_the_run_also_among_parallel_tools(graph, go):
    gate = {"tools": "pay", "lane": "gate"}
    registry = hooks(("before_tool_call", lambda event: Fail("stolen card"), gate))
    guard, model = await ends(registry, graph, go, PAYS, "all done")
    assert (guard.ended.decision, guard.ended.reason) == ("fail", "stolen card")
    assert ("pay", 5, "bob") not in RAN
    assert len(model.asked) == 1


async def test_a_rejected_answer_is_asked_for_again_and_leaves_no_trace(graph, go):
    def polite(event, message):
        return Retry("say please") if "please" not in message.content else None

    guard, model, seen, messages = await run(
        hooks(("after_llm_call", polite)), graph, go, "gimme that", "that please"
    )
    assert messages[-1].content.strip() == "that please"
    assert "gimme" not in repr(seen)
    assert model.asked[1]["messages"][-1] == HumanMessage("say please")
    assert guard.usage == {"small": {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}}
