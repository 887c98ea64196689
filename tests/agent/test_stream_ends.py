"""Whoever stops listening ends the run: it is cancelled, closed and cleaned up."""

import asyncio
import gc
import logging
from contextlib import aclosing, suppress

import pytest

from checkrail import Agent
from checkrail.agent import ModelError, TextDelta, ToolStarted
from checkrail.engine.errors import CheckrailError
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .support_streaming import Listener, PacedModel, collected, others, settled


@pytest.fixture
def ends():
    """The responses that `query_end` saw."""
    return []


@pytest.fixture
def agent(ends):
    """An agent whose model says two words, and then waits for ever."""
    made = Agent(PacedModel("Hello", " there"))
    made.registry.register(lambda e, r: ends.append(r), "query_end", lane="observe")
    return made


async def by_break(agent):
    async for event in agent.stream("go"):
        if isinstance(event, TextDelta):
            break


async def by_break_in_text(agent):
    async for _ in agent.stream("go").text():
        break


async def by_error(agent):
    with suppress(ZeroDivisionError):
        async for _ in agent.stream("go"):
            raise ZeroDivisionError


async def by_aclose(agent):
    stream = agent.stream("go")
    async for _ in stream:
        break
    await stream.aclose()


async def by_leaving(agent):
    async with agent.stream("go") as stream:
        async for _ in stream:
            break


async def by_leaving_with_an_error(agent):
    with suppress(ZeroDivisionError):
        async with agent.stream("go") as stream:
            async for _ in stream:
                raise ZeroDivisionError


async def by_closing_the_events(agent):
    async with aclosing(aiter(agent.stream("go"))) as events:
        await anext(events)


async def by_cancelling_who_waits(agent):
    listener = Listener(agent.stream("go"))
    await agent.model.said.wait()
    await settled()
    listener.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listener.task


async def by_cancelling_who_works(agent):
    async def slow():
        async for _ in agent.stream("go"):
            await asyncio.sleep(60)

    task = asyncio.create_task(slow())
    await agent.model.said.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_timeout(agent):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await collected(agent.stream("go"))


WAYS = [
    by_break,
    by_break_in_text,
    by_error,
    by_aclose,
    by_leaving,
    by_leaving_with_an_error,
    by_closing_the_events,
    by_cancelling_who_waits,
    by_cancelling_who_works,
    by_timeout,
]


@pytest.mark.parametrize("leave", WAYS)
async def test_whoever_stops_listening_cancels_the_run(leave, agent, ends):
    await leave(agent)
    await settled()
    assert [r.stop_reason for r in ends] == ["cancelled"]
    assert agent.model.closed
    assert not others()


@pytest.mark.parametrize("leave", [by_aclose, by_leaving, by_closing_the_events])
async def test_who_closes_a_stream_waits_for_the_end_of_its_run(leave, agent, ends):
    async def slowly(event):
        await asyncio.sleep(0.01)
        ends.append("slow")

    agent.registry.register(slowly, "query_end", lane="observe")
    await leave(agent)
    assert ends[-1] == "slow"
    assert agent.model.closed
    await settled()
    assert not others()


async def test_the_stream_of_a_model_is_closed_before_the_run_is_over():
    class Slow(ScriptedModel):
        closed = False

        async def stream(self, request):
            try:
                yield "Hello there"
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                self.closed = True

    async def wait(event):
        tried.set()
        await asyncio.Event().wait()

    tried = asyncio.Event()
    agent = Agent(Slow([]))
    agent.registry.register(wait, "after_llm_call", stream="window:1")
    stream = agent.stream("go")
    listener = Listener(stream)
    await tried.wait()
    await stream.aclose()
    assert agent.model.closed
    await listener.task


async def test_what_was_half_said_is_not_in_the_conversation(agent):
    talk = agent.conversation()
    async with talk.stream("first") as stream:
        async for _ in stream:
            break
    assert [(m["role"], m["content"]) for m in talk.messages] == [("user", "first")]
    await talk.run("second")
    assert [m["content"] for m in talk.messages] == ["first", "second", "done"]


@pytest.mark.parametrize("number", [1, 3])
async def test_tools_at_work_are_cancelled_and_have_results_in_the_conversation(number, ends):
    cleaned = []

    async def wait(number: int) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(number)

    calls = [ToolCall(f"c{n}", "wait", {"number": n}) for n in range(number)]
    agent = Agent(ScriptedModel([AssistantMessage("Wait.", tool_calls=calls), "done"]), [wait])
    agent.registry.register(lambda e, r: ends.append(r), "query_end", lane="observe")
    talk = agent.conversation()
    left = number
    async with talk.stream("go") as stream:
        async for event in stream:
            left -= isinstance(event, ToolStarted)
            if not left:
                await settled()
                break
    assert sorted(cleaned) == [*range(number)]
    assert [m["role"] for m in talk.messages] == ["user", "assistant", *["tool"] * number]
    assert [m["tool_call_id"] for m in talk.messages[2:]] == [call.id for call in calls]
    assert ends[0].messages == talk.messages
    await settled()
    assert not others()


async def test_an_agent_beneath_ends_too_and_the_inner_one_first(ends):
    model = PacedModel("Hello")
    helper = Agent(model, name="helper")
    model.complete = lambda request: model.may_finish.wait()
    agent = Agent(ScriptedModel([ToolCall("1", "helper", {"query": "help"})]), [helper])
    agent.registry.register(lambda e: ends.append(e.agent_name), "query_end", lane="observe")
    async with agent.stream("go") as stream:
        async for event in stream:
            if isinstance(event, ToolStarted):
                await settled()
                break
    assert ends == ["helper", "agent"]
    await settled()
    assert not others()


async def test_an_end_in_the_middle_of_a_hook_is_recorded_as_cancelled():
    told = []
    agent = Agent(ScriptedModel(["done"]))

    async def wait(event):
        await asyncio.Event().wait()

    agent.registry.register(wait, "after_llm_call")
    agent.registry.sinks = (told.append,)
    async with agent.stream("go") as stream:
        async for _ in stream:
            await settled()
            break
    assert [(str(r.kind), r.failure) for r in told] == [
        ("hook_start", None),
        ("hook_failed", "cancelled"),
    ]


async def test_a_stream_that_nobody_took_has_nothing_to_end():
    model = ScriptedModel(["done"])
    async with Agent(model).stream("go"):
        pass
    await Agent(model).stream("go").aclose()
    assert model.requests == []
    assert not others()


async def test_a_stream_that_was_closed_does_not_begin():
    model = ScriptedModel(["done"])
    stream = Agent(model).stream("go")
    await stream.aclose()
    with pytest.raises(CheckrailError):
        await collected(stream)
    assert model.requests == []


async def test_a_stream_can_be_closed_twice_and_after_its_end(ends):
    agent = Agent(ScriptedModel(["done"]))
    agent.registry.register(lambda e, r: ends.append(r), "query_end", lane="observe")
    async with agent.stream("go") as stream:
        await collected(stream)
        await stream.aclose()
    await stream.aclose()
    assert [r.stop_reason for r in ends] == ["answer"]
    assert stream.response.content == "done"


async def test_closing_from_elsewhere_ends_the_listener_without_cancelling_it(agent, ends):
    stream = agent.stream("go")
    listener = Listener(stream)
    await agent.model.said.wait()
    await settled()
    await stream.aclose()
    await listener.task
    assert listener.text == "Hello there"
    assert [r.stop_reason for r in ends] == ["cancelled"]


async def test_a_closed_run_has_no_response_and_does_not_claim_to_go_on(agent):
    async with agent.stream("go") as stream:
        async for _ in stream:
            break
    with pytest.raises(CheckrailError, match=r"cancelled|closed"):
        _ = stream.response


async def test_who_leaves_a_run_that_has_failed_leaves_nothing_unheard_behind(caplog):
    agent = Agent(ScriptedModel([ModelError("down")]))
    agent.registry.register(lambda e: None, "before_llm_call")
    stream = agent.stream("go")
    async for _ in stream:
        await settled()
        break
    await stream.aclose()
    del agent, stream, _
    await settled()
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_cancellation_during_query_end_goes_through_and_fires_it_once():
    seen = []
    entered = asyncio.Event()

    async def slow(event):
        seen.append(event.value.stop_reason)
        entered.set()
        await asyncio.Event().wait()

    agent = Agent(ScriptedModel(["done"]))
    agent.registry.register(slow, "query_end", lane="observe")
    listener = Listener(agent.stream("go"))
    await entered.wait()
    listener.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listener.task
    assert seen == ["answer"]
    assert not others()


async def test_streams_side_by_side_do_not_mix():
    agent = Agent(ScriptedModel(lambda request: request.messages[-1]["content"] + " said"))
    listeners = [Listener(agent.stream(f"number {n}")) for n in range(10)]
    await asyncio.gather(*(listener.task for listener in listeners))
    assert [one.text for one in listeners] == [f"number {n} said" for n in range(10)]
