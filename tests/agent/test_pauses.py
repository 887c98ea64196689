"""Answers that their provider interrupts (`pause_turn`): the loop goes on with them."""

from dataclasses import replace

import pytest

from checkrail import AssistantMessage, Block, Continue, Replace, Retry, Stop, ToolCall
from checkrail.agent import RunFailed
from checkrail.agent.events import TextDelta

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "rails"}}
SPOKEN = {"type": "text", "text": "Let me look."}
NOTE = {"role": "user", "content": "note"}
PAUSED = AssistantMessage([SPOKEN, SEARCH], stop_reason="pause")
GIVEN_BACK = {"role": "assistant", "content": [SPOKEN, SEARCH]}


def roles(messages):
    return [message["role"] for message in messages]


async def test_a_paused_answer_is_given_back_as_it_is_and_the_model_goes_on(make):
    agent = make(PAUSED, PAUSED, "Found it.")
    response = await agent.run("look")
    assert (response.content, response.stop_reason) == ("Found it.", "answer")
    first, second, third = agent.model.requests
    assert roles(first.messages) == ["user"]
    assert second.messages[1:] == [GIVEN_BACK]
    assert third.messages[1:] == [GIVEN_BACK, GIVEN_BACK]
    assert response.messages[1:3] == [GIVEN_BACK, GIVEN_BACK]
    assert response.usage["total_tokens"] > 0


async def test_hooks_see_it_but_it_is_no_final_answer(make, hooks):
    seen = []
    hooks.after_llm_call(lambda event: seen.append(event.value.stop_reason))
    hooks.before_final_response(lambda event: seen.append(event.value.content))
    await make(PAUSED, "Found it.", hooks=hooks).run("look")
    assert seen == ["pause", "stop", "Found it."]


async def test_it_counts_as_an_iteration(make):
    response = await make(PAUSED, PAUSED, PAUSED, max_iterations=2).run("look")
    assert response.stop_reason == "max_iterations"
    assert roles(response.messages) == ["user"]  # nobody would take the interrupted answer back


async def test_tools_may_follow(make, tools):
    agent = make(PAUSED, ToolCall("1", "broken", {"why": "no"}), "Done.", tools=tools)
    response = await agent.run("look")
    assert roles(response.messages) == ["user", "assistant", "assistant", "tool", "assistant"]


async def test_what_hooks_inject_waits_until_the_answer_is_whole(make, hooks):
    hooks.after_llm_call(lambda event: Continue(inject=[NOTE]))
    hooks.before_llm_call(lambda event: Continue(inject=[NOTE]) if event.iteration == 2 else None)
    agent = make(PAUSED, "Found it.", hooks=hooks)
    response = await agent.run("look")
    assert roles(agent.model.requests[1].messages) == ["user", "assistant"]
    assert roles(response.messages) == ["user", "assistant", "assistant", "user", "user", "user"]


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_a_rejected_answer_is_forgotten_with_what_was_before_its_pause(make, hooks, point):
    def once(event):
        return Retry("again") if event.value.content == "Found it." else None

    getattr(hooks, point)(once, lane="gate")
    agent = make(PAUSED, "Found it.", "Really.", hooks=hooks)
    response = await agent.run("look")
    assert roles(agent.model.requests[2].messages) == ["user", "user"]
    assert (response.content, roles(response.messages)) == ("Really.", ["user"] * 2 + ["assistant"])


@pytest.mark.parametrize("outcome", [Stop("enough"), Replace(AssistantMessage("enough"))])
async def test_an_answer_of_hooks_takes_its_place(make, hooks, outcome):
    hooks.before_llm_call(lambda event: outcome if event.iteration == 2 else None)
    response = await make(PAUSED, hooks=hooks).run("look")
    assert (response.content, roles(response.messages)) == ("enough", ["user", "assistant"])


async def test_after_a_block_or_a_failure_the_conversation_is_valid(make, hooks):
    hooks.before_llm_call(lambda e: Block("no") if e.iteration == 2 else None, lane="gate")
    conversation = make(PAUSED, "Hello.", hooks=hooks).conversation()
    assert (await conversation.run("look")).stop_reason == "block"
    assert roles(conversation.messages) == ["user"]
    failing = make(PAUSED, RuntimeError("away"))
    with pytest.raises(RunFailed) as failed:
        await failing.run("look")
    assert roles(failed.value.response.messages) == ["user"]


async def test_a_stop_on_the_paused_answer_ends_the_run(make, hooks):
    hooks.after_llm_call(lambda event: Stop("enough"))
    response = await make(PAUSED, hooks=hooks).run("look")
    assert (response.content, response.stop_reason) == ("enough", "stop")


async def test_its_text_is_streamed(make):
    events = [event async for event in make(PAUSED, "Found it.").stream("look")]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "Let me look.Found it."


async def test_a_text_of_a_hook_leaves_what_the_provider_needs_to_go_on(make, hooks):
    hooks.after_llm_call(lambda e: Continue("…") if e.value.stop_reason == "pause" else None)
    agent = make(PAUSED, "Found it.", hooks=hooks)
    await agent.run("look")
    assert agent.model.requests[1].messages[1]["content"] == [{"type": "text", "text": "…"}, SEARCH]


THOUGHT = {"type": "thinking", "thinking": "the key is 7", "signature": "c2ln"}


async def test_signed_thoughts_that_hooks_changed_are_not_sent_back(make, hooks, tools):
    """Their signature does not fit any more, and the provider would refuse the request."""

    def redact(event):
        if event.value.tool_calls:
            changed = {**THOUGHT, "thinking": "the key is *"}
            content = [changed, SPOKEN]
            return Continue(AssistantMessage(content, event.value.tool_calls), redacted=True)
        return None

    hooks.after_llm_call(redact)
    calling = AssistantMessage([THOUGHT, SPOKEN], [ToolCall("1", "broken", {"why": "no"})])
    agent = make(calling, "Done.", hooks=hooks, tools=tools)
    await agent.run("look")
    assert agent.model.requests[1].messages[1]["content"] == [SPOKEN]


async def test_signed_thoughts_stay_valid_beside_a_text_of_a_hook(make, hooks, tools):
    hooks.after_llm_call(lambda e: Continue("I look.") if e.value.tool_calls else None)
    calling = AssistantMessage([THOUGHT, SPOKEN], [ToolCall("1", "broken", {"why": "no"})])
    agent = make(calling, "Done.", hooks=hooks, tools=tools)
    await agent.run("look")
    content = agent.model.requests[1].messages[1]["content"]
    assert content == [THOUGHT, {"type": "text", "text": "I look."}]


async def test_signed_thoughts_of_the_history_that_hooks_changed_are_not_sent(make, hooks):
    def redact(event, request):
        first, answer, last = request.messages
        answer = {**answer, "content": [{**THOUGHT, "thinking": "*"}, SPOKEN]}
        return Continue(replace(request, messages=[first, answer, last]), redacted=True)

    hooks.before_llm_call(redact)
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [THOUGHT, SPOKEN]},
    ]
    agent = make("Done.", hooks=hooks)
    response = await agent.run("look", history=history)
    assert agent.model.requests[0].messages[1]["content"] == [SPOKEN]
    assert response.messages[1]["content"] == [SPOKEN]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("end_turn", "stop"), ("MAX_TOKENS", "length"), ("odd", "odd"), (7, None), ("", None)],
)
async def test_hooks_see_the_words_of_any_model_as_ours(make, hooks, theirs, ours):
    seen = []
    hooks.after_llm_call(lambda event: seen.append(event.value.stop_reason))
    response = await make(AssistantMessage("hi", stop_reason=theirs), hooks=hooks).run("hello")
    assert (seen, response.finish) == ([ours], ours)


async def test_an_answer_that_any_model_paused_is_gone_on_with(make):
    paused = AssistantMessage([SPOKEN, SEARCH], stop_reason="pause_turn")
    assert (await make(paused, "Found it.").run("look")).content == "Found it."
