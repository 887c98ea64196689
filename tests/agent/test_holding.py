"""Which hooks hold the text of a stream until they have seen the whole answer, and which do not."""

import asyncio
import re

import pytest

from checkrail import Agent, Hooks
from checkrail.agent import HookCalled, TextDelta, ToolStarted
from checkrail.builtin.redact import redact
from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue, Reject, Retry
from checkrail.engine.records import RecordKind
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .support_streaming import (
    Listener,
    PacedModel,
    collected,
    heard_midway,
    response_of,
    settled,
    text_of,
)

POINTS = ["after_llm_call", "before_final_response", "query_end"]
REFUSING = POINTS[:2]
TEXT = "Hello there, you."


def nothing(event):
    """Go on, whatever it is: a hook that could have done otherwise."""


def paced(*args, **options):
    """An agent whose model says its text, and then waits until it may finish."""
    return Agent(PacedModel("Hello", " there,", " you."), *args, **options)


def with_hook(*points, **options):
    """A paced agent with a hook of its own."""
    agent = paced()
    agent.registry.register(nothing, *points, **options)
    return agent


# Who holds


@pytest.mark.parametrize("point", POINTS)
async def test_a_hook_that_may_change_the_answer_holds_its_text(point):
    assert await heard_midway(with_hook(point)) == ""


@pytest.mark.parametrize("point", REFUSING)
async def test_a_gate_holds_the_text(point):
    assert await heard_midway(with_hook(point, lane="gate")) == ""


@pytest.mark.parametrize("point", ["post_response", "transform_response"])
async def test_a_hook_holds_by_any_name_of_its_point(point):
    assert await heard_midway(with_hook(point)) == ""


@pytest.mark.parametrize(
    "match",
    [
        {"agents": ["a*"]},
        {"users": ["ann", "bob"]},
        {"channels": ["/^w/"]},
        {"tags": ["vip"]},
        {"agents": ["agent"], "users": ["ann"], "channels": ["web"], "tags": ["vip"]},
    ],
    ids=str,
)
async def test_a_hook_that_is_meant_for_this_run_holds(match):
    ids = {"user": "ann", "metadata": {"channel": "web", "tags": ["vip", "beta"]}}
    assert await heard_midway(with_hook("after_llm_call", **match), **ids) == ""


async def test_a_hook_for_some_models_holds_always_for_the_answer_says_which_it_was():
    assert await heard_midway(with_hook("after_llm_call", models=["another"])) == ""


async def test_a_hook_with_a_condition_holds_for_the_condition_is_about_the_answer():
    assert await heard_midway(with_hook("after_llm_call", when=lambda event: False)) == ""


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_a_hook_of_any_level_holds(level):
    levels = [HookRegistry(), Hooks(), HookRegistry()]
    registry = levels[level].registry if level == 1 else levels[level]
    registry.register(nothing, "before_final_response")
    assert await heard_midway(paced(hooks=levels)) == ""


async def test_a_hook_of_a_run_around_holds():
    around = HookRegistry()
    around.register(nothing, "after_llm_call", lane="gate")
    assert await heard_midway(paced(), scope=around.scope(run_id="r")) == ""


@pytest.mark.parametrize("decision", ["retry", "block", "ask", "fail"])
async def test_a_fluent_hook_that_refuses_holds(decision):
    agent = paced()
    agent.on("after_llm_call").when(lambda status: False).handle(decision)
    assert await heard_midway(agent) == ""


async def test_a_fluent_hook_that_changes_holds():
    agent = paced()
    agent.on("before_final_response").handle(value=lambda status, message: message)
    assert await heard_midway(agent) == ""


@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("options", [{}, {"on_error": "block"}, {"lane": "gate"}], ids=str)
async def test_a_fluent_hook_with_effects_holds_for_an_effect_can_refuse(point, options):
    agent = paced()
    agent.on(point).handle(effects=[lambda status: None], **options)
    assert await heard_midway(agent) == ""


@pytest.mark.parametrize("point", REFUSING)
async def test_what_an_effect_refuses_has_not_been_sent(point):
    def refuse(status):
        raise Reject("not this")

    agent = Agent(ScriptedModel([TEXT]))
    agent.on(point).handle(effects=[refuse])
    events = await collected(agent.stream("go"))
    assert (text_of(events), response_of(events).error) == ("", "not this")


async def test_a_schema_for_the_output_holds():
    agent = paced(output_schema={"type": "string"})
    agent.model.answer = AssistantMessage('"Hello"', usage={})
    assert await heard_midway(agent) == ""


async def test_one_that_holds_among_many_that_do_not_is_enough():
    agent = with_hook("after_llm_call", lane="observe", name="watch")
    agent.registry.register(nothing, "after_llm_call", mode="shadow", name="tried")
    agent.registry.register(nothing, "before_final_response", name="holds")
    assert await heard_midway(agent) == ""


async def test_hooks_that_come_while_the_model_is_about_to_be_called_hold():
    agent = Agent(PacedModel("Hello", " there"), hooks=HookRegistry())

    def reload(event):
        agent.registry.swap([])
        agent.registry.register(lambda event: Block("no"), "after_llm_call")

    agent.registry.register(reload, "before_llm_call")
    assert await heard_midway(agent) == ""


# Who does not


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    "options",
    [
        {"lane": "observe"},
        {"lane": "observe", "background": True},
        {"mode": "shadow"},
        {"mode": "off"},
        {"enabled": False},
    ],
    ids=str,
)
async def test_who_only_watches_never_holds(point, options):
    agent = with_hook(point, **options)
    assert await heard_midway(agent) == TEXT
    await agent.aclose()


@pytest.mark.parametrize("point", REFUSING)
async def test_a_gate_in_shadow_never_holds(point):
    assert await heard_midway(with_hook(point, lane="gate", mode="shadow")) == TEXT


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    "match",
    [
        {"agents": ["other"]},
        {"users": ["bob"]},
        {"channels": ["mail"]},
        {"tags": ["beta"]},
        {"agents": ["agent"], "tags": ["beta"]},
    ],
    ids=str,
)
async def test_a_hook_that_is_meant_for_others_never_holds(point, match):
    ids = {"user": "ann", "metadata": {"channel": "web", "tags": ["vip"]}}
    assert await heard_midway(with_hook(point, **match), **ids) == TEXT


@pytest.mark.parametrize("match", [{"users": ["*"]}, {"channels": ["*"]}, {"tags": ["*"]}], ids=str)
async def test_a_hook_for_some_users_does_not_hold_where_there_is_none(match):
    assert await heard_midway(with_hook("after_llm_call", **match)) == TEXT


@pytest.mark.parametrize("point", ["before_llm_call", "before_tool_call", "on_tool_error"])
async def test_hooks_of_other_points_do_not_hold(point):
    assert await heard_midway(with_hook(point)) == TEXT


async def test_effects_at_query_end_do_not_hold_for_they_can_refuse_nothing_there():
    agent = paced()
    agent.on("query_end").when(lambda status: True).handle(effects=[lambda status: None])
    assert await heard_midway(agent) == TEXT


@pytest.mark.parametrize("point", POINTS)
async def test_effects_of_an_observer_do_not_hold(point):
    agent = paced()
    agent.on(point).handle(effects=[lambda status: None], lane="observe")
    assert await heard_midway(agent) == TEXT


async def test_a_hook_that_was_taken_away_does_not_hold():
    agent = with_hook("after_llm_call", name="gone")
    agent.registry.unregister("gone")
    assert await heard_midway(agent) == TEXT


async def test_hooks_that_go_while_the_model_is_about_to_be_called_do_not_hold():
    agent = with_hook("after_llm_call", name="gone")
    agent.registry.register(lambda e: agent.registry.unregister("gone") and None, "before_llm_call")
    assert await heard_midway(agent) == TEXT


async def test_without_hooks_each_token_comes_while_the_model_waits_to_say_the_next():
    asked = asyncio.Semaphore(0)

    class Asked(ScriptedModel):
        async def stream(self, request):
            for piece in ("one", "two", "three"):
                await asked.acquire()
                yield piece
            await asked.acquire()
            yield AssistantMessage("onetwothree", usage={})

    agent = Agent(Asked([]))
    agent.registry.register(nothing, *POINTS, lane="observe", name="watch")
    listener = Listener(agent.stream("go"))
    heard = []
    for _ in range(3):
        asked.release()
        await settled()
        heard.append(listener.text)
    asked.release()
    await listener.task
    assert heard == ["one", "onetwo", "onetwothree"]


async def test_every_run_is_looked_at_anew():
    agent = Agent(PacedModel("Hello"))
    agent.registry.register(nothing, "after_llm_call", users=["bob"])
    assert await heard_midway(agent, user="ann") == "Hello"
    agent.model = PacedModel("Hello")
    assert await heard_midway(agent, user="bob") == ""


# What comes when


def place(events, kind, test=lambda event: True):
    """Find where the first event of a kind is."""
    return next(i for i, event in enumerate(events) if isinstance(event, kind) and test(event))


def ending_of(point):
    """Give a test for the record of a hook's end at a point."""
    return lambda e: e.record.point == point and e.record.kind is not RecordKind.START


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_held_text_comes_after_the_last_verdict_on_it(point, lane):
    if (point, lane) == ("query_end", "gate"):
        lane = "transform"
    agent = Agent(ScriptedModel([TEXT]))
    agent.registry.register(nothing, point, lane=lane, name="first")
    agent.registry.register(nothing, "query_end", lane="observe", name="last")
    events = await collected(agent.stream("go"))
    text = place(events, TextDelta)
    assert text > place(events, HookCalled, ending_of(point))
    assert text == len(events) - 2
    assert text_of(events) == TEXT


def looking():
    """An agent that says something, looks with a tool, and is done."""

    async def look() -> str:
        return "found"

    first = AssistantMessage("Let me look.", [ToolCall("1", "look")])
    return Agent(ScriptedModel([first, "done"]), [look])


async def test_text_before_tool_calls_comes_before_the_tools_and_after_its_verdict():
    agent = looking()
    agent.registry.register(nothing, "after_llm_call")
    events = await collected(agent.stream("go"))
    verdict = place(events, HookCalled, ending_of("after_llm_call"))
    assert verdict < place(events, TextDelta) < place(events, ToolStarted)
    assert (text_of(events, 1), text_of(events, 2)) == ("Let me look.", "done")


@pytest.mark.parametrize("point", ["before_final_response", "query_end"])
async def test_text_before_tool_calls_does_not_pass_hooks_that_never_see_it(
    point,
):
    agent = looking()
    agent.registry.register(nothing, point)
    events = await collected(agent.stream("go"))
    assert (text_of(events, 1), text_of(events, 2)) == ("", "done")


@pytest.mark.parametrize("point", REFUSING)
async def test_text_waits_for_a_person_who_is_asked(point):
    asked = asyncio.Event()
    answer = asyncio.Event()

    async def person(question):
        asked.set()
        await answer.wait()
        return Approval(approved=True, value=AssistantMessage("as edited"))

    agent = Agent(ScriptedModel([TEXT]), ask=person)
    agent.registry.register(lambda e, m: Ask("ok?") if m.content == TEXT else None, point)
    listener = Listener(agent.stream("go"))
    await asked.wait()
    await settled()
    assert listener.text == ""
    answer.set()
    await listener.task
    assert listener.text == "as edited"


async def test_text_waits_for_a_slow_gate():
    done = asyncio.Event()

    async def slow(event):
        await done.wait()

    agent = Agent(ScriptedModel([TEXT]))
    agent.registry.register(slow, "before_final_response", lane="gate", timeout=None)
    listener = Listener(agent.stream("go"))
    await settled()
    assert listener.text == ""
    done.set()
    await listener.task
    assert listener.text == TEXT


async def test_a_gate_that_fails_lets_nothing_out():
    agent = Agent(ScriptedModel([TEXT]))
    agent.registry.register(lambda e: 1 / 0, "after_llm_call", lane="gate")
    events = await collected(agent.stream("go"))
    assert (text_of(events), response_of(events).stop_reason) == ("", "block")


async def test_a_gate_that_takes_too_long_lets_nothing_out():
    async def hang(event):
        await asyncio.sleep(10)

    agent = Agent(ScriptedModel([TEXT]))
    agent.registry.register(hang, "after_llm_call", lane="gate", timeout=0.05)
    events = await collected(agent.stream("go"))
    assert (text_of(events), response_of(events).stop_reason) == ("", "block")


# What is never sent

OTHERS = {
    "alone": [],
    "among others": [
        (lambda e, m: Continue(m.content + "!"), {"priority": 1}),
        (nothing, {"lane": "gate"}),
        (nothing, {"lane": "observe"}),
        (lambda e: Retry("would"), {"mode": "shadow"}),
    ],
}


def surrounded(agent, point, which):
    """Register hooks around the one under test."""
    for number, (hook, options) in enumerate(OTHERS[which]):
        agent.registry.register(hook, point, name=f"other{number}", **options)


@pytest.mark.parametrize("which", [*OTHERS])
@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("calls", [0, 1, 2])
async def test_a_blocked_answer_has_not_been_sent(point, lane, which, calls):
    async def look() -> str:
        return "found"

    def refuse(event, message):
        return Block("no") if "bad" in message.content else None

    asked = [ToolCall(f"{n}", "look") for n in range(calls)]
    first = [AssistantMessage("Looking.", tool_calls=asked)] * bool(calls)
    agent = Agent(ScriptedModel([*first, "a bad answer"]), [look])
    agent.registry.register(refuse, point, lane=lane)
    surrounded(agent, point, which)
    talk = agent.conversation()
    events = await collected(talk.stream("go"))
    assert "bad" not in text_of(events)
    assert "bad" not in str([*talk.messages, response_of(events)])
    assert response_of(events).stop_reason == "block"


@pytest.mark.parametrize("which", [*OTHERS])
@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("point", REFUSING)
@pytest.mark.parametrize("calls", [0, 1, 2])
async def test_a_retried_answer_has_not_been_sent(point, lane, which, calls):
    async def look() -> str:
        return "found"

    def refuse(event, message):
        return Retry("better") if "bad" in message.content else None

    asked = [ToolCall(f"{n}", "look") for n in range(calls)]
    between = [AssistantMessage("Looking.", tool_calls=asked)] * bool(calls)
    agent = Agent(ScriptedModel(["a bad one", *between, "bad again", "a good one"]), [look])
    agent.registry.register(refuse, point, lane=lane)
    surrounded(agent, point, which)
    events = await collected(agent.stream("go"))
    response = response_of(events)
    assert "bad" not in text_of(events) + str(response)
    assert response.content.startswith("a good one")
    assert text_of(events, 4 if calls else 3) == response.content
    assert response.usage["output_tokens"] == (10 + 3 * calls if calls else 8)


async def test_answers_that_do_not_fit_the_schema_have_not_been_sent():
    agent = Agent(ScriptedModel(["no JSON", '{"a": 1}']), output_schema={"type": "object"})
    events = await collected(agent.stream("go"))
    assert text_of(events) == '{"a": 1}'
    assert response_of(events).output == {"a": 1}


async def test_the_built_in_redaction_holds_where_it_stands():
    agent = Agent(ScriptedModel(["Write to ann@example.org, please."]))
    agent.registry.register(redact, "after_llm_call", "before_final_response")
    events = await collected(agent.stream("go"))
    assert "ann@example.org" not in text_of(events)
    assert re.search(r"Write to \S+, please\.", text_of(events))
    assert text_of(events) == response_of(events).content
