"""Streams of the Responses API: read however they are cut, and ended otherwise from any place."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.responses.api import Responses
from checkrail.llm.sse import EventSplitter, write_event
from checkrail.llm.wire_format import Refusal, UnreadableError

from .responses_wire import (
    SEARCH,
    answer,
    call_item,
    check_order,
    custom_item,
    pieces_of,
    stream,
    stream_events,
    text_item,
    thought_item,
    told,
)

API = Responses()
ASKED = ModelRequest(model="m")

texts = st.text(min_size=1, max_size=12)
cited = {"type": "url_citation", "url": "https://x.example", "title": "X"}
saying = st.one_of(
    texts.map(text_item),
    texts.map(lambda text: text_item(text, annotations=[cited])),
    st.lists(texts, max_size=2).map(lambda summary: thought_item(*summary)),
    st.just(SEARCH),
)
arguments = st.dictionaries(texts, st.integers() | texts, max_size=3).map(json.dumps)
calling = st.one_of(arguments.map(lambda text: call_item(arguments=text)), texts.map(custom_item))


def numbered(items):
    """Give each item ids of its own."""
    return [
        item
        | {"id": f"{item['id']}_{place}"}
        | ({"call_id": f"c{place}"} if "call_id" in item else {})
        for place, item in enumerate(items)
    ]


answers = st.lists(saying | calling, max_size=4).map(numbered)
sizes = st.integers(1, 9)


def reading_of(data):
    reading = API.open_stream(ASKED)
    for piece in pieces_of(data):
        reading.read_piece(piece)
    return reading


def taken(pieces, reading):
    """Have pieces read and passed on as long as none is about a tool; give what was passed."""
    sent = b""
    for place, piece in enumerate(pieces):
        if reading.read_piece(piece) in ("tool", "end"):
            for other in pieces[place + 1 :]:
                reading.read_piece(other)
            break
        reading.mark_sent()
        sent += piece.raw
    return sent


def check_told(data, after):
    """Check that a stream is one of the API's, and tells this answer in every way that it has."""
    events = told(data)
    check_order(events)
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    read = reading_of(data).message
    assert said(read) == said(after)
    assert API.read_answer(events[-1]["response"]).content == read.content


def said(message):
    calls = [(call.id, call.name, call.args) for call in message.tool_calls]
    parts = message.content
    if isinstance(parts, str):
        parts = [{"type": "text", "text": parts}]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    others = [part for part in parts if part["type"] != "text"]
    return text, others, calls


@given(items=answers, size=sizes, data=st.data())
def test_an_answer_is_read_whatever_the_fragments_and_the_chunks(items, size, data):
    sent = stream(*items, size=size)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    splitter, reading = EventSplitter(), API.open_stream(ASKED)
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        for piece in splitter.feed(sent[start:end]):
            reading.read_piece(piece)
    assert reading.has_ended
    assert reading.message == API.read_answer(answer(*items))


@given(items=answers, size=sizes, data=st.data())
def test_an_answer_that_nobody_changed_ends_byte_for_byte_as_it_came(items, size, data):
    pieces = pieces_of(stream(*items, size=size))
    passed = data.draw(st.integers(0, len(pieces)))
    reading = API.open_stream(ASKED)
    for piece in pieces[:passed]:
        reading.read_piece(piece)
    reading.mark_sent()
    for piece in pieces[passed:]:
        reading.read_piece(piece)
    rest = [*reading.write_rest(reading.message)]
    assert rest == [piece.raw for piece in pieces[passed:]]


@given(items=answers, size=sizes, kept=st.integers(0, 2), noted=st.booleans())
def test_blocked_calls_are_never_seen_and_the_rest_is(items, size, kept, noted):
    reading = API.open_stream(ASKED)
    sent = taken(pieces_of(stream(*items, size=size)), reading)
    before = reading.message
    content = before.content
    if noted and isinstance(content, str):
        content += "No."
    elif noted:
        content = [*content, {"type": "text", "text": "No."}]
    after = replace(before, content=content, tool_calls=before.tool_calls[:kept])
    whole = sent + b"".join(reading.write_rest(after))
    check_told(whole, after)
    for call in before.tool_calls[kept:]:
        assert f'"call_id":"{call.id}"' not in whole.decode().replace('": ', '":')


@given(items=answers, size=sizes, text=texts)
def test_a_held_answer_can_become_any_other(items, size, text):
    pieces = pieces_of(stream(*items, size=size))
    reading = API.open_stream(ASKED)
    kinds = [reading.read_piece(piece) for piece in pieces[:2]]
    assert kinds == ["quiet", "quiet"]
    reading.mark_sent()
    for piece in pieces[2:]:
        assert reading.read_piece(piece) != "quiet"
    after = replace(reading.message, content=text, tool_calls=[])
    whole = b"".join(piece.raw for piece in pieces[:2]) + b"".join(reading.write_rest(after))
    check_told(whole, after)


@given(text=texts, size=sizes, other=texts, data=st.data())
def test_a_text_goes_on_from_where_it_was(text, size, other, data):
    pieces = pieces_of(stream(text_item(text), call_item(), size=size))
    first = next(place for place, piece in enumerate(pieces) if b"call_1" in piece.raw)
    passed = data.draw(st.integers(0, first))
    reading = API.open_stream(ASKED)
    for place, piece in enumerate(pieces):
        reading.read_piece(piece)
        if place < passed:
            reading.mark_sent()
    sent = b"".join(piece.raw for piece in pieces[:passed])
    shown = "".join(one["delta"] for one in told(sent) if one["type"].endswith("text.delta"))
    after = replace(reading.message, content=shown + other)
    check_told(sent + b"".join(reading.write_rest(after)), after)


@given(items=answers, text=st.text(max_size=9))
def test_an_answer_that_no_model_gave_is_a_stream_of_the_api(items, text):
    message = API.read_answer(answer(*items))
    made = replace(message, content=text) if text else message
    check_told(b"".join(API.build_stream(made, ASKED)), made)


def test_pieces_say_what_they_are_about():
    sent = stream(thought_item("Hm"), SEARCH, text_item("Hi"), call_item(), custom_item(), size=99)
    reading = API.open_stream(ASKED)
    kinds = [reading.read_piece(piece) for piece in pieces_of(b": hello\n\n" + sent)]
    runs = [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]
    assert runs == ["quiet", "text", "tool", "end"]


def test_what_means_nothing_is_quiet():
    reading = API.open_stream(ASKED)
    for data in (b": ping\n\n", b'data: {"type":"keepalive","sequence_number":3}\n\n'):
        assert reading.read_piece(pieces_of(data)[0]) == "quiet"


def test_a_stream_may_end_as_those_of_other_apis_do():
    sent = stream(text_item(), call_item()) + b"data: [DONE]\n\n"
    reading = reading_of(sent)
    after = replace(reading.message, tool_calls=[])
    assert [*reading.write_rest(after)][-1] == b"data: [DONE]\n\n"


def test_a_call_that_only_the_end_tells_of_is_seen():
    events = stream_events(answer(text_item()))
    last = json.loads(pieces_of(events[-1])[0].data)
    last["response"]["output"].append(call_item())
    sent = b"".join(events[:-1]) + write_event(json.dumps(last).encode(), last["type"])
    reading = reading_of(sent)
    assert [call.name for call in reading.message.tool_calls] == ["transfer"]
    after = replace(reading.message, tool_calls=[])
    assert b"transfer" not in b"".join(reading.write_rest(after))


def test_items_at_the_same_place_are_all_seen():
    sent = stream(call_item(), call_item("pay", id="call_2")).replace(
        b'"output_index": 1', b'"output_index": 0'
    )
    assert [call.name for call in reading_of(sent).message.tool_calls] == ["transfer", "pay"]


def test_items_may_overlap_and_events_may_lack_their_numbers():
    events = [json.loads(one.data) for one in pieces_of(stream(text_item("Hello"), call_item()))]
    unnumbered = [{key: one[key] for key in one if key != "sequence_number"} for one in events]
    ends = [one for one in unnumbered if one["type"].endswith(".done") and "msg_1" in str(one)]
    others = [one for one in unnumbered if one not in ends]
    overlapping = [*others[:-1], *ends, others[-1]]
    sent = b"".join(write_event(json.dumps(one).encode(), one["type"]) for one in overlapping)
    reading = API.open_stream(ASKED)
    passed = taken(pieces_of(sent), reading)
    assert b"Hell" in passed
    assert b"msg_1" not in b"".join(one for one in passed.splitlines() if b".done" in one)
    after = replace(reading.message, content="Hello. No.", tool_calls=[])
    rest = b"".join(reading.write_rest(after))
    assert said(reading_of(passed + rest).message) == said(after)
    assert b"call_1" not in passed + rest


def test_fragments_without_an_end_of_their_own_are_enough():
    events = stream_events(answer(text_item(), call_item()))
    fragments = [one for one in events if b".done" not in one.splitlines()[0]]
    last = json.loads(pieces_of(fragments[-1])[0].data)
    last["response"]["output"] = []
    sent = b"".join(fragments[:-1]) + write_event(json.dumps(last).encode(), last["type"])
    assert reading_of(sent).message == API.read_answer(answer(text_item(), call_item()))


@pytest.mark.parametrize("name", ["function_call_arguments.delta", "output_item.done"])
def test_a_stream_that_says_two_things_is_refused(name):
    events = stream_events(answer(call_item(arguments='{"amount": 5}')), size=99)
    other = [
        one.replace(rb"{\"amount\": 5}", rb"{\"amount\": 5000}") if name.encode() in one else one
        for one in events
    ]
    with pytest.raises(UnreadableError, match="in two ways that differ"):
        reading_of(b"".join(other))


def test_a_stream_that_names_two_tools_is_refused():
    events = stream_events(answer(call_item()))
    events[2] = events[2].replace(b"transfer", b"read")
    with pytest.raises(UnreadableError, match="the name of a tool in two ways"):
        reading_of(b"".join(events))


def test_thoughts_that_came_in_pieces_alone_are_seen():
    sent = stream(thought_item("My key is sk-1"), text_item())
    summary = json.dumps(thought_item("My key is sk-1")["summary"]).encode()
    reading = reading_of(sent.replace(summary, b"[]"))
    assert reading.message.content[0]["summary"] == thought_item("My key is sk-1")["summary"]


@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: []\n\n",
        b'data: {"type": "response.output_item.added", "output_index": 0}\n\n',
        b'data: {"type": "response.function_call_arguments.delta", "output_index": 0}\n\n',
        b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": 5}\n\n',
    ],
)
def test_garbage_is_told(data):
    with pytest.raises(UnreadableError):
        reading_of(data)


def test_a_stream_that_breaks_off_is_no_answer():
    reading = reading_of(b"".join(stream_events(answer(text_item()))[:-1]))
    assert not reading.has_ended
    assert (reading.partial.content, reading.partial.stop_reason) == ("Hello", None)
    with pytest.raises(UnreadableError, match="ended before the answer did"):
        _ = reading.message


def test_nothing_may_follow_the_end():
    reading = reading_of(stream(text_item()))
    with pytest.raises(UnreadableError, match="after its end"):
        reading.read_piece(pieces_of(stream_events(answer(call_item()))[2])[0])


def test_errors_of_the_upstream_are_told_apart():
    error = {"message": "The server is tired", "code": "server_error"}
    failed = stream(status="failed", error=error)
    inside = b'event: error\ndata: {"type": "error", "message": "The server is tired"}\n\n'
    nested = b'data: {"type": "error", "error": {"message": "The server is tired"}}\n\n'
    for sent in (failed, inside, nested):
        reading = API.open_stream(ASKED)
        kinds = [reading.read_piece(piece) for piece in pieces_of(sent)]
        assert kinds[-1] == "error"
        with pytest.raises(UnreadableError, match="The server is tired"):
            _ = reading.message


def test_an_answer_that_failed_after_it_said_something_is_not_passed_on_unseen():
    reading = API.open_stream(ASKED)
    sent = stream(text_item("The key is"), status="failed", error={"message": "Tired"})
    kinds = [reading.read_piece(piece) for piece in pieces_of(sent)]
    assert kinds[-1] == "end"


def test_letters_cut_in_two_are_put_together():
    events = stream_events(answer(text_item("😀")), size=1)
    halves = [b'"delta": "\\ud83d"', b'"delta": "\\ude00"']
    at = next(place for place, one in enumerate(events) if b"output_text.delta" in one)
    whole = b'"delta": "\\ud83d\\ude00"'
    assert whole in events[at]
    cut = [events[at].replace(whole, half) for half in halves]
    reading = reading_of(b"".join([*events[:at], *cut, *events[at + 1 :]]))
    assert reading.message.content == "😀"


def test_changed_logprobs_and_arguments_do_not_stay_in_the_stream():
    sent = stream(text_item("The key is sk-1"), call_item(arguments='{"key": "sk-1"}'))
    reading = reading_of(sent)
    before = reading.message
    calls = [replace(before.tool_calls[0], args={"key": "***"})]
    after = replace(before, content="The key is ***", tool_calls=calls)
    rest = b"".join(reading.write_rest(after))
    assert b"sk-1" not in rest
    check_told(rest, after)


def test_an_error_within_a_stream_is_an_event_of_the_api():
    found, failed = told(API.error_event(Refusal(403, "Not today", "not_today")))
    assert (found["type"], found["code"], found["message"]) == ("error", "not_today", "Not today")
    assert found["error"]["message"] == "Not today"
    reason = {"code": "invalid_prompt", "message": "Not today"}
    assert (failed["type"], failed["response"]["error"]) == ("response.failed", reason)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_error_that_may_pass_is_no_failed_response(status):
    [found] = told(API.error_event(Refusal(status, "Not now")))
    assert found["type"] == "error"


def test_an_answer_of_nothing_is_one():
    check_told(b"".join(API.build_stream(AssistantMessage(), ASKED)), AssistantMessage())
