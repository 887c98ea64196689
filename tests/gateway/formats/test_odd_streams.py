"""Streams that no provider should send: they are read or refused, and nothing else breaks."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.chat.api import Chat
from checkrail.llm.messages.api import Messages
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import UnreadableError

from .taking import pieces_of

NAMES = (
    "role content type text tool_calls function_call function custom name arguments input id index "
    "audio transcript usage refusal delta finish_reason stop_reason partial_json thinking citations"
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["text", "tool_use", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4)
    ),
    max_leaves=8,
)


def shaped(**fields):
    """Give objects that have some of these fields, each mostly as it should be."""
    return st.fixed_dictionaries({}, optional={name: one | ODD for name, one in fields.items()})


TEXTS = st.text(max_size=3)
FUNCTION = shaped(name=st.sampled_from(["f", "g"]), arguments=TEXTS)
CALL = shaped(
    index=st.integers(0, 1), id=st.sampled_from(["a", "b"]), function=FUNCTION, custom=FUNCTION
)
DELTA = shaped(
    role=TEXTS,
    content=TEXTS,
    refusal=TEXTS,
    tool_calls=st.lists(CALL, max_size=2),
    function_call=FUNCTION,
    audio=ODD,
    reasoning_content=TEXTS,
)
CHOICE = shaped(index=st.integers(0, 1), delta=DELTA, finish_reason=TEXTS, logprobs=ODD, odd=ODD)
CHUNKS = st.lists(shaped(choices=st.lists(CHOICE, max_size=2), usage=ODD, model=ODD), max_size=4)

BLOCK = shaped(
    type=st.sampled_from(["text", "tool_use", "thinking", "server_tool_use", "odd"]),
    text=TEXTS,
    id=st.sampled_from(["a", "b"]),
    name=st.just("f"),
    input=ODD,
    citations=ODD,
)
BLOCK_DELTA = shaped(
    type=st.sampled_from(["text_delta", "input_json_delta", "citations_delta", "odd_delta"]),
    text=TEXTS,
    partial_json=TEXTS,
    citation=ODD,
    odd=ODD,
)


def typed(kind, **fields):
    return shaped(**fields).map(lambda found: {"type": kind, **found})


EVENTS = st.lists(
    typed("message_start", message=shaped(model=TEXTS, usage=ODD, content=st.lists(BLOCK)))
    | typed("content_block_start", index=st.integers(0, 2), content_block=BLOCK)
    | typed("content_block_delta", index=st.integers(0, 2), delta=BLOCK_DELTA)
    | typed("content_block_stop", index=st.integers(0, 2))
    | typed("message_delta", delta=shaped(stop_reason=TEXTS), usage=ODD)
    | typed("odd"),
    max_size=6,
)


def written(after: AssistantMessage):
    yield after
    yield replace(after, content="changed", tool_calls=[])
    yield replace(after, content=[{"type": "text", "text": "changed"}])
    yield replace(after, tool_calls=[replace(call, args={"z": 1}) for call in after.tool_calls])


@given(
    st.tuples(st.just(Chat()), CHUNKS, st.just(b"data: [DONE]\n\n"))
    | st.tuples(st.just(Messages()), EVENTS, st.just(write_event(b'{"type": "message_stop"}'))),
    st.integers(0, 6),
)
def test_any_stream_is_read_or_unreadable(stream, passed):
    api, told, end = stream
    reading = api.open_stream(ModelRequest(stream=True))
    data = b"".join(write_event(json.dumps(one).encode()) for one in told)
    try:
        for place, piece in enumerate(pieces_of(data + end)):
            reading.read_piece(piece)
            if place < passed:
                reading.mark_sent()
        message = reading.message
    except UnreadableError:
        return
    for after in written(message):
        assert all(pieces_of(one) for one in reading.write_rest(after))


@pytest.mark.parametrize("api", [Chat(), Messages()])
def test_what_nobody_sent_is_no_answer(api):
    reading = api.open_stream(ModelRequest(stream=True))
    assert not reading.has_ended
    with pytest.raises(UnreadableError):
        _ = reading.message
