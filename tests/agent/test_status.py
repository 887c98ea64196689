"""`AgentStatus` in a real run: what it says at each of the seven events."""

import asyncio
import dataclasses

import pytest

from checkrail import AssistantMessage, Continue, ToolCall, ToolResult
from checkrail.agent import RunFailed
from checkrail.styles import AgentEvent, HookDecision

PARTICULAR = ("tool_call", "tool_result", "assistant_message", "error")


@pytest.fixture
def watched(make, tools):
    """An agent that calls a tool which fails and then answers, and its statuses by event."""
    seen = []
    agent = make(
        ToolCall("1", "broken", {"why": "no"}), "hi", tools=tools, system_prompt="Be kind."
    )
    for event in AgentEvent:
        agent.on(event).handle(effects=[lambda status: seen.append(dataclasses.replace(status))])
    return agent, seen


async def test_it_names_the_event_the_agent_and_the_iteration(watched):
    agent, seen = watched
    await agent.run("hello")
    assert [(status.event, status.iteration) for status in seen] == [
        (AgentEvent.BEFORE_LLM_CALL, 1),
        (AgentEvent.AFTER_LLM_CALL, 1),
        (AgentEvent.BEFORE_TOOL_EXECUTION, 1),
        (AgentEvent.AFTER_TOOL_EXECUTION, 1),
        (AgentEvent.ON_TOOL_ERROR, 1),
        (AgentEvent.BEFORE_LLM_CALL, 2),
        (AgentEvent.AFTER_LLM_CALL, 2),
        (AgentEvent.BEFORE_FINAL_RESPONSE, 2),
        (AgentEvent.QUERY_END, 2),
    ]
    assert all(status.agent is agent for status in seen)


async def test_it_has_what_belongs_to_the_event_and_nothing_else(watched):
    agent, seen = watched
    await agent.run("hello")
    at = {status.event: status for status in seen}
    told = {event: {n for n in PARTICULAR if getattr(at[event], n) is not None} for event in at}
    assert told == {
        AgentEvent.BEFORE_LLM_CALL: set(),
        AgentEvent.AFTER_LLM_CALL: {"assistant_message"},
        AgentEvent.BEFORE_TOOL_EXECUTION: {"tool_call"},
        AgentEvent.AFTER_TOOL_EXECUTION: {"tool_result"},
        AgentEvent.ON_TOOL_ERROR: {"tool_result", "error"},
        AgentEvent.BEFORE_FINAL_RESPONSE: {"assistant_message"},
        AgentEvent.QUERY_END: set(),
    }
    assert at[AgentEvent.BEFORE_TOOL_EXECUTION].tool_call == ToolCall("1", "broken", {"why": "no"})
    assert at[AgentEvent.AFTER_TOOL_EXECUTION].tool_result.is_error
    assert at[AgentEvent.ON_TOOL_ERROR].error == "no"
    assert at[AgentEvent.BEFORE_FINAL_RESPONSE].assistant_message.content == "hi"


async def test_the_conversation_is_that_of_the_moment(watched):
    agent, seen = watched
    await agent.run("hello")
    first, second = (s for s in seen if s.event is AgentEvent.BEFORE_LLM_CALL)
    roles = [message["role"] for message in second.conversation_history]
    assert [message["role"] for message in first.conversation_history] == ["system", "user"]
    assert roles == ["system", "user", "assistant", "tool"]
    assert [message["role"] for message in seen[-1].conversation_history] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize(
    ("event", "before", "changed"),
    [
        (AgentEvent.AFTER_LLM_CALL, "hi", AssistantMessage("changed")),
        (AgentEvent.BEFORE_FINAL_RESPONSE, "hi", AssistantMessage("changed")),
        (AgentEvent.BEFORE_TOOL_EXECUTION, {"text": "x"}, ToolCall("1", "echo", {"text": "new"})),
        (AgentEvent.AFTER_TOOL_EXECUTION, "x", ToolResult("1", "echo", "changed")),
    ],
)
async def test_it_is_made_anew_for_every_hook(make, tools, event, before, changed):
    seen = []

    def look(status):
        value = status.assistant_message or status.tool_call or status.tool_result
        seen.append(value)

    agent = make(ToolCall("1", "echo", {"text": "x"}), "hi", tools=tools)
    once = agent.on(event).when(lambda s: s.iteration == (1 if "tool" in event else 2))
    once.handle(effects=[look])
    once.handle(value=changed)
    once.handle(effects=[look])
    await agent.run("hello")
    assert before in (seen[0].content if hasattr(seen[0], "content") else seen[0].args, seen[0])
    assert seen[1] == changed


async def test_the_condition_sees_the_value_as_the_hook_before_left_it(make):
    agent = make("hi")
    agent.on(AgentEvent.AFTER_LLM_CALL).handle(value="changed")
    seen = []
    agent.on(AgentEvent.AFTER_LLM_CALL).when(
        lambda status: seen.append(status.assistant_message.content)
    ).handle()
    await agent.run("hello")
    assert seen == ["changed"]


async def test_flags_last_for_a_run_and_belong_to_it(make, tools):
    def reply(request):
        text = request.messages[0]["content"]
        return text if len(request.messages) > 1 else ToolCall("1", "echo", {"text": text})

    agent = make(reply, tools=tools)
    agent.on(AgentEvent.AFTER_TOOL_EXECUTION).handle(
        effects=[lambda status: status.flags.update(seen=status.tool_result.content)]
    )
    agent.on(AgentEvent.BEFORE_FINAL_RESPONSE).handle(
        value=lambda status, message: f"{message.content} {status.flags}"
    )
    one, two = await asyncio.gather(agent.run("a"), agent.run("b"))
    assert [one.content, two.content] == ["a {'seen': 'a'}", "b {'seen': 'b'}"]


async def test_the_agent_in_it_is_the_live_one(make):
    agent = make("hi")
    agent.seen = 0

    async def count(status):
        status.agent.seen += 1

    agent.on(AgentEvent.QUERY_END).handle(effects=[count])
    await agent.run("hello")
    assert agent.seen == 1


async def test_only_appending_to_the_conversation_is_allowed(make):
    agent = make("hi")

    def rewrite(status):
        status.conversation_history[0]["content"] = "something else"

    agent.on(AgentEvent.AFTER_LLM_CALL).handle(effects=[rewrite], name="historian")
    with pytest.raises(RunFailed, match=r"'historian' .*changed earlier messages"):
        await agent.run("hello")


@pytest.mark.parametrize("ending", ["answer", "block", "fail", "error"])
async def test_query_end_comes_to_the_fluent_style_on_every_path(make, ended, ending):
    agent = make(RuntimeError("down") if ending == "error" else "hi")
    if ending in ("block", "fail"):
        agent.on(AgentEvent.AFTER_LLM_CALL).handle(ending, reason="no")
    seen = []
    agent.on(AgentEvent.QUERY_END).handle(value=lambda status, response: seen.append(response))
    await ended(agent.run("hello"))
    assert [response.stop_reason for response in seen] == [ending]


async def test_no_hook_reaches_the_conversation_through_the_metadata(make, hooks, tools):
    @hooks.before_tool_call
    def damage(event):
        for held in event.metadata.values():
            held.history.append({"role": "user", "content": "damage"})

    agent = make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools)
    assert "damage" not in str((await agent.run("hello")).messages)


async def test_a_shadow_of_this_style_changes_nothing(make):
    agent = make("hi")

    def act(status):
        status.flags["seen"] = True
        status.conversation_history.append({"role": "user", "content": "note"})

    agent.on(AgentEvent.AFTER_LLM_CALL).handle(HookDecision.RETRY, effects=[act], mode="shadow")
    agent.on(AgentEvent.BEFORE_FINAL_RESPONSE).handle(
        value=lambda status, message: f"{message.content} {status.flags}"
    )
    response = await agent.run("hello")
    assert [message["content"] for message in response.messages] == ["hello", "hi {}"]


async def test_effects_of_several_hooks_are_injected_in_their_order(make):
    agent = make("hi")

    def note(text):
        return lambda status: status.conversation_history.append({"role": "user", "content": text})

    agent.on(AgentEvent.BEFORE_LLM_CALL).handle(effects=[note("a"), note("b")])
    agent.on(AgentEvent.BEFORE_LLM_CALL).handle(effects=[note("c")])
    await agent.run("hello")
    (request,) = agent.model.requests
    assert [message["content"] for message in request.messages] == ["hello", "a", "b", "c"]


async def test_the_status_of_parallel_calls_is_each_its_own(make, hooks, calls, tools):
    seen = []

    async def look(status):
        await asyncio.sleep(0)
        seen.append((status.tool_call.id, status.tool_call.args["text"]))

    agent = make(
        calls(("1", "echo", {"text": "a"}), ("2", "echo", {"text": "b"})), "hi", tools=tools
    )
    agent.on(AgentEvent.BEFORE_TOOL_EXECUTION).handle(effects=[look])
    hooks.before_tool_call(lambda event: Continue(event.value))
    await agent.run("hello")
    assert sorted(seen) == [("1", "a"), ("2", "b")]


TOOL_EVENTS = ("before_tool_execution", "after_tool_execution", "on_tool_error")


def made_calls(status):
    """Return the calls in the last message of a status, by their ids."""
    calls = status.conversation_history[-1]["tool_calls"]
    return {call["id"]: call["function"]["arguments"] for call in calls}


async def test_at_tool_events_the_history_ends_with_the_message_that_made_the_call(make, tools):
    seen = {}
    call = ToolCall("1", "broken", {"why": "no"})
    agent = make(AssistantMessage("I try.", [call]), "hi", tools=tools)
    for event in TOOL_EVENTS:
        agent.on(event).handle(effects=[lambda s: seen.update({s.event: s.conversation_history})])
    response = await agent.run("hello")
    assert {*seen} == {*TOOL_EVENTS}
    assert all(history == response.messages[:2] for history in seen.values())


async def test_a_call_stands_there_as_the_hooks_before_left_it(make, hooks, tools):
    seen = []
    hooks.before_tool_call(
        lambda event, call: Continue(dataclasses.replace(call, args={"why": "*"}), redacted=True),
    )
    agent = make(ToolCall("1", "broken", {"why": "secret"}), "hi", tools=tools, hooks=hooks)
    for event in TOOL_EVENTS:
        agent.on(event).handle(effects=[lambda status: seen.append(made_calls(status))])
    await agent.run("hello")
    assert seen == [{"1": '{"why": "*"}'}] * 3


async def test_calls_side_by_side_are_all_there_and_may_inject(make, tools):
    """What one call becomes meanwhile is no change of the history by the hooks of another."""
    seen = []

    async def slowly(status):
        await asyncio.sleep(0.01 if status.tool_call.id == "1" else 0)
        seen.append({*made_calls(status)})
        status.conversation_history.append({"role": "user", "content": status.tool_call.id})

    def tidy(status, call):
        return dataclasses.replace(call, args={"why": "tidy"})

    calls = [ToolCall("1", "broken", {"why": "a"}), ToolCall("2", "broken", {"why": "b"})]
    agent = make(AssistantMessage("", calls), "hi", tools=tools)
    agent.on("before_tool_execution").handle(value=tidy, effects=[slowly])
    await agent.run("hello")
    assert seen == [{"1", "2"}] * 2
    assert [m["content"] for m in agent.model.requests[1].messages[-2:]] == ["1", "2"]
