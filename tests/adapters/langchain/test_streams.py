"""Streams: what flows, what is held, what is counted, and in which forms they come."""

import asyncio
import dataclasses
import logging

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models._compat_bridge import message_to_events
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from checkrail.adapters.langchain import RunEnded
from checkrail.engine.outcomes import Block, Continue, Retry

from .support_graphs import (
    ASKED,
    RAN,
    Scripted,
    async_graph,
    called,
    guard_of,
    hooks,
    scripted,
)

USED = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Slow(Scripted):
    """Says a word, waits to be let on, and says the rest."""

    gate: asyncio.Event

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        used = {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}
        yield ChatGenerationChunk(message=AIMessageChunk("one ", usage_metadata=used))
        await self.gate.wait()
        yield ChatGenerationChunk(message=AIMessageChunk("two", usage_metadata=USED))


async def first_piece(guard):
    """Give the first piece of an answer that has not come to its end, or None if it is held."""
    gate = asyncio.Event()
    model = scripted(kind=Slow, gate=gate)
    with guard.activate():
        stream = model.astream("hi")
        waiting = asyncio.ensure_future(anext(stream))
        for _ in range(20):
            await asyncio.sleep(0)
        came = waiting.result().content if waiting.done() else None
        gate.set()
        await waiting
        assert (await anext(stream)).content == "two"
        await stream.aclose()
    return came


OBSERVER = ("after_llm_call", lambda event: None, {"lane": "observe"})
SHADOW = ("after_llm_call", lambda event: Block("no"), {"mode": "shadow"})
GATE = ("after_llm_call", lambda event: None, {"lane": "gate"})
ELSEWHERE = ("after_llm_call", lambda event: Block("no"), {"agents": "another"})
TOOLS = ("before_tool_call", lambda event: None)


@pytest.mark.parametrize("given", [OBSERVER, SHADOW, ELSEWHERE, TOOLS])
async def test_text_flows_where_no_hook_has_to_see_all_of_it(given):
    assert await first_piece(guard_of(hooks(given))) == "one "
    assert await first_piece(guard_of(hooks())) == "one "


async def test_text_is_held_for_a_hook_that_may_refuse_it():
    assert await first_piece(guard_of(hooks(GATE))) is None


async def test_a_refused_answer_is_never_sent_but_counted():
    guard = guard_of(hooks(("after_llm_call", lambda event: Block("rude"))))
    with guard.activate(), pytest.raises(RunEnded, match="rude"):
        await anext(scripted("you fool").astream("hi"))
    assert guard.usage == {"small": USED}


async def test_a_stream_that_nobody_reads_on_counts_what_it_had_told():
    guard = guard_of(hooks())
    with guard.activate():
        stream = scripted(kind=Slow, gate=asyncio.Event()).astream("hi")
        await anext(stream)
        await stream.aclose()
    assert guard.usage == {"small": {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}}


@pytest.mark.parametrize("held", [True, False])
async def test_a_stream_that_is_cancelled_counts_what_it_had_told(held):
    guard = guard_of(hooks(*([GATE] if held else [])))

    async def read():
        async for _ in scripted(kind=Slow, gate=asyncio.Event()).astream("hi"):
            pass

    with guard.activate():
        reading = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert guard.usage["small"]["input_tokens"] == 7


async def test_a_stream_that_breaks_counts_what_it_had_told():
    class Breaking(Scripted):
        def _stream(self, messages, stop=None, run_manager=None, **kwargs):
            yield ChatGenerationChunk(message=AIMessageChunk("one", usage_metadata=USED))
            raise ConnectionError("gone")

    guard = guard_of(hooks(GATE))
    with guard.activate(), pytest.raises(ConnectionError):
        await asyncio.to_thread(lambda: [*scripted(kind=Breaking).stream("hi")])
    assert guard.usage == {"small": USED}


class Tokens(BaseCallbackHandler):
    def __init__(self):
        self.told = []

    def on_llm_new_token(self, token, **kwargs):
        self.told.append(token)


class Telling(Scripted):
    """Tells its tokens itself, as many integrations do in a call that is not a stream."""

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        run_manager.on_llm_new_token("secret")
        return super()._generate(messages, stop, run_manager, **kwargs)


@pytest.mark.parametrize(("given", "told"), [(GATE, []), (OBSERVER, ["secret"])])
async def test_what_is_held_is_not_told_by_the_model_itself_either(given, told):
    tokens = Tokens()
    with guard_of(hooks(given)).activate():
        await scripted("hello", kind=Telling).ainvoke("hi", {"callbacks": [tokens]})
    assert tokens.told == told


class Native(Scripted):
    """Streams the events of LangChain's protocol itself."""

    def _stream_chat_model_events(self, messages, stop=None, run_manager=None, **kwargs):
        message = self._reply(messages, kwargs)
        yield from message_to_events(message, message_id="m1")

    async def _astream_chat_model_events(self, messages, stop=None, run_manager=None, **kwargs):
        for event in self._stream_chat_model_events(messages, stop, run_manager, **kwargs):
            yield event


def redact(event, message):
    return Continue(message.content.replace("hunter2", "[gone]"), redacted=True)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("kind", [Scripted, Native])
@pytest.mark.parametrize("held", [True, False])
async def test_the_events_of_the_newest_protocol_are_held_too(kind, held):
    guard = guard_of(hooks(*([("after_llm_call", redact)] if held else [OBSERVER])))
    with guard.activate():
        stream = await scripted("it is hunter2", kind=kind).astream_events("hi", version="v3")
        events = [event async for event in stream]
        message = await stream.output
    said = "it is [gone]" if held else "it is hunter2"
    assert message.text.strip() == said
    assert ("hunter2" in repr(events)) is not held
    assert guard.usage == {"small": USED}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("kind", [Scripted, Native])
async def test_a_graph_that_streams_the_newest_protocol_shows_nothing_that_was_changed(kind):
    def less(event, call):
        return Continue(dataclasses.replace(call, args={"amount": 77}))

    registry = hooks(("after_llm_call", redact), ("before_tool_call", less))
    pays = called(("pay", {"amount": 5}, "c1"), text="with hunter2")
    with guard_of(registry).activate():
        graph = async_graph(scripted(pays, "all done", kind=kind))
        stream = await graph.astream_events(ASKED, version="v3")
        events = repr([event async for event in stream])
    assert RAN == [("pay", 77, "bob")]
    assert "[gone]" in events
    assert "hunter2" not in events
    assert "'amount': 5" not in events


async def test_astream_events_show_nothing_that_was_changed():
    with guard_of(hooks(("after_llm_call", redact))).activate():
        graph = async_graph(scripted("it is hunter2"))
        events = [event async for event in graph.astream_events(ASKED, version="v2")]
    assert "[gone]" in repr(events)
    assert "hunter2" not in repr(events)


async def test_text_before_a_changed_tool_call_flows_and_is_not_said_twice():
    def less(event, call):
        return Continue(dataclasses.replace(call, args={"amount": 77}))

    pays = called(("pay", {"amount": 5}, "c1"), text="one moment")
    with guard_of(hooks(("before_tool_call", less))).activate():
        pieces = [piece async for piece in scripted(pays).astream("hi")]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert [piece.content for piece in pieces[:2]] == ["one ", "moment "]
    assert whole.content == "one moment "
    assert whole.tool_calls[0]["args"] == {"amount": 77}
    assert whole.usage_metadata == USED


async def test_an_answer_that_hooks_let_pass_comes_in_the_pieces_it_came_in():
    with guard_of(hooks(GATE)).activate():
        pieces = [piece.content async for piece in scripted("a b c").astream("hi")]
    assert pieces[:3] == ["a ", "b ", "c "]


async def test_arguments_that_are_no_json_stay_what_they_are():
    class Broken(Scripted):
        async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
            half = {"name": "pay", "id": "c1", "args": '{"amount": ', "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk("hunter2", tool_call_chunks=[half]))

    with guard_of(hooks(("after_llm_call", redact), TOOLS)).activate():
        pieces = [piece async for piece in scripted(kind=Broken).astream("hi")]
    whole = pieces[0] + pieces[1]
    assert whole.content == "[gone]"
    assert whole.tool_call_chunks[0]["args"] == '{"amount": '


async def test_retries_of_a_stream_end_with_the_budget():
    guard = guard_of(hooks(("after_llm_call", lambda event: Retry("again"), {"max_retries": 2})))
    with guard.activate(), pytest.raises(RunEnded, match="used up its 2 retries"):
        [piece async for piece in scripted("a", "b", "c", "d").astream("hi")]
    assert guard.ended.code == "retries_exhausted"
    assert guard.usage["small"]["total_tokens"] == 45


async def test_hooks_that_come_while_text_flows_cannot_take_it_back(caplog):
    registry = hooks(OBSERVER)
    guard = guard_of(registry)
    gate = asyncio.Event()
    with guard.activate(), caplog.at_level(logging.ERROR):
        stream = scripted(kind=Slow, gate=gate).astream("hi")
        texts = [(await anext(stream)).content]
        registry.register(lambda event: Continue("other"), "after_llm_call")
        gate.set()
        texts += [piece.content async for piece in stream]
    assert "".join(texts) == "one two"
    assert "what was sent already" in caplog.text
