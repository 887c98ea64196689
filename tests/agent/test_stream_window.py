"""Hooks for which a window is enough: all but the last characters go out while the model talks."""

import asyncio
import re

import pytest

from checkrail import Agent, Hooks
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Ask, Block, Continue, Retry, Stop
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .support_streaming import (
    HIDDEN,
    SECRET,
    CharModel,
    PacedModel,
    collected,
    heard_midway,
    hide,
    kinds,
    records,
    response_of,
    text_of,
)

TEXT = "Hello there, you all."
REFUSING = ["after_llm_call", "before_final_response"]


def nothing(event):
    """Go on, whatever it is."""


def windowed(hook=nothing, *points, pieces=tuple(TEXT), window=5, **options):
    """An agent with a hook that needs a window, whose model stops before it is done."""
    agent = Agent(PacedModel(*pieces))
    points = points or ("after_llm_call",)
    agent.registry.register(hook, *points, stream=f"window:{window}", **options)
    return agent


# What goes out


@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("window", [1, 5, 7, 20])
async def test_all_but_the_last_characters_go_out_while_the_model_talks(point, lane, window):
    agent = windowed(nothing, point, window=window, lane=lane)
    assert await heard_midway(agent) == TEXT[:-window]


async def test_a_text_that_is_no_longer_than_the_window_waits():
    assert await heard_midway(windowed(window=len(TEXT))) == ""


async def test_all_of_it_is_sent_in_the_end():
    agent = Agent(ScriptedModel([TEXT]))
    agent.registry.register(nothing, "after_llm_call", stream="window:5")
    events = await collected(agent.stream("go"))
    assert text_of(events) == TEXT
    assert kinds(events)[0] == "TextDelta"


@pytest.mark.parametrize("pieces", [(TEXT,), (TEXT[:3], TEXT[3:]), ("", TEXT, "")])
async def test_the_model_may_cut_its_text_as_it_likes(pieces):
    assert await heard_midway(windowed(pieces=pieces)) == TEXT[:-5]


async def test_of_several_gates_the_widest_window_counts():
    agent = windowed(window=3, name="narrow", lane="gate")
    options = {"stream": "window:7", "lane": "gate", "name": "wide"}
    agent.registry.register(nothing, "before_final_response", **options)
    assert await heard_midway(agent) == TEXT[:-7]


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("point", REFUSING)
async def test_behind_a_hook_that_may_change_the_text_no_window_is_enough(point, lane):
    agent = windowed(name="changes", window=3)
    agent.registry.register(nothing, point, stream="window:3", lane=lane, name="behind")
    assert await heard_midway(agent) == ""


async def test_a_window_of_no_said_size_is_256_characters():
    agent = Agent(PacedModel("x" * 500))
    agent.registry.register(nothing, "after_llm_call", stream="window")
    assert await heard_midway(agent) == "x" * 244


async def test_a_long_text_is_not_tried_for_every_piece():
    tried = []
    agent = Agent(CharModel(["x" * 5000]))
    agent.registry.register(lambda e, m: tried.append(m.content), "after_llm_call", stream="window")
    events = await collected(agent.stream("go"))
    assert text_of(events) == "x" * 5000
    assert len(tried) < 500


async def test_a_window_and_a_hook_that_needs_the_whole_hold_it_all():
    agent = windowed()
    agent.registry.register(nothing, "before_final_response", name="whole")
    assert await heard_midway(agent) == ""


@pytest.mark.parametrize(
    "options", [{"models": ["x"]}, {"when": lambda event: True}], ids=["models", "when"]
)
async def test_what_can_only_be_known_of_the_answer_holds_it_all(options):
    assert await heard_midway(windowed(**options)) == ""


async def test_a_window_is_not_enough_at_query_end():
    assert await heard_midway(windowed(nothing, "query_end")) == ""


async def test_a_window_is_not_enough_for_a_schema():
    agent = Agent(PacedModel('"', "Hello", '"'), output_schema={"type": "string"})
    agent.registry.register(nothing, "after_llm_call", stream="window:1")
    assert await heard_midway(agent) == ""


@pytest.mark.parametrize("options", [{"mode": "shadow"}, {"lane": "observe"}, {"mode": "off"}])
async def test_who_only_watches_needs_no_window(options):
    assert await heard_midway(windowed(**options)) == TEXT


async def test_a_window_for_others_is_none():
    assert await heard_midway(windowed(users=["bob"]), user="ann") == TEXT


async def test_windows_of_all_levels_count():
    outer, inner = Hooks(), HookRegistry()
    outer.registry.register(nothing, "after_llm_call", stream="window:7", lane="gate")
    inner.register(nothing, "after_llm_call", stream="window:2", lane="gate")
    agent = Agent(PacedModel(*TEXT), hooks=[outer, inner])
    assert await heard_midway(agent) == TEXT[:-7]


# What hooks make of it


@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_a_secret_in_pieces_is_never_sent_in_part(point, size):
    text = f"The badge is {SECRET}, and that of Bob is {SECRET}. Show it at B-1."
    agent = Agent(CharModel([text], size))
    agent.registry.register(hide, point, stream="window:9")
    events = await collected(agent.stream("go"))
    wanted = text.replace(SECRET, HIDDEN)
    assert text_of(events) == response_of(events).content == wanted
    assert all(wanted.startswith(text_of(events[:i])) for i in range(len(events)))


async def test_what_goes_out_is_the_text_as_the_hook_leaves_it():
    text = f"The badge is {SECRET}, and no more is to be said of it now."
    agent = windowed(hide, pieces=(text,), window=10)
    heard = await heard_midway(agent)
    assert heard == text.replace(SECRET, HIDDEN)[:-10]


async def test_a_word_that_turns_out_to_be_another_is_sent_as_it_is():
    def four(event, message):
        return Continue(re.sub(r"\b\d{4}\b", "[four digits are removed]", message.content))

    text = "The PIN is: 1234567 and the other one 1234, and that is all."
    agent = Agent(CharModel([text]))
    agent.registry.register(four, "after_llm_call", stream="window:8")
    events = await collected(agent.stream("go"))
    assert text_of(events) == text.replace("1234,", "[four digits are removed],")


async def test_hooks_that_change_the_text_one_after_the_other_are_heard_as_one():
    agent = Agent(CharModel(["one two three four five six"]))
    register = agent.registry.register
    register(
        lambda e, m: Continue(m.content.replace("two", "2")),
        "after_llm_call",
        stream="window:5",
        name="first",
    )
    register(
        lambda e, m: Continue(m.content.replace("2", "II")),
        "before_final_response",
        stream="window:5",
        name="second",
    )
    events = await collected(agent.stream("go"))
    assert text_of(events) == "one II three four five six"


@pytest.mark.parametrize("points", [("after_llm_call",) * 2, REFUSING], ids=str)
async def test_a_window_is_of_the_text_that_its_hook_sees_and_not_of_the_model_s(points):
    def plain(event, message):
        return Continue(message.content.replace("*", ""))

    text = "It is B-**1**2**3**4**5**6**, and here is some more of it."
    agent = Agent(CharModel([text]))
    agent.registry.register(plain, points[0], stream="window:1", priority=1)
    agent.registry.register(hide, points[1], stream="window:9")
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"It is {HIDDEN}, and here is some more of it."


async def test_an_outer_hook_that_is_the_last_of_its_level_hides_no_inner_one():
    outer, inner = HookRegistry(), HookRegistry()
    outer.register(
        lambda e, m: Continue(m.content.replace("!", "."), last=True),
        "after_llm_call",
        stream="window:9",
    )
    inner.register(hide, "after_llm_call", stream="window:9")
    agent = Agent(CharModel([f"It is {SECRET}! And here is some more."]), hooks=[outer, inner])
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"It is {HIDDEN}. And here is some more."


@pytest.mark.parametrize("fails", [{1}, {2}, {3}, {4}, {1, 2, 3}, {4, 5, 6}], ids=str)
async def test_a_try_that_fails_lets_nothing_out(fails):
    tries = []

    def flaky(event, message):
        tries.append(message)
        if len(tries) in fails:
            raise OSError
        return hide(event, message)

    agent = Agent(CharModel([f"It is {SECRET}. And here is some more."], 6))
    agent.registry.register(flaky, "after_llm_call", stream="window:9")
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"It is {HIDDEN}. And here is some more."


@pytest.mark.parametrize("point", REFUSING)
async def test_a_hook_that_only_the_whole_answer_is_good_enough_for_holds_it(point):
    def particular(event, message):
        if message.usage is None:
            raise ValueError("this is no answer of a model")
        return hide(event, message)

    agent = Agent(CharModel([f"It is {SECRET}. And here is some more."]))
    agent.registry.register(particular, point, stream="window:9")
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"It is {HIDDEN}. And here is some more."


async def test_a_try_that_takes_too_long_lets_nothing_out():
    tries = []

    async def slow(event, message):
        tries.append(message)
        if len(tries) <= 2:
            await asyncio.sleep(10)
        return hide(event, message)

    agent = Agent(ScriptedModel([f"It is {SECRET}."]))
    agent.registry.register(slow, "after_llm_call", stream="window:9", timeout=0.02)
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"It is {HIDDEN}."


class Reloading(CharModel):
    """Has something done after it has said a full stop."""

    def __init__(self, text, reload):
        super().__init__([text])
        self.reload = reload

    async def stream(self, request):
        async for piece in super().stream(request):
            yield piece
            if piece == ".":
                self.reload()


async def test_an_unrelated_hook_that_comes_meanwhile_does_not_open_the_window():
    def reload():
        agent.registry.register(nothing, "before_llm_call")

    agent = Agent(Reloading(f"So. It is {SECRET}, and here is some more.", reload))
    agent.registry.register(hide, "after_llm_call", stream="window:9")
    events = await collected(agent.stream("go"))
    assert text_of(events) == f"So. It is {HIDDEN}, and here is some more."


@pytest.mark.parametrize("stream", ["whole", "window:5"])
async def test_a_hook_that_comes_while_the_model_talks_holds_what_is_still_to_be_said(stream):
    def reload():
        agent.registry.register(lambda e: Block("no"), "after_llm_call", stream=stream)

    agent = Agent(Reloading("Until here. What follows is held", reload))
    events = await collected(agent.stream("go"))
    assert response_of(events).stop_reason == "block"
    assert text_of(events) == "Until here."


@pytest.mark.parametrize("stream", ["whole", "window:5"])
async def test_a_hook_that_goes_while_the_model_talks_lets_go_of_what_it_held(stream):
    def reload():
        agent.registry.unregister("gone")

    agent = Agent(Reloading("Until here. What follows is free", reload))
    agent.registry.register(nothing, "after_llm_call", stream=stream, name="gone")
    events = await collected(agent.stream("go"))
    assert text_of(events) == "Until here. What follows is free"


# What is refused


@pytest.mark.parametrize("outcome", [Block("no"), Retry("again"), Ask("ok?"), Stop("other")])
async def test_what_a_hook_says_of_a_part_stops_the_release_at_once(outcome):
    def refuse(event, message):
        return outcome if "bad" in message.content else None

    agent = windowed(refuse, pieces=("good, ", "good, ", "good, ", "bad and worse and more"))
    heard = await heard_midway(agent)
    assert heard == "good, good, good, "[:-5]


@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_the_rest_of_a_blocked_answer_is_never_sent(point, lane):
    def refuse(event, message):
        return Block("no") if "bad" in message.content else None

    text = "This much is good and can be said. This is bad, and is not. Nor this."
    agent = Agent(CharModel([text]))
    agent.registry.register(refuse, point, lane=lane, stream="window:6")
    talk = agent.conversation()
    events = await collected(talk.stream("go"))
    assert "This much is good and can be said. This".startswith(text_of(events))
    assert text_of(events).startswith("This much is good")
    assert response_of(events).stop_reason == "block"
    assert [m["role"] for m in talk.messages] == ["user"]


async def test_what_is_only_refused_in_part_is_sent_when_it_is_whole():
    def ends(event, message):
        return None if message.content.endswith(".") else Retry("end your sentence")

    agent = Agent(CharModel(["It has an end."]))
    agent.registry.register(ends, "after_llm_call", stream="window:3")
    events = await collected(agent.stream("go"))
    assert text_of(events) == "It has an end."
    assert len(agent.model.requests) == 1


async def test_trying_is_not_charged_for():
    def often(event, message):
        return Retry("more") if len(message.content) < 60 else None

    agent = Agent(CharModel(["x" * 59, "y" * 60]))
    agent.registry.register(often, "after_llm_call", stream="window:2", max_retries=1)
    events = await collected(agent.stream("go"))
    assert text_of(events) == "y" * 60


async def test_nobody_is_asked_about_a_part():
    questions = []

    async def person(question):
        questions.append(question.value.content)

    agent = Agent(CharModel([TEXT]), ask=person)
    agent.registry.register(lambda e: Ask("ok?"), "after_llm_call", stream="window:3")
    events = await collected(agent.stream("go"))
    assert questions == [TEXT]
    assert text_of(events) == ""


# What is told


async def test_a_hook_is_called_on_the_whole_answer_and_only_that_is_recorded():
    told, seen = [], []
    agent = Agent(CharModel([TEXT]), hooks=HookRegistry(told.append))
    agent.registry.register(
        lambda e, m: seen.append((m.content, m.usage)), "after_llm_call", stream="window:5"
    )
    events = await collected(agent.stream("go"))
    assert [r.kind for r in told] == [RecordKind.START, RecordKind.COMPLETE]
    assert records(events) == told
    assert seen[-1] == (TEXT, response_of(events).usage)
    assert len(seen) > 1


async def test_trying_leaves_nothing_in_the_conversation():
    agent = Agent(CharModel([TEXT]))
    note = {"role": "user", "content": "a note"}
    agent.registry.register(lambda e: Continue(inject=[note]), "after_llm_call", stream="window:5")
    response = response_of(await collected(agent.stream("go")))
    assert [m["content"] for m in response.messages] == ["go", TEXT, "a note"]


async def test_a_hook_s_own_stream_does_not_try_it_again():
    calls = []
    agent = Agent(ScriptedModel(lambda request: TEXT))

    async def ask_back(event, message):
        calls.append(message.content)
        assert len(calls) < 20
        await collected(agent.stream("What do you think?"))

    agent.registry.register(ask_back, "after_llm_call", stream="window:8")
    events = await collected(agent.stream("go"))
    assert text_of(events) == TEXT
    assert len(agent.model.requests) == len(calls) + 1


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("point", REFUSING)
async def test_text_before_tool_calls_is_sent_to_its_end(point, calls):
    async def look() -> str:
        return "found"

    asked = [ToolCall(f"{n}", "look") for n in range(calls)]
    first = AssistantMessage(f"I look for {SECRET} in all the books.", tool_calls=asked)
    agent = Agent(CharModel([first, f"Found {SECRET} there."]), [look])
    agent.registry.register(hide, point, stream="window:9")
    events = await collected(agent.stream("go"))
    assert text_of(events, 1) == f"I look for {HIDDEN} in all the books."
    assert text_of(events, 2) == f"Found {HIDDEN} there."
    assert kinds(events)[-1] == "Finished"


# What is refused at registration


@pytest.mark.parametrize(
    "stream", ["windows", "window:0", "window:-1", "window:", "window:1.5", "", 5, None, True]
)
def test_a_stream_that_is_no_stream_is_refused(stream):
    with pytest.raises(HookRefusedError, match="window:N"):
        HookRegistry().register(nothing, "after_llm_call", stream=stream)


@pytest.mark.parametrize("stream", ["whole", "window", "window:1", "window:1000000"])
def test_a_stream_that_is_one_is_not(stream):
    assert HookRegistry().register(nothing, "after_llm_call", stream=stream).stream == stream


def test_effects_and_a_window_are_refused():
    agent = Agent(ScriptedModel([]))
    with pytest.raises(HookRefusedError, match="effects"):
        agent.on("after_llm_call").handle(effects=[nothing], stream="window:5")
