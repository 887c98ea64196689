"""What LangChain builds around models: nothing of it mends or repeats what a hook has ended."""

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy
from pydantic import BaseModel

from checkrail.adapters.langchain import RunEnded
from checkrail.engine.outcomes import Block, Continue

from .support_graphs import ASKED, called, guard_of, hooks, pay, scripted


def blocking():
    return guard_of(hooks(("before_llm_call", lambda event: Block("no"))))


async def test_a_fallback_is_asked_when_a_model_fails():
    first, second = scripted(ValueError("broken")), scripted("hello", model="large")
    guard = guard_of(hooks())
    with guard.activate():
        assert (await first.with_fallbacks([second]).ainvoke("hi")).content == "hello"
    assert [*guard.usage] == ["large"]


async def test_a_fallback_is_not_asked_when_a_hook_has_ended_the_run():
    first, second = scripted("hello"), scripted("hello")
    with blocking().activate(), pytest.raises(RunEnded, match="no"):
        await first.with_fallbacks([second]).ainvoke("hi")
    assert first.asked == second.asked == []


async def test_a_hook_sees_each_attempt_of_a_retried_model():
    fired = []
    model = scripted(ValueError("broken"), "hello")
    retried = model.with_retry(wait_exponential_jitter=False)
    with guard_of(hooks(("before_llm_call", lambda event: fired.append(event.point)))).activate():
        assert (await retried.ainvoke("hi")).content == "hello"
    assert len(fired) == 2


async def test_what_a_hook_has_ended_is_not_tried_again():
    tried = []
    chain = RunnableLambda(lambda text: tried.append(text) or text) | scripted("hello")
    retried = chain.with_retry(wait_exponential_jitter=False)
    with blocking().activate():
        with pytest.raises(RunEnded):
            await retried.ainvoke("one")
        with pytest.raises(RunEnded):
            retried.invoke("two")
    assert tried == ["one", "two"]


async def test_an_ended_run_stays_ended_whatever_the_graph_caught():
    model, caught = scripted("hello", "hello"), []

    async def stubborn(state):
        for _ in range(2):
            try:
                await model.ainvoke("hi")
            except Exception as error:
                caught.append(error)
        try:
            await pay.ainvoke({"amount": 1})
        except Exception as error:
            caught.append(error)
        return {"messages": [AIMessage("as if nothing had happened")]}

    builder = StateGraph(MessagesState)
    builder.add_node("stubborn", stubborn, retry_policy=RetryPolicy(max_attempts=3))
    builder.add_edge(START, "stubborn")
    builder.add_edge("stubborn", END)
    guard = blocking()
    with guard.activate():
        await builder.compile().ainvoke(ASKED)
    assert [type(error) for error in caught] == [RunEnded] * 3
    assert {error.ended for error in caught} == {guard.ended}
    assert guard.ended.reason == "no"
    assert model.asked == []


async def test_a_nodes_retry_policy_lets_an_ended_run_end():
    entered = []

    async def node(state):
        entered.append(1)
        await scripted("hello").ainvoke("hi")

    builder = StateGraph(MessagesState)
    policy = RetryPolicy(max_attempts=3, retry_on=Exception)
    builder.add_node("node", node, retry_policy=policy)
    builder.add_edge(START, "node")
    with blocking().activate(), pytest.raises(RunEnded):
        await builder.compile().ainvoke(ASKED)
    assert entered == [1]


async def test_hooks_see_the_tools_that_were_bound_and_the_params():
    seen = []
    model = scripted("hello").bind_tools([pay], tool_choice="auto").bind(temperature=0.5)
    with guard_of(hooks(("before_llm_call", lambda event: seen.append(event.value)))).activate():
        await model.ainvoke("hi", stop=["."], extra_headers={"x-key": "sk-secret"})
    (request,) = seen
    assert request.tools[0]["function"]["name"] == "pay"
    assert request.params == {"tool_choice": "auto", "temperature": 0.5, "stop": ["."]}
    assert (request.model, request.provider, request.stream) == ("small", "acme", False)
    assert "sk-secret" not in repr(request)


class Report(BaseModel):
    """How it is."""

    weather: str


async def test_structured_output_is_read_from_what_hooks_left():
    def change(event, message):
        (call,) = message.tool_calls
        return Continue(
            type(message)(tool_calls=[type(call)(call.id, call.name, {"weather": "rain"})])
        )

    model = scripted(called(("Report", {"weather": "sun"}, "c1")))
    with guard_of(hooks(("after_llm_call", change))).activate():
        report = await model.with_structured_output(Report).ainvoke("hi")
    assert report == Report(weather="rain")


@pytest.mark.parametrize("everywhere", [True, False])
async def test_no_answer_comes_from_a_cache_past_the_hooks(everywhere):
    cache = InMemoryCache()
    model = scripted("hello", "again", **({} if everywhere else {"cache": cache}))
    try:
        set_llm_cache(cache if everywhere else None)
        await model.ainvoke("hi")
        fired = []
        with guard_of(hooks(("after_llm_call", lambda event: fired.append(1)))).activate():
            assert (await model.ainvoke("hi")).content == "again"
            model.replies.append("once more")
            assert model.invoke("hi").content == "once more"
        assert fired == [1, 1]
        assert (await model.ainvoke("hi")).content == "hello"
    finally:
        set_llm_cache(None)
