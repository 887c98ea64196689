"""A run as a stream: which events come, in which order, and what is left when it is over."""

import asyncio
import threading

import pytest

from checkrail import Agent
from checkrail.agent import (
    Finished,
    HookCalled,
    ModelError,
    RunFailed,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from checkrail.engine.errors import CheckrailError
from checkrail.engine.outcomes import Block, Continue, Fail, Replace, Stop
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .support_streaming import (
    PacedModel,
    collected,
    ended,
    kinds,
    records,
    response_of,
    settled,
    text_of,
)


async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def calls(*numbers, text=""):
    """An answer that calls the tool for each of the numbers."""
    made = [ToolCall(f"c{number}", "double", {"number": number}) for number in numbers]
    return AssistantMessage(text, tool_calls=made)


async def test_text_comes_token_by_token_and_finished_is_last():
    events = await collected(Agent(ScriptedModel(["It is four."])).stream("2 + 2?"))
    assert events[:-1] == [TextDelta(text, 1) for text in ("It", " is", " four", ".")]
    assert response_of(events).content == "It is four."
    assert response_of(events).stop_reason == "answer"


async def test_a_stream_ends_in_the_response_that_run_gives():
    script = [calls(2, text="Let me see."), "It is four."]
    run = await Agent(ScriptedModel(script), [double]).run("2 + 2?")
    streamed = response_of(
        await collected(Agent(ScriptedModel(script), [double]).stream("2 + 2?")),
    )
    assert streamed == run


async def test_tools_are_told_between_the_texts_of_two_answers():
    model = ScriptedModel([calls(2, text="Let me see."), "It is four."])
    events = await collected(Agent(model, [double]).stream("2 + 2?"))
    assert kinds(events) == ["TextDelta", "ToolStarted", "ToolFinished", "TextDelta", "Finished"]
    assert (text_of(events, 1), text_of(events, 2)) == ("Let me see.", "It is four.")
    started, finished = (e for e in events if isinstance(e, (ToolStarted, ToolFinished)))
    assert (started.call.id, started.call.args) == ("c2", {"number": 2})
    assert (finished.result.id, finished.result.content) == ("c2", 4)


async def test_each_of_several_tools_is_told_when_it_starts_and_when_it_is_done():
    order = asyncio.Event()

    async def first() -> str:
        await order.wait()
        return "first"

    async def second() -> str:
        order.set()
        return "second"

    both = AssistantMessage(tool_calls=[ToolCall("1", "first"), ToolCall("2", "second")])
    events = await collected(Agent(ScriptedModel([both, "done"]), [first, second]).stream("go"))
    told = [e for e in events if isinstance(e, (ToolStarted, ToolFinished))]
    assert [e.call.id for e in told if isinstance(e, ToolStarted)] == ["1", "2"]
    assert [e.result.id for e in told if isinstance(e, ToolFinished)] == ["2", "1"]
    results = [m["content"] for m in response_of(events).messages if m["role"] == "tool"]
    assert results == ["first", "second"]


async def test_a_call_that_a_hook_answers_is_finished_but_was_never_started():
    agent = Agent(ScriptedModel([calls(1, 2), "done"]), [double])

    def decide(event, call):
        return Block("not one") if call.args["number"] == 1 else Replace("replaced")

    agent.registry.register(decide, "before_tool_call")
    events = await collected(agent.stream("go"))
    assert not [e for e in events if isinstance(e, ToolStarted)]
    told = [e.result for e in events if isinstance(e, ToolFinished)]
    assert [(r.id, r.content, r.is_error) for r in told] == [
        ("c1", "not one", True),
        ("c2", "replaced", False),
    ]


async def test_tools_are_told_with_what_hooks_made_of_call_and_result():
    agent = Agent(ScriptedModel([calls(1), "done"]), [double])
    agent.registry.register(lambda e: Continue('{"number": 21}'), "before_tool_call")
    agent.registry.register(lambda e, r: Continue(f"<{r.content}>"), "after_tool_call", name="b")
    events = await collected(agent.stream("go"))
    assert [e.call.args for e in events if isinstance(e, ToolStarted)] == [{"number": 21}]
    assert [e.result.content for e in events if isinstance(e, ToolFinished)] == ["<42>"]


async def test_hook_records_come_where_their_points_are():
    agent = Agent(ScriptedModel([calls(1), "done"]), [double])
    points = [
        "before_llm_call",
        "after_llm_call",
        "before_tool_call",
        "after_tool_call",
        "before_final_response",
        "query_end",
    ]
    agent.registry.register(lambda e: None, *points, name="watch", lane="observe")
    events = await collected(agent.stream("go"))
    told = records(events)
    assert [r.kind for r in told] == [RecordKind.START, RecordKind.COMPLETE] * 8
    assert [str(r.point) for r in told[::2]] == [*points[:4], *points[:2], *points[4:]]
    names = [
        str(e.record.point) if isinstance(e, HookCalled) else type(e).__name__ for e in events[:-1]
    ]
    once = list(dict.fromkeys(names))
    assert once == [
        *points[:3],
        "ToolStarted",
        "after_tool_call",
        "ToolFinished",
        "TextDelta",
        *points[4:],
    ]


async def test_the_records_of_a_stream_are_those_that_a_sink_gets():
    told = []
    agent = Agent(ScriptedModel(["done"]), hooks=HookRegistry(told.append))
    agent.registry.register(lambda e: None, "before_llm_call", "query_end", name="watch")
    assert records(await collected(agent.stream("go"))) == told
    assert len(told) == 4


async def test_hooks_in_agents_beneath_are_told_too_but_not_their_text():
    helper = Agent(ScriptedModel(["I am the helper."]), name="helper")
    helper.registry.register(lambda e: None, "after_llm_call", name="inner")
    ask = ToolCall("1", "helper", {"query": "help"})
    agent = Agent(ScriptedModel([ask, "done"]), [helper])
    agent.registry.register(lambda e: None, "before_llm_call", name="outer")
    events = await collected(agent.stream("go"))
    started = [r for r in records(events) if r.kind is RecordKind.START]
    told = [(r.hook, r.ids["agent_name"]) for r in started]
    assert told == [
        ("outer", "agent"),
        ("outer", "helper"),
        ("inner", "helper"),
        ("outer", "agent"),
    ]
    assert started[1].ids["parent_run_id"] == started[0].ids["run_id"]
    assert text_of(events) == "done"


async def test_hooks_in_an_agent_that_runs_in_a_thread_are_told_in_order():
    helper = Agent(ScriptedModel(["helped"]), name="helper")
    helper.registry.register(lambda e: None, "before_llm_call", "query_end", name="inner")

    def in_thread() -> str:
        return helper.run_sync("help").content

    agent = Agent(ScriptedModel([ToolCall("1", "in_thread"), "done"]), [in_thread])
    events = await collected(agent.stream("go"))
    names = [
        f"{e.record.point} {e.record.kind}" if isinstance(e, HookCalled) else type(e).__name__
        for e in events
    ]
    assert names == [
        "ToolStarted",
        "before_llm_call hook_start",
        "before_llm_call hook_complete",
        "query_end hook_start",
        "query_end hook_complete",
        "ToolFinished",
        "TextDelta",
        "Finished",
    ]


async def test_what_happens_in_a_thread_is_told_while_it_goes_on():
    heard = threading.Event()
    helper = Agent(ScriptedModel(["helped"]), name="helper")
    helper.registry.register(lambda e: None, "query_end", name="inner")

    def in_thread() -> bool:
        helper.run_sync("help")
        return heard.wait(5)

    agent = Agent(ScriptedModel([ToolCall("1", "in_thread"), "done"]), [in_thread])
    async for event in agent.stream("go"):
        if isinstance(event, HookCalled) and event.record.hook == "inner":
            heard.set()
        if isinstance(event, ToolFinished):
            assert event.result.content is True


async def test_a_fail_beside_other_tools_ends_the_stream_and_the_others():
    cleaned = []

    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    both = [ToolCall("1", "wait"), ToolCall("2", "double", {"number": 1}), ToolCall("3", "wait")]
    agent = Agent(ScriptedModel([AssistantMessage(tool_calls=both)]), [double, wait])
    agent.registry.register(lambda e: Fail("never"), "after_tool_call", tools=["double"])
    async with asyncio.timeout(10):
        _, error = await ended(agent.stream("go"))
    assert (str(error), cleaned) == ("never", [True, True])
    results = error.response.messages[-3:]
    assert [m["tool_call_id"] for m in results] == ["1", "2", "3"]
    assert all(m["is_error"] for m in results)


async def test_text_gives_the_text_alone():
    model = ScriptedModel([calls(2, text="Let me see. "), "It is four."])
    stream = Agent(model, [double]).stream("2 + 2?")
    assert "".join([piece async for piece in stream.text()]) == "Let me see. It is four."
    assert stream.response.content == "It is four."


async def test_the_response_is_there_when_the_stream_is_over_and_not_before():
    model = PacedModel("done")
    stream = Agent(model).stream("go")
    with pytest.raises(CheckrailError, match="not over"):
        _ = stream.response
    async for event in stream:
        if isinstance(event, TextDelta):
            with pytest.raises(CheckrailError, match="not over"):
                _ = stream.response
            model.may_finish.set()
    assert stream.response is event.response


@pytest.mark.parametrize("again", ["events", "text"])
async def test_a_stream_can_be_taken_once(again):
    stream = Agent(ScriptedModel(["one", "two"])).stream("go")
    await collected(stream)
    with pytest.raises(CheckrailError, match=r"agent\.stream\(\)"):
        await collected(stream if again == "events" else stream.text())
    assert stream.response.content == "one"


async def test_a_second_listener_is_refused_while_the_first_goes_on():
    stream = Agent(ScriptedModel(["It is four."])).stream("go")
    heard = []
    async for event in stream:
        heard.append(event)
        if len(heard) == 1:
            with pytest.raises(CheckrailError):
                await collected(stream)
    assert text_of(heard) == "It is four."


async def test_nothing_runs_until_somebody_listens():
    model = ScriptedModel(["done"])
    stream = Agent(model).stream("go")
    await settled()
    assert model.requests == []
    assert text_of(await collected(stream)) == "done"


async def test_the_model_is_told_that_it_streams():
    seen = []
    agent = Agent(ScriptedModel(["one", "two"]))
    agent.registry.register(lambda e, r: seen.append(r.stream), "before_llm_call")
    await collected(agent.stream("go"))
    await agent.run("go")
    assert seen == [True, False]


@pytest.mark.parametrize(
    ("point", "outcome", "reason", "text"),
    [
        ("before_llm_call", Stop("cached"), "stop", "cached"),
        ("before_llm_call", Replace("replaced"), "answer", "replaced"),
        ("after_llm_call", Stop("stopped"), "stop", "stopped"),
        ("before_final_response", Stop("stopped"), "stop", "stopped"),
        ("before_final_response", Continue("changed"), "answer", "changed"),
        ("before_llm_call", Block("no"), "block", ""),
        ("after_llm_call", Block("no"), "block", ""),
        ("before_final_response", Block("no"), "block", ""),
    ],
)
async def test_the_text_of_a_stream_is_that_of_its_response(point, outcome, reason, text):
    agent = Agent(ScriptedModel(["from the model"]))
    agent.registry.register(lambda e: outcome, point)
    events = await collected(agent.stream("go"))
    response = response_of(events)
    assert (response.stop_reason, response.content, text_of(events)) == (reason, text, text)


async def test_query_end_changes_what_is_streamed():
    agent = Agent(ScriptedModel(["from the model"]))
    agent.registry.register(lambda e: Continue("changed at the end"), "query_end")
    events = await collected(agent.stream("go"))
    assert text_of(events) == response_of(events).content == "changed at the end"


async def test_at_the_limit_of_iterations_there_is_a_finished_with_the_reason():
    model = ScriptedModel([calls(1, text="one"), calls(2, text="two")])
    events = await collected(Agent(model, [double], max_iterations=2).stream("go"))
    assert response_of(events).stop_reason == "max_iterations"
    assert text_of(events) == "onetwo"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (ModelError("the model is down", usage={"input_tokens": 3}), "the model is down"),
        (OSError("no route"), "no route"),
        (AssistantMessage("Let me see.", tool_calls=[ToolCall("1", "fatal")]), "never"),
    ],
)
async def test_a_run_that_fails_raises_after_its_last_event(reply, told):
    async def fatal() -> str:
        return "unreached"

    agent = Agent(ScriptedModel([reply]), [fatal])
    agent.registry.register(lambda e: Fail("never"), "before_tool_call")
    agent.registry.register(lambda e: None, "query_end", name="last", lane="observe")
    events, error = await ended(agent.stream("go"))
    assert isinstance(error, RunFailed)
    assert told in str(error)
    assert events[-1].record.hook == "last"
    assert not [e for e in events if isinstance(e, Finished)]


async def test_the_text_of_a_run_that_fails_is_told_before_it_raises():
    agent = Agent(ScriptedModel([calls(1, text="One moment."), ModelError("down")]), [double])
    pieces = agent.stream("go").text()
    heard = [await anext(pieces) for _ in range(3)]
    with pytest.raises(RunFailed, match="down"):
        await anext(pieces)
    assert "".join(heard) == "One moment."


async def test_what_was_said_before_the_model_broke_off_has_been_streamed():
    class Breaking(ScriptedModel):
        async def stream(self, request):
            yield "Half an "
            raise ModelError("broke off", usage={"output_tokens": 2})

    stream = Agent(Breaking([])).stream("go")
    events, error = await ended(stream)
    assert text_of(events) == "Half an "
    assert error.response.usage == {"output_tokens": 2}
    assert [m["role"] for m in error.response.messages] == ["user"]


async def test_the_response_of_a_failed_run_is_that_of_its_error():
    stream = Agent(ScriptedModel([ModelError("down")])).stream("go")
    _, error = await ended(stream)
    assert stream.response is error.response
    assert stream.response.stop_reason == "error"


@pytest.mark.parametrize("rounds", range(8))
async def test_finished_is_last_also_with_hooks_in_the_background(rounds):
    async def slow(event):
        for _ in range(rounds):
            await asyncio.sleep(0)

    agent = Agent(ScriptedModel(["done"]))
    agent.registry.register(slow, "before_final_response", "query_end", background=True)
    events = await collected(agent.stream("go"))
    await agent.aclose()
    assert [i for i, e in enumerate(events) if isinstance(e, Finished)] == [len(events) - 1]


async def test_a_model_may_stream_with_any_async_iterator():
    class Pieces:
        def __init__(self):
            self.left = ["Hel", "lo", AssistantMessage("Hello", usage={})]

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop(0)

    class Iterating(ScriptedModel):
        def stream(self, request):
            return Pieces()

    events, error = await ended(Agent(Iterating([])).stream("go"))
    assert (text_of(events), error) == ("Hello", None)


@pytest.mark.parametrize("trouble", ["hangs", "fails", "fails to close"])
async def test_an_answer_that_is_whole_counts_whatever_the_model_does_after_it(trouble):
    class Troubled(ScriptedModel):
        async def stream(self, request):
            try:
                yield "done"
                yield AssistantMessage("done", usage={"tokens": 1})
                if trouble == "hangs":
                    await asyncio.sleep(10)
                raise OSError(trouble)
            finally:
                if trouble == "fails to close":
                    raise OSError(trouble)

    events, error = await ended(Agent(Troubled([]), model_timeout=0.05).stream("go"))
    assert error is None
    assert (response_of(events).content, response_of(events).usage) == ("done", {"tokens": 1})


async def test_an_answer_in_parts_is_streamed_as_its_text():
    parts = [
        {"type": "thinking", "thinking": "hmm"},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "four."},
    ]
    events = await collected(Agent(ScriptedModel([AssistantMessage(parts)])).stream("go"))
    assert text_of(events) == "It is four."
    assert response_of(events).content == parts


async def test_a_model_that_says_more_at_last_than_it_streamed_is_heard_in_full():
    class Late(ScriptedModel):
        async def stream(self, request):
            yield "It is"
            yield AssistantMessage("It is four.", usage={})

    events = await collected(Agent(Late([])).stream("go"))
    assert text_of(events) == "It is four."


@pytest.mark.parametrize("garbage", [None, 5, {"content": "x"}, b"bytes"])
async def test_a_model_that_streams_garbage_fails_and_says_so(garbage):
    class Garbage(ScriptedModel):
        async def stream(self, request):
            yield "text"
            yield garbage

    _, error = await ended(Agent(Garbage([], name="odd")).stream("go"))
    assert isinstance(error, RunFailed)
    assert "'odd'" in str(error)
    assert type(garbage).__name__ in str(error)


async def test_a_model_that_streams_nothing_fails_and_says_so():
    class Silent(ScriptedModel):
        async def stream(self, request):
            for piece in ():
                yield piece

    _, error = await ended(Agent(Silent([], name="mute")).stream("go"))
    assert isinstance(error, RunFailed)
    assert "mute" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        AssistantMessage("x", tool_calls=["no call"]),
        AssistantMessage("x", tool_calls=None),
        AssistantMessage("x", usage="many"),
        AssistantMessage(5),
    ],
    ids=["calls", "no calls", "usage", "content"],
)
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_an_answer_with_garbage_inside_is_a_failure_of_the_model(answer, way):
    class Garbage(ScriptedModel):
        async def complete(self, request):
            return answer

        async def stream(self, request):
            yield answer

    ends = []
    agent = Agent(Garbage([], name="odd"))
    agent.registry.register(lambda e, r: ends.append(r.stop_reason), "query_end", lane="observe")
    with pytest.raises(RunFailed, match="odd"):
        await (agent.run("go") if way == "run" else collected(agent.stream("go")))
    assert ends == ["error"]


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_a_cancellation_that_the_model_made_up_is_a_failure_of_the_model(way):
    agent = Agent(ScriptedModel([asyncio.CancelledError()], name="odd"))
    with pytest.raises(RunFailed, match="odd"):
        await (agent.run("go") if way == "run" else collected(agent.stream("go")))


async def test_a_conversation_remembers_what_was_streamed():
    model = ScriptedModel(["one", "two"])
    talk = Agent(model).conversation()
    await collected(talk.stream("first"))
    await collected(talk.stream("second"))
    assert [m["content"] for m in model.requests[1].messages] == ["first", "one", "second"]
    assert [m["content"] for m in talk.messages] == ["first", "one", "second", "two"]


async def test_a_conversation_that_is_being_streamed_is_busy():
    model = PacedModel("one")
    talk = Agent(model).conversation()
    async for event in talk.stream("first"):
        if isinstance(event, TextDelta):
            with pytest.raises(CheckrailError, match="busy"):
                await talk.run("second")
            model.may_finish.set()
    assert [m["content"] for m in talk.messages] == ["first", "one"]


async def test_ids_of_a_stream_are_those_of_its_events():
    seen = []
    agent = Agent(ScriptedModel(["done"]), name="worker")
    agent.registry.register(
        lambda e: seen.append((e.session_id, e.run_id, e.user.identity, e.agent_name)),
        "query_end",
        lane="observe",
    )
    await collected(agent.stream("go", session_id="s", run_id="r", user="ann"))
    assert seen == [("s", "r", "ann", "worker")]
