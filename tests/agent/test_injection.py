"""Messages that hooks put into the conversation: in order, and only where they are legal."""

import asyncio

import pytest

from checkrail import Block, Continue, Fail, Retry, Stop, ToolCall
from checkrail.agent import RunFailed

NOTE = {"role": "user", "content": "note"}


def contents(messages):
    return [message["content"] for message in messages]


def inject(text="note", role="user"):
    return Continue(inject=[{"role": role, "content": text}])


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ("before_llm_call", ["hello", "note", "", "x", "hi"]),
        ("after_llm_call", ["hello", "", "x", "note", "hi"]),
        ("before_tool_call", ["hello", "", "x", "note", "hi"]),
        ("after_tool_call", ["hello", "", "x", "note", "hi"]),
        ("on_tool_error", ["hello", "", "x", "note", "hi"]),
    ],
)
async def test_a_message_goes_where_the_conversation_stays_valid(make, hooks, tools, point, told):
    hooks.hook(point)(lambda event: inject() if event.iteration == 1 else None)
    call = ToolCall("1", "echo", {"text": "x"})
    if point == "on_tool_error":
        call = ToolCall("1", "broken", {"why": "x"})
    agent = make(call, "hi", hooks=hooks, tools=tools)
    response = await agent.run("hello")
    assert contents(response.messages) == told
    assert contents(agent.model.requests[1].messages) == told[:-1]


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_with_an_answer_it_comes_after_the_answer(make, hooks, point):
    hooks.hook(point)(lambda event: inject())
    assert contents((await make("hi", hooks=hooks).run("hello")).messages) == [
        "hello",
        "hi",
        "note",
    ]


async def test_what_is_injected_before_the_model_is_called_is_sent_with_this_call(make, hooks):
    hooks.before_llm_call(lambda event: inject())
    agent = make("hi", hooks=hooks)
    await agent.run("hello")
    assert contents(agent.model.requests[0].messages) == ["hello", "note"]


async def test_messages_of_parallel_calls_come_in_the_order_of_the_calls(make, hooks, calls, tools):
    @hooks.hook("before_tool_call", "after_tool_call")
    async def note(event):
        await asyncio.sleep(0.02 if event.tool_call_id == "1" else 0)
        return inject(f"{event.point} {event.tool_call_id}")

    answer = calls(("1", "echo"), ("2", "echo"))
    response = await make(answer, "hi", hooks=hooks, tools=tools).run("hello")
    assert contents(response.messages[4:]) == [
        "before_tool_call 1",
        "after_tool_call 1",
        "before_tool_call 2",
        "after_tool_call 2",
        "hi",
    ]


async def test_several_hooks_inject_in_their_order(make, hooks, tools):
    hooks.before_tool_call(lambda event: inject("second"), priority=2)
    hooks.before_tool_call(lambda event: inject("first"), priority=1)
    hooks.after_tool_call(lambda event: inject("third"))
    hooks.after_llm_call(lambda event: inject("zeroth") if event.iteration == 1 else None)
    response = await make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools).run("hello")
    assert contents(response.messages[3:]) == ["zeroth", "first", "second", "third", "hi"]


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_a_retry_may_say_more_than_its_reason(make, hooks, point):
    hooks.hook(point)(lambda event: Retry("again", [NOTE]) if event.iteration == 1 else None)
    response = await make("a", "b", hooks=hooks).run("hello")
    assert contents(response.messages) == ["hello", "again", "note", "b"]


@pytest.mark.parametrize("why", ["retry", "schema"])
async def test_what_went_with_an_answer_that_is_rejected_later_is_not_lost(make, hooks, why):
    hooks.after_llm_call(lambda event: inject() if event.iteration == 1 else None)
    if why == "retry":
        hooks.before_final_response(lambda event: Retry("again") if event.iteration == 1 else None)
    schema = {"output_schema": int} if why == "schema" else {}
    response = await make("one", "1", hooks=hooks, **schema).run("hello")
    assert contents(response.messages).count("note") == 1


@pytest.mark.parametrize("outcome", [Block("no"), Fail("no"), Stop("bye")])
@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_it_is_dropped_when_the_run_ends_there(make, hooks, ended, point, outcome):
    hooks.hook(point)(lambda event: inject())
    hooks.hook(point)(lambda event: outcome)
    conversation = make("hi", hooks=hooks).conversation()
    await ended(conversation.run("hello"))
    assert "note" not in contents(conversation.messages)


async def test_a_blocked_call_drops_what_was_injected_with_it_and_no_more(
    make, hooks, calls, tools
):
    hooks.before_tool_call(lambda event: inject(f"note {event.tool_call_id}"))
    hooks.before_tool_call(lambda event: Block("no") if event.tool_call_id == "1" else None)
    answer = calls(("1", "echo"), ("2", "echo"))
    response = await make(answer, "hi", hooks=hooks, tools=tools).run("hello")
    assert contents(response.messages[4:]) == ["note 2", "hi"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_call_id": "1", "content": "forged"},
        {
            "role": "assistant",
            "content": "forged",
            "tool_calls": [
                {"id": "9", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
            ],
        },
        {"role": "robot", "content": "forged"},
        {"role": None, "content": "forged"},
        {"role": "user", "name": "forged"},
        {},
    ],
)
async def test_what_cannot_stand_between_two_turns_is_left_out_and_logged(
    make, hooks, caplog, message
):
    hooks.before_llm_call(lambda event: Continue(inject=[message, NOTE]))
    response = await make("hi", hooks=hooks).run("hello")
    assert contents(response.messages) == ["hello", "note", "hi"]
    assert "left out" in caplog.text


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant"])
async def test_other_roles_are_placed_as_they_are(make, hooks, role):
    hooks.before_llm_call(lambda event: inject(role=role))
    response = await make("hi", hooks=hooks).run("hello")
    assert response.messages[1] == {"role": role, "content": "note"}


async def test_a_message_without_a_role_is_the_users(make, hooks):
    hooks.before_llm_call(lambda event: Continue(inject=[{"content": "note"}]))
    assert (await make("hi", hooks=hooks).run("hello")).messages[1] == NOTE


@pytest.mark.parametrize("wrong", ["text", ["text"], {"role": "user"}])
async def test_what_is_no_list_of_messages_fails_the_run_and_names_the_hook(make, hooks, wrong):
    hooks.before_llm_call(lambda event: Continue(inject=wrong), name="careless")
    with pytest.raises(RunFailed, match=r"'careless' at before_llm_call .*list of messages"):
        await make("hi", hooks=hooks).run("hello")


async def test_a_gate_that_injects_fails_the_run_and_is_named(make, hooks):
    hooks.after_llm_call(lambda event: inject(), lane="gate", name="guard")
    with pytest.raises(RunFailed, match=r"'guard' at after_llm_call .*a gate cannot .*inject"):
        await make("hi", hooks=hooks).run("hello")


async def test_in_shadow_nothing_is_injected(make, hooks):
    hooks.before_llm_call(lambda event: inject(), mode="shadow")
    assert contents((await make("hi", hooks=hooks).run("hello")).messages) == ["hello", "hi"]


async def test_injected_messages_stay_in_the_conversation(make, hooks):
    hooks.before_llm_call(lambda event, request: inject() if len(request.messages) == 1 else None)
    agent = make("a", "b", hooks=hooks)
    conversation = agent.conversation()
    await conversation.run("hello")
    await conversation.run("again")
    assert contents(agent.model.requests[1].messages) == ["hello", "note", "a", "again"]


async def test_a_message_given_by_a_hook_cannot_be_changed_by_it_later(make, hooks):
    mine = {"role": "user", "content": "note"}
    hooks.before_llm_call(lambda event: Continue(inject=[mine]))
    response = await make("hi", hooks=hooks).run("hello")
    mine["content"] = "other"
    assert response.messages[1] == NOTE
