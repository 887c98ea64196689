"""What a hook redacted: nobody who comes later, and nothing that is kept, has the earlier form."""

import asyncio
import dataclasses
import json

import pytest

from checkrail import AssistantMessage, Block, Continue, Fail, Hooks, Stop, ToolCall
from checkrail.testing import RecordingRegistry

SECRET, HIDDEN = "tok-1234", "[redacted]"


def scrubbed(value):
    """Give a value of any point without the secret."""
    if isinstance(value, str):
        return value.replace(SECRET, HIDDEN)
    if isinstance(value, dict):
        return {key: scrubbed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrubbed(item) for item in value]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return type(value)(**{name: scrubbed(getattr(value, name)) for name in names})
    return value


def redact(event, value):
    return Continue(scrubbed(value), redacted=True) if SECRET in repr(value) else None


@pytest.fixture
def registry():
    return RecordingRegistry()


@pytest.fixture
def hooks(registry):
    return Hooks(registry)


@pytest.fixture
def clean(registry, witness):
    """Assert that the secret is in nothing that is kept or was told after the redaction."""

    def check(*kept):
        for told in kept:
            assert SECRET not in repr(told)
        for record in registry.records:
            assert SECRET not in json.dumps(record.wire(), default=str)
        for event in witness.events:
            assert SECRET not in repr((event.value, event.original))

    return check


@pytest.mark.parametrize("several", [False, True])
async def test_in_what_the_user_said(make, hooks, clean, tools, several):
    if several:
        hooks.before_llm_call(lambda event: Continue(event.value), priority=1)
        hooks.before_llm_call(redact, priority=3, name="again")
    hooks.before_llm_call(redact, priority=2)
    agent = make(ToolCall("1", "echo"), "hi", "bye", hooks=hooks, tools=tools)
    conversation = agent.conversation()
    response = await conversation.run(f"my token is {SECRET}")
    assert response.messages[0]["content"] == f"my token is {HIDDEN}"
    await conversation.run("what was it?")
    clean(response, conversation.messages, agent.model.requests)


@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response", "query_end"])
async def test_in_the_answer(make, hooks, witness, point):
    hooks.hook(point)(redact)
    agent = make(f"it is {SECRET}", "bye", hooks=hooks)
    conversation = agent.conversation()
    response = await conversation.run("hello")
    assert response.content == f"it is {HIDDEN}"
    await conversation.run("what was it?")
    assert SECRET not in repr((response, conversation.messages, agent.model.requests))
    assert SECRET not in repr(witness.at("query_end"))


async def test_in_an_answer_that_is_parts(make, hooks, clean):
    hooks.after_llm_call(redact)
    parts = [{"type": "text", "text": f"it is {SECRET}"}]
    response = await make(AssistantMessage(parts), hooks=hooks).run("hello")
    assert response.content == [{"type": "text", "text": f"it is {HIDDEN}"}]
    clean(response)


@pytest.mark.parametrize("number", [1, 2])
async def test_in_the_arguments_of_a_call(make, hooks, registry, calls, number):
    ran = []

    async def act(text: str) -> None:
        ran.append(text)

    hooks.before_tool_call(redact)
    answer = calls(*((f"{n}", "act", {"text": SECRET}) for n in range(number)))
    agent = make(answer, "hi", hooks=hooks, tools=[act])
    response = await agent.run("hello")
    assert ran == [HIDDEN] * number
    assert SECRET not in repr((response, agent.model.requests))
    assert all(SECRET not in json.dumps(record.wire()) for record in registry.records)


@pytest.mark.parametrize("outcome", [Block("no"), Fail("no")])
async def test_in_the_arguments_of_a_call_that_is_refused_afterwards(
    make, hooks, ended, tools, outcome
):
    hooks.before_tool_call(redact)
    hooks.before_tool_call(lambda event: outcome, lane="gate")
    call = ToolCall("1", "echo", {"text": SECRET})
    conversation = make(call, "hi", hooks=hooks, tools=tools).conversation()
    response = await ended(conversation.run("hello"))
    assert HIDDEN in repr(conversation.messages)
    assert SECRET not in repr((response, conversation.messages))


@pytest.mark.parametrize("point", ["after_tool_call", "on_tool_error"])
async def test_in_the_result_of_a_call(make, hooks, point):
    hooks.hook(point)(redact)

    async def look_up() -> str:
        if point == "on_tool_error":
            raise ValueError(SECRET)
        return SECRET

    agent = make(ToolCall("1", "look_up"), "hi", hooks=hooks, tools=[look_up])
    response = await agent.run("hello")
    assert HIDDEN in response.messages[2]["content"]
    assert SECRET not in repr((response, agent.model.requests))


@pytest.mark.parametrize("outcome", [Block("no"), Fail("no"), Stop("bye")])
async def test_in_what_the_user_said_although_the_run_ends_there(
    make, hooks, ended, clean, outcome
):
    hooks.before_llm_call(redact)
    hooks.before_llm_call(lambda event: outcome, lane="gate")
    conversation = make("hi", hooks=hooks).conversation()
    clean(await ended(conversation.run(f"my token is {SECRET}")), conversation.messages)


async def test_in_the_system_prompt(make, hooks, clean, tools):
    hooks.before_llm_call(redact)
    agent = make(
        ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools, system_prompt=f"Use {SECRET}."
    )
    response = await agent.run("hello")
    sent = [request.messages[0]["content"] for request in agent.model.requests]
    assert sent == [f"Use {HIDDEN}."] * 2
    assert len(response.messages) == 4
    clean(response)


async def test_a_change_that_is_no_redaction_leaves_the_history_alone(make, hooks):
    @hooks.before_llm_call
    def shorten(event, request):
        return Continue(dataclasses.replace(request, messages=request.messages[-1:]))

    agent = make("a", "b", hooks=hooks)
    conversation = agent.conversation()
    await conversation.run("one")
    await conversation.run("two")
    assert [message["content"] for message in conversation.messages] == ["one", "a", "two", "b"]
    assert len(agent.model.requests[1].messages) == 1


@pytest.mark.parametrize("first", ["style", "redaction"])
async def test_what_another_hook_adds_to_a_request_does_not_become_history(
    make, hooks, tools, first
):
    style = {"role": "system", "content": "house style"}

    @hooks.before_llm_call(priority=1 if first == "style" else 3)
    def add_style(event, request):
        return Continue(dataclasses.replace(request, messages=[style, *request.messages]))

    hooks.before_llm_call(redact, priority=2)
    script = ToolCall("1", "echo"), ToolCall("2", "echo"), "hi"
    agent = make(*script, hooks=hooks, tools=tools, system_prompt="Be kind.")
    response = await agent.run(SECRET)
    for request in agent.model.requests:
        told = [message["content"] for message in request.messages]
        assert told[:3] == ["house style", "Be kind.", HIDDEN]
        assert told.count("house style") == 1
    assert [message["role"] for message in response.messages[:2]] == ["user", "assistant"]
    assert SECRET not in repr((response, agent.model.requests))


@pytest.mark.parametrize(
    ("first", "left"), [("redaction", ["a", "b"]), ("cut", ["[redacted]", "[redacted]"])]
)
async def test_what_a_redaction_never_saw_is_blanked_and_what_is_cut_after_it_stays(
    make, hooks, first, left
):
    @hooks.before_llm_call(priority=1 if first == "cut" else 3)
    def cut(event, request):
        return Continue(dataclasses.replace(request, messages=request.messages[-1:]))

    hooks.before_llm_call(redact, priority=2)
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    response = await make("hi", hooks=hooks).run(SECRET, history=history)
    assert [message["content"] for message in response.messages] == [*left, HIDDEN, "hi"]


async def test_at_query_end_whatever_the_history_looks_like(make, hooks):
    hooks.query_end(redact)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    ]
    conversation = make(f"it is {SECRET}", hooks=hooks).conversation(history=history)
    response = await conversation.run("hello")
    assert SECRET not in repr((response, conversation.messages))


async def test_at_query_end_in_the_text_alone_is_enough_for_the_history(make, hooks):
    hooks.query_end(lambda event: Continue(HIDDEN, redacted=True))
    conversation = make(SECRET, hooks=hooks).conversation()
    response = await conversation.run("hello")
    assert SECRET not in repr((response, conversation.messages))


async def test_in_shadow_nothing_is_redacted(make, hooks):
    hooks.after_llm_call(redact, mode="shadow")
    assert (await make(SECRET, hooks=hooks).run("hello")).content == SECRET


async def test_in_what_a_sub_agent_is_told_and_says(make, hooks):
    hooks.hook("before_tool_call", "after_llm_call")(redact)
    inner = make(f"it is {SECRET}", name="inner")
    call = ToolCall("1", "inner", {"query": f"ask for {SECRET}"})
    outer = make(call, "hi", hooks=hooks, tools=[inner])
    response = await outer.run("hello")
    sent = [*inner.model.requests, *outer.model.requests]
    assert SECRET not in repr((response, sent))
    assert response.messages[2]["content"] == f"it is {HIDDEN}"


@pytest.mark.parametrize("number", [1, 2])
async def test_a_call_that_was_cut_off_before_the_redaction_had_seen_it_is_not_kept_as_it_was(
    *, make, hooks, witness, calls, tools, number
):
    started = asyncio.Event()

    @hooks.before_tool_call(redacts=True)
    async def redact_slowly(event, call):
        started.set()
        await asyncio.sleep(10)
        return redact(event, call)

    answer = calls(*((f"{n}", "echo", {"text": SECRET}) for n in range(number)))
    conversation = make(answer, hooks=hooks, tools=tools).conversation()
    task = asyncio.create_task(conversation.run("hello"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert SECRET not in repr((conversation.messages, witness.end))


@pytest.mark.parametrize("way", ["before the run", "in the run"])
async def test_a_message_that_the_redaction_leaves_out_is_blank_in_the_history(make, hooks, way):
    @hooks.before_llm_call
    def leave_out(event, request):
        kept = [message for message in request.messages if SECRET not in message["content"]]
        return Continue(dataclasses.replace(request, messages=kept), redacted=True)

    said = [SECRET, "b", "hello"] if way == "before the run" else ["a", "b", SECRET]
    roles = ("user", "assistant")
    history = [{"role": r, "content": c} for r, c in zip(roles, said, strict=False)]
    agent = make("hi", "bye", hooks=hooks)
    conversation = agent.conversation(history=history)
    await conversation.run(said[-1])
    await conversation.run("and now?")
    assert SECRET not in repr((conversation.messages, agent.model.requests))
    shown = ["[redacted]" if text == SECRET else text for text in said]
    told = [message["content"] for message in conversation.messages]
    assert told == [*shown, "hi", "and now?", "bye"]


async def test_the_calls_and_results_that_the_redaction_leaves_out_are_blank_and_in_order(
    make, hooks, tools
):
    @hooks.before_llm_call
    def leave_out(event, request):
        kept = [message for message in request.messages if message["role"] == "user"]
        return Continue(dataclasses.replace(request, messages=kept), redacted=True)

    call = ToolCall("1", "echo", {"text": SECRET})
    conversation = make(call, "hi", hooks=hooks, tools=tools).conversation()
    await conversation.run("hello")
    assert SECRET not in repr(conversation.messages)
    assert [message["role"] for message in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_in_the_arguments_and_results_of_earlier_calls(make, hooks, tools):
    @hooks.before_llm_call
    def redact_all(event, request):
        messages = json.loads(json.dumps(request.messages).replace(SECRET, HIDDEN))
        return Continue(dataclasses.replace(request, messages=messages), redacted=True)

    agent = make(ToolCall("1", "echo", {"text": SECRET}), "hi", hooks=hooks, tools=tools)
    response = await agent.run(f"say {SECRET}")
    assert SECRET not in repr((response, agent.model.requests))
    assert [message["content"] for message in response.messages] == [
        f"say {HIDDEN}",
        "",
        HIDDEN,
        "hi",
    ]


async def test_a_redaction_and_a_block_take_back_the_query_and_nothing_else(make, hooks):
    @hooks.before_llm_call
    def leave_out(event, request):
        kept = [message for message in request.messages if SECRET not in message["content"]]
        return Continue(dataclasses.replace(request, messages=kept), redacted=True)

    hooks.before_llm_call(lambda event: Block("no"), lane="gate")
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    conversation = make("hi", hooks=hooks).conversation(history=history)
    await conversation.run(SECRET)
    assert conversation.messages == history
