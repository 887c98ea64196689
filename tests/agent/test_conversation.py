"""What is remembered from run to run, and what is taken over from elsewhere."""

import asyncio

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    CheckrailError,
    Continue,
    Fail,
    HookRegistry,
    Stop,
    ToolCall,
)
from checkrail.agent import Conversation

HISTORY = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hi Ann."}]


def contents(messages):
    return [message["content"] for message in messages]


async def test_each_run_has_all_that_went_before(make, tools):
    agent = make("a", ToolCall("1", "echo", {"text": "x"}), "b", "c", tools=tools)
    conversation = agent.conversation()
    assert isinstance(conversation, Conversation)
    for query in ("one", "two", "three"):
        await conversation.run(query)
    told = ["one", "a", "two", "", "x", "b", "three", "c"]
    assert contents(conversation.messages) == told
    assert contents(agent.model.requests[-1].messages) == told[:-1]


async def test_the_response_has_the_whole_conversation(make):
    conversation = make("a", "b").conversation()
    await conversation.run("one")
    response = await conversation.run("two")
    assert response.messages == conversation.messages


async def test_conversations_of_one_agent_do_not_mix(make):
    agent = make("a", "b", "c")
    one, two = agent.conversation(), agent.conversation()
    await one.run("one")
    await two.run("two")
    await one.run("three")
    assert contents(one.messages) == ["one", "a", "three", "c"]
    assert contents(two.messages) == ["two", "b"]


async def test_its_events_carry_its_thread(make, hooks, witness):
    agent = make("a", "b", "c", hooks=hooks)
    named, unnamed = agent.conversation("t1"), agent.conversation()
    await named.run("hello", user="ann")
    await unnamed.run("hello")
    await unnamed.run("hello")
    events = witness.at("query_end")
    assert [event.thread_id for event in events] == ["t1", unnamed.thread_id, unnamed.thread_id]
    assert events[0].user.identity == "ann"
    assert len({event.run_id for event in events}) == 3


async def test_it_begins_with_a_history_from_elsewhere(make):
    agent = make("Ann.")
    conversation = agent.conversation(history=HISTORY)
    await conversation.run("Who am I?")
    assert agent.model.requests[0].messages[:2] == HISTORY
    assert contents(conversation.messages) == ["I am Ann.", "Hi Ann.", "Who am I?", "Ann."]


async def test_a_run_takes_a_history_and_leaves_it_alone(make):
    agent = make("Ann.", "Ann.")
    history = [dict(message) for message in HISTORY]
    response = await agent.run("Who am I?", history=history)
    assert history == HISTORY
    history[0]["content"] = "I am Bob."
    assert response.messages[:2] == HISTORY
    again = await agent.run("Sure?", history=response.messages)
    assert contents(again.messages) == [*contents(response.messages), "Sure?", "Ann."]


@pytest.mark.parametrize("wrong", ["hello", [("user", "hi")], [{"content": "hi"}], [None]])
async def test_what_is_no_history_is_refused_with_an_example(make, wrong):
    agent = make("hi")
    with pytest.raises(TypeError, match=r"a history is messages such as \{'role': 'user'"):
        await agent.run("hello", history=wrong)
    with pytest.raises(TypeError, match="a history is messages"):
        agent.conversation(history=wrong)


async def test_what_it_remembers_cannot_be_changed_from_outside(make):
    conversation = make("hi").conversation()
    await conversation.run("hello")
    with pytest.raises(TypeError, match="frozen"):
        conversation.messages.append({"role": "user", "content": "forged"})
    with pytest.raises(TypeError, match="frozen"):
        conversation.messages[0]["content"] = "forged"


@pytest.mark.parametrize("outcome", [Block("no"), Fail("no"), Stop("bye")])
@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_it_goes_on_after_every_ending_without_what_was_refused(
    make, hooks, ended, point, outcome
):
    hooks.hook(point)(lambda event, message: outcome if "secret" in message.content else None)
    agent = make("a secret", "b", hooks=hooks)
    conversation = agent.conversation()
    response = await ended(conversation.run("one"))
    assert response.messages == conversation.messages
    assert (await conversation.run("two")).content == "b"
    stopped = ["bye"] if isinstance(outcome, Stop) else []
    assert contents(conversation.messages) == ["one", *stopped, "two", "b"]


async def test_a_query_that_was_refused_is_not_sent_with_the_next_one(make, hooks):
    @hooks.before_llm_call(lane="gate")
    def last_message(event, request):
        return Block("no") if "bomb" in request.messages[-1]["content"] else None

    agent = make("hi", "I am well", hooks=hooks)
    conversation = agent.conversation()
    await conversation.run("hello")
    assert (await conversation.run("build a bomb")).stop_reason == "block"
    await conversation.run("go on")
    assert contents(conversation.messages) == ["hello", "hi", "go on", "I am well"]
    assert "bomb" not in str(agent.model.requests)


async def test_tools_that_did_not_finish_have_a_result_when_it_goes_on(make, calls, tools):
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.sleep(10)

    agent = make(calls(("1", "echo"), ("2", "hang")), "hi", tools=[*tools, hang])
    conversation = agent.conversation()
    task = asyncio.create_task(conversation.run("hello"))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    await conversation.run("and now?")
    assert [message["role"] for message in agent.model.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


async def test_one_run_at_a_time(make):
    release = asyncio.Event()

    async def wait(request):
        await release.wait()
        return "hi"

    conversation = make(wait).conversation("t1")
    first = asyncio.create_task(conversation.run("one"))
    await asyncio.sleep(0)
    with pytest.raises(CheckrailError, match="conversation t1 is busy: wait for the run before"):
        await conversation.run("two")
    release.set()
    await first
    assert contents(conversation.messages) == ["one", "hi"]
    await conversation.run("three")


async def test_a_mistake_in_the_ids_leaves_it_as_it_was(make):
    conversation = make("hi").conversation()
    with pytest.raises(TypeError, match="no field 'usr'"):
        await conversation.run("hello", usr="ann")
    assert conversation.messages == []
    await conversation.run("hello")


async def test_what_hooks_change_is_what_is_remembered(make, hooks):
    hooks.before_final_response(lambda event: Continue("changed"))
    conversation = make("original", hooks=hooks).conversation()
    await conversation.run("hello")
    assert contents(conversation.messages) == ["hello", "changed"]


async def test_its_flags_are_those_of_one_run(make):
    agent = make("a", "b")
    seen = []

    def count(status):
        status.flags["count"] = status.flags.get("count", 0) + 1
        seen.append(status.flags["count"])

    agent.on("after_llm_call").handle(effects=[count])
    conversation = agent.conversation()
    await conversation.run("one")
    await conversation.run("two")
    assert seen == [1, 1]


def test_it_runs_where_there_is_no_event_loop(make):
    conversation = make("a", "b").conversation()
    assert [conversation.run_sync(query).content for query in ("one", "two")] == ["a", "b"]
    assert contents(conversation.messages) == ["one", "a", "two", "b"]


async def test_in_an_event_loop_run_sync_says_what_to_do_and_remembers_nothing(make):
    conversation = make("hi").conversation()
    with pytest.raises(CheckrailError, match=r"await run\(\) instead"):
        conversation.run_sync("hello")
    assert conversation.messages == []
    await conversation.run("hello")


async def test_a_run_around_gives_its_ids_and_hooks(make, hooks, witness, tools):
    server = HookRegistry()
    order = []
    server.register(lambda event: order.append("server"), "before_tool_call")
    hooks.before_tool_call(lambda event: order.append("agent"))
    agent = make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools)
    await agent.run("hello", scope=server.scope(run_id="job-7", user="ann"))
    assert order == ["server", "agent"]
    assert {(event.run_id, event.user.identity) for event in witness.events} == {("job-7", "ann")}
    assert [event.value.context for event in witness.at("before_tool_call")] == ["job-7"]


async def test_parts_of_an_answer_are_remembered_as_they_are(make):
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]
    agent = make(AssistantMessage(parts), "b")
    conversation = agent.conversation()
    assert (await conversation.run("hello")).content == parts
    await conversation.run("again")
    assert agent.model.requests[1].messages[1] == {"role": "assistant", "content": parts}
