"""Streams of the messages API: read however they are cut, and written on from any place."""

import json
from dataclasses import replace

import anthropic
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.text import UNPARSED
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall
from checkrail.llm.messages.api import Messages
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Refusal, UnreadableError

from .taking import pieces_of, read, taken

API = Messages()
ASKED = ModelRequest(model="claude-grand-1", stream=True)


def told(kind, **fields):
    return write_event(json.dumps({"type": kind, **fields}).encode(), kind)


def start(index, **block):
    return told("content_block_start", index=index, content_block=block)


def delta(index, kind, **fields):
    return told("content_block_delta", index=index, delta={"type": kind, **fields})


def stop(index):
    return told("content_block_stop", index=index)


def ending(reason):
    told_then = {"stop_reason": reason, "stop_sequence": None}
    return told("message_delta", delta=told_then, usage={"output_tokens": 15})


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-grand-1-2026",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 3},
}
BEGIN = told("message_start", message=MESSAGE)
PING = told("ping")
STOP = told("message_stop")
THINKING = [
    start(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Hm, "),
    delta(0, "thinking_delta", thinking="well"),
    delta(0, "signature_delta", signature="c2ln"),
    stop(0),
]
TEXT = [
    start(1, type="text", text=""),
    delta(1, "text_delta", text="Let me "),
    delta(1, "text_delta", text="pay."),
    stop(1),
]
USE = [
    start(2, type="tool_use", id="toolu_1", name="transfer", input={}),
    delta(2, "input_json_delta", partial_json=""),
    delta(2, "input_json_delta", partial_json='{"amo'),
    delta(2, "input_json_delta", partial_json='unt": 5}'),
    stop(2),
]
CALLS = b"".join([BEGIN, PING, *THINKING, *TEXT, *USE, ending("tool_use"), STOP])


def snapshot(data):
    """Put a stream together as the SDK does."""
    message, buffers = None, {}
    for piece in pieces_of(data):
        if piece.event not in (None, "ping", "later"):
            message = accumulate_event(
                event=json.loads(piece.data), current_snapshot=message, json_bufs=buffers
            )
    return message


def check_order(data):
    """See that blocks are opened one after the other, and closed."""
    opened = []
    for piece in pieces_of(data):
        found = json.loads(piece.data) if piece.data else {}
        if found.get("type") == "content_block_start":
            assert found["index"] == len(opened)
            opened.append(True)
        elif found.get("type") == "content_block_delta":
            assert opened[found["index"]]
        elif found.get("type") == "content_block_stop":
            assert opened[found["index"]]
            opened[found["index"]] = False
    assert not any(opened)


def test_pieces_tell_what_they_are_about():
    reading = API.open_stream(ASKED)
    kinds, _ = taken(reading, pieces_of(CALLS))
    assert kinds[:2] == ["quiet", "quiet"]
    assert kinds[2:7] == ["text"] * 4 + ["quiet"]
    assert kinds[7:11] == ["text"] * 3 + ["quiet"]
    assert kinds[11:] == ["tool"] * 5 + ["quiet", "end"]
    assert reading.has_ended


def test_a_stream_is_read():
    message = read(API.open_stream(ASKED), CALLS)
    thinking = {"type": "thinking", "thinking": "Hm, well", "signature": "c2ln"}
    assert message.content == [thinking, {"type": "text", "text": "Let me pay."}]
    assert message.tool_calls == [ToolCall("toolu_1", "transfer", {"amount": 5})]
    assert message.stop_reason == "tool_calls"
    assert message.usage["input_tokens"] == 15
    assert message.usage["output_tokens"] == 15


def test_a_signed_thought_that_was_changed_is_left_out():
    reading = API.open_stream(ASKED)
    thought, said = read(reading, CALLS).content
    after = replace(reading.message, content=[{**thought, "thinking": "***"}, said])
    out = b"".join(reading.write_rest(after))
    check_order(out)
    assert [block.type for block in snapshot(out).content] == ["text", "tool_use"]
    assert b"well" not in out


def test_a_blocked_call_becomes_a_text_block():
    reading = API.open_stream(ASKED)
    _, out = taken(reading, pieces_of(CALLS), passed=11)
    note = {"type": "text", "text": "It may not."}
    after = replace(reading.message, content=[*reading.message.content, note], tool_calls=[])
    out += b"".join(reading.write_rest(after))
    check_order(out)
    found = snapshot(out)
    assert [block.type for block in found.content] == ["thinking", "text", "text"]
    assert found.content[0].signature == "c2ln"
    assert found.content[2].text == "It may not."
    assert found.stop_reason == "end_turn"
    assert found.usage.output_tokens == 15
    assert b"transfer" not in out


def test_a_text_that_grew_goes_on_in_its_block_or_in_a_new_one():
    data = b"".join(
        [
            BEGIN,
            start(0, type="text", text=""),
            delta(0, "text_delta", text="Let me"),
            stop(0),
            start(1, type="tool_use", id="a", name="transfer", input={}),
            stop(1),
            ending("tool_use"),
            STOP,
        ]
    )
    for passed, texts in [(0, ["Let me not"]), (3, ["Let me not"]), (4, ["Let me", " not"])]:
        reading = API.open_stream(ASKED)
        _, out = taken(reading, pieces_of(data), passed)
        out += b"".join(
            reading.write_rest(replace(reading.message, content="Let me not", tool_calls=[]))
        )
        check_order(out)
        assert [block.text for block in snapshot(out).content] == texts


def test_changed_arguments_are_written():
    reading = API.open_stream(ASKED)
    _, out = taken(reading, pieces_of(CALLS), passed=11)
    changed = ToolCall("toolu_1", "transfer", {"amount": 4})
    out += b"".join(reading.write_rest(replace(reading.message, tool_calls=[changed])))
    check_order(out)
    use = snapshot(out).content[2]
    assert (use.id, use.name, use.input) == ("toolu_1", "transfer", {"amount": 4})


def test_arguments_that_were_cut_off_stay_as_they_came():
    data = b"".join([BEGIN, *THINKING, *TEXT, *USE[:3], stop(2), ending("max_tokens"), STOP])
    reading = API.open_stream(ASKED)
    message = read(reading, data)
    assert message.metadata[UNPARSED] == {"toolu_1": '{"amo'}
    out = b"".join(reading.write_rest(replace(message, content="x")))
    assert read(API.open_stream(ASKED), out).metadata[UNPARSED] == {"toolu_1": '{"amo'}


def test_tools_of_the_provider_citations_and_unknown_events_are_kept():
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    cited = {"type": "char_location", "cited_text": "x"}
    data = b"".join(
        [
            BEGIN,
            start(0, **search),
            delta(0, "input_json_delta", partial_json='{"query": "x"}'),
            stop(0),
            start(1, type="web_search_tool_result", tool_use_id="srv_1", content=[{"a": 1}]),
            stop(1),
            start(2, type="text", text="", citations=[]),
            delta(2, "citations_delta", citation=cited),
            delta(2, "text_delta", text="a secret"),
            stop(2),
            start(3, type="later", words=""),
            delta(3, "later_delta", words="so"),
            delta(3, "later_delta", words="on"),
            stop(3),
            told("later", words="x"),
            ending("end_turn"),
            STOP,
        ]
    )
    for passed in range(7):
        reading = API.open_stream(ASKED)
        _, out = taken(reading, pieces_of(data), passed)
        message = reading.message
        assert message.content[0]["input"] == {"query": "x"}
        assert message.content[2]["citations"] == [cited]
        assert message.content[3]["words"] == "soon"
        content = [*message.content]
        content[2] = {**content[2], "text": "a ***"}
        out += b"".join(reading.write_rest(replace(message, content=content)))
        check_order(out)
        assert b"secret" not in out
        assert told("later", words="x") in out
        assert read(API.open_stream(ASKED), out).content == content


def test_an_answer_that_broke_off_is_none():
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(b"".join([BEGIN, *THINKING])))
    assert not reading.has_ended
    with pytest.raises(UnreadableError, match="ended before"):
        _ = reading.message


def test_an_error_of_the_provider_is_told():
    failed = told("error", error={"type": "overloaded_error", "message": "Overloaded"})
    reading = API.open_stream(ASKED)
    kinds, _ = taken(reading, pieces_of(BEGIN + failed))
    assert kinds[-1] == "error"
    with pytest.raises(UnreadableError, match="Overloaded"):
        _ = reading.message


@pytest.mark.parametrize(
    "data",
    [
        b"data: hello\n\n",
        b"data: [1]\n\n",
        delta(0, "text_delta", text="x"),
        BEGIN + BEGIN,
        start(0, type="text", text="a") + start(0, type="text", text="b"),
        start("x", type="text", text="a"),
        start(0, type="text", text="") + delta(0, "text_delta", text=5),
        STOP + start(0, type="text", text="a"),
    ],
)
def test_what_is_no_stream_is_unreadable(data):
    with pytest.raises(UnreadableError):
        taken(API.open_stream(ASKED), pieces_of(data))


SYNTHETIC = AssistantMessage("Hello", [ToolCall("call_1", "transfer", {"amount": 5})])


def client_at(url, kind=anthropic.Anthropic):
    return kind(base_url=url, api_key="k", max_retries=0)


def check(message):
    said, use = message.content
    assert (said.text, use.name, use.input) == ("Hello", "transfer", {"amount": 5})
    assert (message.stop_reason, message.model) == ("tool_use", "claude-grand-1")


def test_the_sdk_takes_a_stream_that_no_model_gave(endpoint):
    url = endpoint.gives(b"".join(API.build_stream(SYNTHETIC, ASKED)), stream=True)
    client = client_at(url)
    with client, client.messages.stream(model="x", max_tokens=5, messages=[]) as stream:
        assert "".join(stream.text_stream) == "Hello"
        check(stream.get_final_message())


async def test_the_asynchronous_sdk_takes_it_too(endpoint):
    body = API.keep_alive + b"".join(API.build_stream(SYNTHETIC, ASKED))
    url = endpoint.gives(body, stream=True)
    client = client_at(url, anthropic.AsyncAnthropic)
    async with client, client.messages.stream(model="x", max_tokens=5, messages=[]) as stream:
        check(await stream.get_final_message())


def test_the_sdk_raises_an_error_in_the_middle(endpoint):
    body = b"".join([BEGIN, *THINKING]) + API.error_event(Refusal(403, "blocked"))
    url = endpoint.gives(body, stream=True)
    with client_at(url) as client:
        stream = client.messages.create(model="x", max_tokens=5, messages=[], stream=True)
        with pytest.raises(anthropic.APIStatusError, match="blocked"):
            list(stream)


TEXTS = st.text(st.sampled_from('ab"é\\\n{}😀'), max_size=6)
ARGS = st.dictionaries(st.sampled_from(["amount", "to"]), st.integers() | TEXTS, max_size=2)


@st.composite
def blocks(draw, index):
    kind = draw(st.sampled_from(["text", "thinking", "tool_use"]))
    if kind == "tool_use":
        args = draw(ARGS)
        text = json.dumps(args)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
        ends = zip([0, *cuts], [*cuts, len(text)], strict=True)
        call = ToolCall(f"toolu_{index}", f"tool_{index}", args)
        opened = start(index, type=kind, id=call.id, name=call.name, input={})
        pieces = [delta(index, "input_json_delta", partial_json=text[a:b]) for a, b in ends]
        return [opened, *pieces, stop(index)], call
    fragments = draw(st.lists(TEXTS, max_size=3))
    said = "".join(fragments)
    if kind == "text":
        pieces = [delta(index, "text_delta", text=one) for one in fragments]
        part = {"type": "text", "text": said}
        return [start(index, type="text", text=""), *pieces, stop(index)], part
    pieces = [delta(index, "thinking_delta", thinking=one) for one in fragments]
    pieces.append(delta(index, "signature_delta", signature="c2ln"))
    opened = start(index, type="thinking", thinking="", signature="")
    return [opened, *pieces, stop(index)], {
        "type": "thinking",
        "thinking": said,
        "signature": "c2ln",
    }


@st.composite
def answers(draw):
    """Give an answer, and the events that it came in."""
    found = [draw(blocks(index)) for index in range(draw(st.integers(0, 4)))]
    calls = [part for _, part in found if isinstance(part, ToolCall)]
    reason = "tool_use" if calls else "end_turn"
    events = [BEGIN, *(one for pieces, _ in found for one in pieces), ending(reason), STOP]
    parts = [one for _, one in found if isinstance(one, dict) and one.get("text") != ""]
    return events, parts, calls, "tool_calls" if calls else "stop"


def joined(parts):
    """Give content as it is read: a text, if it is nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


@given(answers(), st.data())
def test_no_cut_changes_what_is_read(answer, data):
    events, parts, calls, reason = answer
    stream = b"".join(events)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(stream, cuts))
    message = reading.message
    assert message.content == joined(parts)
    assert (message.tool_calls, message.stop_reason) == (calls, reason)


def flat(content):
    """Give what content says, whatever the blocks that its texts are in."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found = []
    for part in parts:
        if part["type"] == "text" and found and isinstance(found[-1], str):
            found[-1] += part["text"]
        elif part["type"] == "text":
            found.append(part["text"])
        else:
            found.append(dict(part))
    return [one for one in found if one != ""]


@given(answers(), st.data())
def test_from_any_place_the_stream_tells_the_changed_answer(answer, data):
    events, _, calls, _ = answer
    said = [place for place, one in enumerate(events) if b'"tool_use", "id"' in one]
    passed = data.draw(st.integers(0, said[0] if said else len(events) - 2))
    reading = API.open_stream(ASKED)
    _, out = taken(reading, pieces_of(b"".join(events)), passed)
    message = reading.message
    added = data.draw(TEXTS)
    note = [{"type": "text", "text": added}] if added else []
    is_text = isinstance(message.content, str)
    content = message.content + added if is_text else [*message.content, *note]
    kept = [
        data.draw(st.sampled_from([found, replace(found, args={"to": "x"})]))
        for found in calls
        if data.draw(st.booleans())
    ]
    after = replace(message, content=content, tool_calls=kept)
    out += b"".join(reading.write_rest(after))
    check_order(out)
    again = read(API.open_stream(ASKED), out)
    assert flat(again.content) == flat(content)
    assert again.tool_calls == kept
    assert again.stop_reason == ("tool_calls" if kept else "stop")
    assert again.usage == message.usage
    found = snapshot(out)
    uses = [(one.id, one.input) for one in found.content if one.type == "tool_use"]
    assert uses == [(one.id, one.args) for one in kept]


def test_what_came_of_an_answer_can_be_seen_before_its_end():
    reading = API.open_stream(ASKED)
    taken(reading, pieces_of(CALLS)[:14])
    assert reading.partial.content[1]["text"] == "Let me pay."
    assert [found.name for found in reading.partial.tool_calls] == ["transfer"]
    assert reading.partial.usage["output_tokens"] == 1
