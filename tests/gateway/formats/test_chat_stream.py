"""Streams of the chat API: read however they are cut, and written on from any place."""

import json
from dataclasses import replace

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall
from checkrail.llm.chat.api import Chat
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Refusal, UnreadableError

from .taking import pieces_of, read, taken

API = Chat()
ASKED = ModelRequest(model="grand-1", stream=True)
COUNTED = replace(ASKED, params={"stream_options": {"include_usage": True}})
USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
HEAD = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1741476542,
    "model": "grand-1-0613",
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}


def chunk(*choices, **more):
    return write_event(json.dumps(HEAD | {"choices": [*choices]} | more).encode())


def delta(finish=None, index=0, **fields):
    return {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}


def call(index, text, **head):
    name = {"name": head.pop("name")} if "name" in head else {}
    return {"index": index, **head, "function": {**name, "arguments": text}}


DONE = b"data: [DONE]\n\n"
ROLE = chunk(delta(role="assistant", content="", refusal=None))
BEGIN = {"id": "call_1", "type": "function", "name": "transfer"}
TEXT = ROLE + chunk(delta(content="Let me ")) + chunk(delta(content="pay."))
CALLS = (
    TEXT
    + chunk(delta(tool_calls=[call(0, "", **BEGIN)]))
    + chunk(delta(tool_calls=[call(0, '{"amo')]))
    + chunk(delta(tool_calls=[call(0, 'unt": 5}')]))
    + chunk(delta("tool_calls"))
    + chunk(usage=USAGE)
    + DONE
)


def snapshot(data):
    """Put a stream together as the SDK does."""
    state = ChatCompletionStreamState()
    for piece in pieces_of(data):
        if piece.data and piece.data != b"[DONE]":
            state.handle_chunk(ChatCompletionChunk.model_validate_json(piece.data))
    return state.current_completion_snapshot


def heard(data):
    """Give what a caller makes of a stream."""
    choice = snapshot(data).choices[0]
    calls = [(one.id, one.function.arguments) for one in choice.message.tool_calls or ()]
    return choice.message.content or "", calls, choice.finish_reason


def test_pieces_tell_what_they_are_about():
    reading = API.open_stream(COUNTED)
    kinds, _ = taken(reading, pieces_of(b": hello\n\n" + CALLS))
    expected = ["quiet", "quiet", "text", "text", "tool", "tool", "tool", "quiet", "quiet", "end"]
    assert kinds == expected
    assert reading.has_ended


def test_a_stream_is_read():
    message = read(API.open_stream(COUNTED), CALLS)
    assert message.content == "Let me pay."
    assert message.tool_calls == [ToolCall("call_1", "transfer", {"amount": 5})]
    assert message.stop_reason == "tool_calls"
    assert message.model == "grand-1-0613"
    assert message.usage["total_tokens"] == 19


def test_usage_that_was_not_asked_for_is_hidden():
    kinds, _ = taken(API.open_stream(ASKED), pieces_of(chunk(usage=USAGE)))
    assert kinds == ["hidden"]
    reading = API.open_stream(ASKED)
    message = read(reading, CALLS)
    assert message.usage["total_tokens"] == 19
    out = b"".join(reading.write_rest(replace(message, content="No.", tool_calls=[])))
    assert b"usage" not in out


def test_an_answer_without_its_last_line_has_ended():
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(CALLS.removesuffix(chunk(usage=USAGE) + DONE)))
    assert reading.has_ended
    assert reading.message.tool_calls


def test_an_answer_that_broke_off_is_none():
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(TEXT))
    assert not reading.has_ended
    with pytest.raises(UnreadableError, match="ended before"):
        _ = reading.message


def test_an_error_of_the_provider_is_told():
    reading = API.open_stream(ASKED)
    failed = write_event(b'{"error": {"message": "overloaded", "type": "server_error"}}')
    kinds, _ = taken(reading, pieces_of(TEXT + failed))
    assert kinds[-1] == "error"
    assert not reading.has_ended
    with pytest.raises(UnreadableError, match="overloaded"):
        _ = reading.message


@pytest.mark.parametrize(
    "data",
    [
        b"data: hello\n\n",
        b"data: [1]\n\n",
        b'data: {"choices": {}}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": "x"}}]}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [{"function": 5}]}}]}\n\n',
        b'data: {"choices": [{"index": "x"}]}\n\n',
        DONE + ROLE,
    ],
)
def test_what_is_no_stream_is_unreadable(data):
    with pytest.raises(UnreadableError):
        taken(API.open_stream(ASKED), pieces_of(data))


def test_old_and_custom_calls_are_tool_calls():
    old = (
        chunk(delta(role="assistant", function_call={"name": "transfer", "arguments": ""}))
        + chunk(delta(function_call={"arguments": '{"amount": 5}'}))
        + chunk(delta("function_call"))
        + DONE
    )
    reading = API.open_stream(ASKED)
    kinds, _ = taken(reading, pieces_of(old))
    assert kinds == ["tool", "tool", "quiet", "end"]
    assert reading.message.tool_calls[0].args == {"amount": 5}
    out = b"".join(reading.write_rest(replace(reading.message, content="No.", tool_calls=[])))
    assert snapshot(out).choices[0].message.function_call is None
    assert heard(out) == ("No.", [], "stop")
    head = {"index": 0, "id": "call_1", "type": "custom"}
    custom = (
        chunk(delta(tool_calls=[head | {"custom": {"name": "exec", "input": "rm "}}]))
        + chunk(delta(tool_calls=[{"index": 0, "custom": {"input": "x"}}]))
        + chunk(delta("tool_calls"))
        + DONE
    )
    reading = API.open_stream(ASKED)
    (found,) = read(reading, custom).tool_calls
    assert (found.name, found.args) == ("exec", {"input": "rm x"})
    out = b"".join(
        reading.write_rest(
            replace(reading.message, tool_calls=[replace(found, args={"input": "ls"})])
        )
    )
    assert b'"custom":{"name":"exec","input":"ls"}' in out


def test_letters_whose_halves_come_apart_are_put_together():
    torn = (
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n'
        b'data: {"choices": [{"delta": {"content": "\\ude00"}, "finish_reason": "stop"}]}\n\n'
    )
    assert read(API.open_stream(ASKED), torn).content == "\U0001f600"


def test_a_name_in_pieces_is_one_name():
    data = (
        chunk(delta(tool_calls=[call(0, "", id="a", name="trans")]))
        + chunk(delta(tool_calls=[call(0, "{}", name="fer")]))
        + DONE
    )
    assert read(API.open_stream(ASKED), data).tool_calls[0].name == "transfer"


def test_a_blocked_call_becomes_a_text_after_one_that_was_passed():
    reading = API.open_stream(COUNTED)
    _, out = taken(reading, pieces_of(CALLS), passed=3)
    after = replace(
        reading.message, content="Let me pay.\n\nIt may not.", tool_calls=[], stop_reason="stop"
    )
    out += b"".join(reading.write_rest(after))
    assert heard(out) == ("Let me pay.\n\nIt may not.", [], "stop")
    assert snapshot(out).usage.total_tokens == 19
    assert out.endswith(DONE)
    assert b"transfer" not in out


def test_changed_arguments_are_written_with_the_id_of_their_call():
    reading = API.open_stream(ASKED)
    _, out = taken(reading, pieces_of(CALLS), passed=3)
    changed = ToolCall("call_1", "transfer", {"amount": 4})
    out += b"".join(reading.write_rest(replace(reading.message, tool_calls=[changed])))
    assert heard(out) == ("Let me pay.", [("call_1", '{"amount":4}')], "tool_calls")


def test_logprobs_and_thoughts_go_with_their_text():
    content = delta(content="secret") | {"logprobs": {"content": [{"token": "secret"}]}}
    data = chunk(delta(reasoning_content="secret")) + chunk(content) + chunk(delta("stop")) + DONE
    reading = API.open_stream(ASKED)
    message = read(reading, data)
    after = replace(message, content="***", metadata={"reasoning": "***"})
    out = b"".join(reading.write_rest(after))
    assert b"secret" not in out
    assert read(API.open_stream(ASKED), out).metadata == {"reasoning": "***"}
    kept = b"".join(reading.write_rest(replace(message, model="other")))
    assert b'"logprobs":{"content":[{"token":"secret"}]}' in kept


def test_every_choice_is_read_and_written():
    data = (
        chunk(delta(content="one"), delta(index=1, content="two"))
        + chunk(delta(index=1, tool_calls=[call(0, "{}", **BEGIN)]))
        + chunk(delta("stop"))
        + chunk(delta("tool_calls", index=1))
        + DONE
    )
    reading = API.open_stream(replace(ASKED, params={"n": 2}))
    message = read(reading, data)
    assert [part["text"] for part in message.content] == ["one", "two"]
    assert [found.name for found in message.tool_calls] == ["transfer"]
    choices = snapshot(b"".join(reading.write_rest(replace(message, tool_calls=[])))).choices
    assert [choice.message.content for choice in choices] == ["one", "two"]
    assert [choice.finish_reason for choice in choices] == ["stop", "stop"]


def test_choices_that_were_begun_are_ended():
    data = chunk(delta(content="one"), delta(index=1, content="two")) + chunk(
        delta("stop"), delta("stop", index=1)
    )
    reading = API.open_stream(replace(ASKED, params={"n": 2}))
    _, out = taken(reading, pieces_of(data + DONE), passed=1)
    choices = snapshot(out + b"".join(reading.write_rest(AssistantMessage("one more")))).choices
    assert [choice.message.content for choice in choices] == ["one more", "two"]
    assert [choice.finish_reason for choice in choices] == ["stop", "stop"]


SYNTHETIC = AssistantMessage("Hello", [ToolCall("call_1", "transfer", {"amount": 5})])


def client_at(url, kind=openai.OpenAI):
    return kind(base_url=f"{url}/v1", api_key="k", max_retries=0)


def check(chunks):
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    calls = [one.choices[0].delta.tool_calls for one in chunks if one.choices]
    assert text == "Hello"
    assert [found[0].function.name for found in calls if found] == ["transfer"]
    assert chunks[-1].usage.total_tokens == 0


def test_the_sdk_takes_a_stream_that_no_model_gave(endpoint):
    url = endpoint.gives(b"".join(API.build_stream(SYNTHETIC, COUNTED)), stream=True)
    with client_at(url) as client:
        check([*client.chat.completions.create(model="grand-1", messages=[], stream=True)])


async def test_the_asynchronous_sdk_takes_it_too(endpoint):
    body = API.keep_alive + b"".join(API.build_stream(SYNTHETIC, COUNTED))
    url = endpoint.gives(body, stream=True)
    async with client_at(url, openai.AsyncOpenAI) as client:
        stream = await client.chat.completions.create(model="grand-1", messages=[], stream=True)
        check([one async for one in stream])


def test_the_sdk_raises_an_error_in_the_middle(endpoint):
    url = endpoint.gives(TEXT + API.error_event(Refusal(403, "blocked", "rule")), stream=True)
    with client_at(url) as client:
        stream = client.chat.completions.create(model="grand-1", messages=[], stream=True)
        with pytest.raises(openai.APIError, match="blocked") as caught:
            list(stream)
    assert caught.value.code == "rule"


TEXTS = st.text(st.sampled_from('ab"é\\\n{}😀'), max_size=6)
FRAGMENTS = st.lists(TEXTS, max_size=3)
ARGS = st.dictionaries(st.sampled_from(["amount", "to"]), st.integers() | TEXTS, max_size=2)


@st.composite
def answers(draw):
    """Give an answer, and the chunks that it came in."""
    fragments = draw(FRAGMENTS)
    chunks = [ROLE] + [chunk(delta(content=text)) for text in fragments]
    calls = []
    for index, args in enumerate(draw(st.lists(ARGS, max_size=3))):
        text = json.dumps(args)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        ends = zip([0, *cuts], [*cuts, len(text)], strict=True)
        head = {"id": f"call_{index}", "type": "function", "name": f"tool_{index}"}
        chunks.append(chunk(delta(tool_calls=[call(index, "", **head)])))
        chunks += [chunk(delta(tool_calls=[call(index, text[a:b])])) for a, b in ends]
        calls.append(ToolCall(f"call_{index}", f"tool_{index}", args))
    finish = "tool_calls" if calls else "stop"
    chunks += [chunk(delta(finish)), chunk(usage=USAGE), DONE]
    return chunks, "".join(fragments), calls, finish


@given(answers(), st.data())
def test_no_cut_changes_what_is_read(answer, data):
    chunks, text, calls, finish = answer
    stream = b"".join(chunks)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(stream, cuts))
    message = reading.message
    assert (message.content, message.tool_calls, message.stop_reason) == (text, calls, finish)


@given(answers(), st.data())
def test_from_any_place_the_stream_tells_the_changed_answer(answer, data):
    chunks, text, calls, _ = answer
    said = [place for place, one in enumerate(chunks) if b'"tool_calls":' in one]
    passed = data.draw(st.integers(0, said[0] if said else len(chunks) - 3))
    reading = API.open_stream(COUNTED)
    _, out = taken(reading, pieces_of(b"".join(chunks)), passed)
    added = data.draw(TEXTS)
    kept = [
        data.draw(st.sampled_from([found, replace(found, args={"to": "x"})]))
        for found in calls
        if data.draw(st.booleans())
    ]
    after = replace(reading.message, content=text + added, tool_calls=kept)
    out += b"".join(reading.write_rest(after))
    again = read(API.open_stream(COUNTED), out)
    assert (again.content, again.tool_calls) == (text + added, kept)
    assert again.stop_reason == ("tool_calls" if kept else "stop")
    assert again.usage == reading.message.usage
    content, told, finish = heard(out)
    assert (content, finish) == (text + added, again.stop_reason)
    assert [(one, json.loads(args)) for one, args in told] == [(one.id, one.args) for one in kept]


def test_what_came_of_an_answer_can_be_seen_before_its_end():
    reading = API.open_stream(COUNTED)
    taken(reading, pieces_of(CALLS)[:6])
    assert reading.partial.content == "Let me pay."
    assert [found.name for found in reading.partial.tool_calls] == ["transfer"]
    with pytest.raises(UnreadableError):
        _ = API.open_stream(COUNTED).partial
