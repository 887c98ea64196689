"""What a hook redacts is redacted everywhere: stream, history, requests, records, response."""

import dataclasses
import json

import pytest

from checkrail import Agent
from checkrail.agent import Finished, HookCalled
from checkrail.builtin.redact import redact
from checkrail.engine.outcomes import Block, Continue, Retry
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.testing import ScriptedModel

from .support_streaming import SECRET, collected, records, response_of, text_of

BADGE = {"kinds": [], "patterns": {"badge": r"B-\d{6}"}}
HOOKS = ["one hook", "several hooks"]
CALLS = [0, 1, 2]


async def show(text: str) -> str:
    """Show a text."""
    return f"shown: {text}"


def scripted(calls, said="", args="it", last="done"):
    """A model that says something, calls the tool so often, answers, and answers once more."""
    made = [ToolCall(f"c{n}", "show", {"text": args}) for n in range(calls)]
    first = [AssistantMessage(said, tool_calls=made)] * bool(calls)
    return ScriptedModel([*first, last, "and again"])


def hooked(model, point, hooks):
    """An agent that redacts badges at a point, alone or among others, and its sink."""
    told = []
    agent = Agent(model, [show], hooks=HookRegistry(told.append))
    agent.registry.register(redact, point, config=BADGE, name="redact")
    if hooks == "several hooks":
        agent.registry.register(touched, point, priority=1, name="before")
        agent.registry.register(touched, point, priority=200, name="after")
        agent.registry.register(lambda e: None, point, lane="observe", name="watch")
    return agent, told


def touched(event, value):
    """Change a value a little."""
    if hasattr(value, "args"):
        return Continue(json.dumps({**value.args, "text": value.args["text"] + "+"}))
    if hasattr(value, "params"):
        return Continue(dataclasses.replace(value, params={**value.params, event.point: "+"}))
    return Continue(f"{value.content}+")


async def taken(agent, way, query="go"):
    """Run a conversation of two turns, and give everything that anybody could get to see."""
    talk = agent.conversation()
    if way == "run":
        first = [Finished(await talk.run(query))]
    else:
        first = await collected(talk.stream(query))
    await talk.run("And then?")
    wires = [record.wire() for record in records(first)]
    shown = [event for event in first if not isinstance(event, HookCalled)]
    return first, str([wires, shown, text_of(first), talk.messages])


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_every_answer_of_the_model(way, calls, hooks):
    model = scripted(calls, f"I show {SECRET}.", f"{SECRET}", f"It was {SECRET}.")
    agent, told = hooked(model, "after_llm_call", hooks)
    events, everything = await taken(agent, way)
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])
    assert "It was [" in response_of(events).content
    if way == "stream":
        assert "It was [" in text_of(events)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_the_final_answer(way, calls, hooks):
    model = scripted(calls, "I look.", last=f"It was {SECRET}.")
    agent, told = hooked(model, "before_final_response", hooks)
    events, everything = await taken(agent, way)
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])
    assert "It was [" in response_of(events).content
    assert "It was [" in str(model.requests[-1].messages)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_at_the_very_end(way, calls, hooks):
    model = scripted(calls, f"I look for {SECRET}.", last=f"It was {SECRET}.")
    agent, told = hooked(model, "query_end", hooks)
    events, everything = await taken(agent, way)
    shown = str(model.requests[-1].messages) + str([r.wire() for r in told])
    assert SECRET not in everything + shown
    assert "It was [" in response_of(events).content
    assert "It was [" in str(model.requests[-1].messages)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_what_the_user_said(way, calls, hooks):
    model = scripted(calls, "I look.")
    agent, told = hooked(model, "before_llm_call", hooks)
    _, everything = await taken(agent, way, query=f"Who has {SECRET}?")
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])
    assert "Who has [" in str(model.requests[-1].messages)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_arguments_of_tools(way, calls, hooks):
    model = scripted(calls, args=SECRET)
    agent, told = hooked(model, "before_tool_call", hooks)
    _, everything = await taken(agent, way)
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])
    assert str(model.requests[-1].messages).count("shown: [") == calls


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("point", ["after_tool_call", "on_tool_error"])
async def test_in_results_of_tools(way, calls, hooks, point):
    async def show(text: str) -> str:
        """Show a text."""
        if point == "on_tool_error":
            raise ValueError(SECRET)
        return SECRET

    model = scripted(calls)
    agent, told = hooked(model, point, hooks)
    agent = Agent(model, [show], hooks=[*agent._levels])
    _, everything = await taken(agent, way)
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
@pytest.mark.parametrize("decision", [Block("no"), Retry("again")])
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_an_answer_that_is_then_refused(way, decision, point):
    model = ScriptedModel([f"It was {SECRET}.", "Nobody knows.", "and again"])
    agent, told = hooked(model, point, "several hooks")

    def refuse(event, message):
        return decision if "It was" in message.content else None

    agent.registry.register(refuse, point, lane="gate", name="gate")
    _, everything = await taken(agent, way)
    assert SECRET not in everything + str(model.requests) + str([r.wire() for r in told])


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_in_agents_beneath(way):
    helper = Agent(ScriptedModel([f"The badge is {SECRET}."]), name="helper")
    calls = [ToolCall("1", "helper", {"query": f"Who has {SECRET}?"})]
    model = ScriptedModel([AssistantMessage("", tool_calls=calls), f"It is {SECRET}.", "again"])
    told = []
    agent = Agent(model, [helper], hooks=HookRegistry(told.append))
    agent.registry.register(redact, "after_llm_call", config=BADGE)
    _, everything = await taken(agent, way)
    seen = [*model.requests, *helper.model.requests, *(r.wire() for r in told)]
    assert SECRET not in everything + str(seen)


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_a_redaction_in_shadow_redacts_nothing_and_holds_nothing(point):
    agent = Agent(ScriptedModel([f"It was {SECRET}."]))
    agent.registry.register(redact, point, config=BADGE, mode="shadow")
    events = await collected(agent.stream("go"))
    assert text_of(events) == response_of(events).content == f"It was {SECRET}."
    assert SECRET not in str([record.wire() for record in records(events)])


@pytest.mark.parametrize("way", ["run", "stream"])
async def test_other_answers_of_the_same_words_in_the_history_are_redacted_with_it(way):
    said = f"It was {SECRET}."
    history = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": said}]
    agent, _ = hooked(ScriptedModel([said, "again"]), "query_end", "one hook")
    talk = agent.conversation(history=history)
    await (talk.run("Who?") if way == "run" else collected(talk.stream("Who?")))
    assert SECRET not in str(talk.messages)
