"""The older surface: stored events as server-sent events."""

import orjson
import pytest
from langgraph_sdk.schema import StreamMode
from langgraph_sdk.sse import BytesLineDecoder, SSEDecoder

from checkrail.server.streams.modes import STREAM_MODES, StreamModeError, graph_modes, wants_events
from checkrail.server.streams.sse import HEARTBEAT, SseEvent, SseView, encode_frame
from checkrail.store.events import RunEvent

from .support import agent, asking_look, calls, parent, read, stored


def decoded(raw):
    """Read frames as the SDK does."""
    lines, decoder = BytesLineDecoder(), SSEDecoder()
    parts = (decoder.decode(bytes(line)) for line in lines.decode(raw))
    return [part for part in parts if part is not None]


def plain(events):
    """Give names and data, whichever form the data has."""
    return [
        (name, orjson.loads(data) if isinstance(data, bytes) else data) for _, name, data in events
    ]


def spoken(text):
    return {"type": "AIMessageChunk", "id": "m", "content": text}


def names(events):
    return [event.name for event in events]


def of(events, name):
    return [data for found, data in plain(events) if found == name]


def test_every_mode_of_the_sdk_can_be_asked_for():
    assert set(STREAM_MODES) == set(StreamMode.__args__)


def test_an_unknown_mode_is_refused_with_the_ones_that_there_are():
    with pytest.raises(StreamModeError, match=r"no stream mode 'valeus'; choose from values, "):
        SseView(["values", "valeus"])


@pytest.mark.parametrize(
    ("asked", "run_with"),
    [
        (None, ["values"]),
        ("updates", ["updates"]),
        (["messages-tuple", "messages"], ["messages"]),
        (["lifecycle", "tasks", "tools"], ["tasks", "tools"]),
        (["events"], []),
    ],
)
def test_a_graph_is_run_with_what_serves_the_modes(asked, run_with):
    assert graph_modes(asked) == run_with
    assert wants_events(asked) == (asked == ["events"])


def test_the_sdk_reads_frames_and_leaves_heartbeats_out():
    raw = (
        encode_frame("7", "values", {"a": "two\nlines"})
        + HEARTBEAT
        + encode_frame(None, "end", None)
    )
    first, second = decoded(raw)
    assert first == ("values", {"a": "two\nlines"}, "7")
    assert (second.event, second.data) == ("end", None)


def test_a_name_cannot_break_out_of_its_field():
    (part,) = decoded(encode_frame("1", "values|a\nid: 9\n\ndata: {}", {"x": 1}))
    assert part.id == "1"
    assert part.data == {"x": 1}


def test_data_that_is_json_already_is_sent_as_it_is():
    assert encode_frame(None, "custom", b'{"a":1}') == b'event: custom\ndata: {"a":1}\n\n'


async def test_a_stream_starts_with_metadata_and_has_no_event_for_its_end():
    told = read(SseView(None), await stored(agent()))
    assert plain(told)[0] == ("metadata", {"run_id": "r1", "attempt": 1})
    assert set(names(told[1:-1])) == {"values"}
    assert "end" not in names(told)


async def test_only_the_modes_that_were_asked_for_are_sent():
    events = await stored(agent())
    told = read(SseView(["updates", "custom"]), events)
    assert set(names(told)) == {"metadata", "updates", "custom"}
    assert [[*update] for update in of(told, "updates")] == [["model"], ["tools"], ["model"]]
    assert of(told, "custom") == [{"name": "progress", "payload": 1}]


async def test_who_knows_the_run_is_not_told_its_name():
    told = read(SseView(["updates"], metadata=False), await stored(agent()))
    assert set(names(told)) == {"updates"}


async def test_subgraphs_are_left_out_unless_they_are_asked_for():
    events = await stored(parent())
    assert "|" not in "".join(names(read(SseView(["values", "messages-tuple"]), events)))
    within = {
        name.partition("|")[2]
        for name in names(read(SseView(["updates"], subgraphs=True), events))
        if "|" in name
    }
    (namespace,) = within
    assert namespace.startswith("child:")


async def test_namespaces_are_joined_by_bars():
    view = SseView(["values"], subgraphs=True)
    (told,) = view.feed(RunEvent(1, "values", ("a:1", "b:2"), {"x": 1}))
    assert told.name == "values|a:1|b:2"


async def test_messages_tuple_sends_each_piece_with_its_metadata():
    told = of(read(SseView(["messages-tuple"]), await stored(agent())), "messages")
    texts = [message["content"] for message, _ in told if message["type"] == "AIMessageChunk"]
    assert texts[:2] == ["Let ", "me"]
    assert {metadata["langgraph_node"] for _, metadata in told} == {"model", "tools"}


async def test_messages_grow_and_are_told_with_their_metadata_first():
    told = read(SseView(["messages"]), await stored(agent()))
    first = names(told)[1:4]
    assert first == ["messages/metadata", "messages/partial", "messages/partial"]
    partial = [message for (message,) in of(told, "messages/partial")]
    asked = [message for message in partial if message["id"] == partial[0]["id"]]
    assert [message["content"] for message in asked] == [
        "Let ",
        "Let me",
        "Let me",
        "Let me",
        "Let me",
    ]
    assert asked[-1]["type"] == "ai"
    (call,) = asked[-1]["tool_calls"]
    assert (call["name"], call["args"], call["id"]) == ("look", {"q": "x"}, "call-1")
    assert asked[-1]["usage_metadata"]["total_tokens"] == 5
    assert partial[-1]["content"][-1]["text"] == "Done"
    ids = [*dict.fromkeys(name for data in of(told, "messages/metadata") for name in data)]
    assert len(ids) == 3


async def test_a_message_that_was_not_spoken_in_pieces_is_complete_at_once():
    told = read(SseView(["messages"]), await stored(agent()))
    ((message,),) = of(told, "messages/complete")
    assert (message["type"], message["content"]) == ("tool", "saw x")


async def test_text_that_comes_after_a_tool_call_is_not_lost():
    pieces = [
        spoken("a"),
        spoken("b"),
        {**spoken(""), "tool_call_chunks": [calls("{}", id="c", name="t")]},
        spoken("c"),
    ]
    view = SseView(["messages"])
    told = read(view, [RunEvent(n, "messages", (), [one, {}]) for n, one in enumerate(pieces, 1)])
    last = of(told, "messages/partial")[-1][0]
    assert last["content"] == "abc"
    assert last["tool_calls"][0]["name"] == "t"


async def test_what_was_shown_before_does_not_change_later():
    pieces = [spoken(text) for text in "ab"]
    view = SseView(["messages"])
    told = read(view, [RunEvent(n, "messages", (), [one, {}]) for n, one in enumerate(pieces, 1)])
    assert [message["content"] for (message,) in of(told, "messages/partial")] == ["a", "ab"]


async def test_tools_are_told_in_the_words_of_the_older_surface():
    told = of(read(SseView(["tools"]), await stored(agent())), "tools")
    started, ended = told
    assert started == {
        "event": "on_tool_start", "toolCallId": "call-1", "name": "look", "input": {"q": "x"}
    }  # fmt: skip
    assert (ended["event"], ended["name"]) == ("on_tool_end", "look")
    assert ended["output"]["content"] == "saw x"


def test_what_a_tool_says_on_the_way_and_its_failure_are_told_too():
    view = SseView(["tools"])
    data = [
        {"event": "tool-started", "tool_call_id": "c", "tool_name": "t", "input": {}},
        {"event": "tool-output-delta", "tool_call_id": "c", "delta": {"n": 1}},
        {"event": "tool-error", "tool_call_id": "c", "message": "no"},
        {"event": "tool-renamed", "tool_call_id": "c"},
    ]
    told = of(read(view, [RunEvent(n, "tools", (), one) for n, one in enumerate(data, 1)]), "tools")
    call = {"toolCallId": "c", "name": "t"}
    assert told[1:] == [
        {"event": "on_tool_event", **call, "data": {"n": 1}},
        {"event": "on_tool_error", **call, "error": "no"},
        data[3],
    ]


async def test_lifecycle_tells_of_subgraphs_without_sending_what_is_in_them():
    told = read(SseView(["lifecycle"]), await stored(parent()))
    assert set(names(told)) == {"metadata", "lifecycle"}
    started, ended = of(told, "lifecycle")
    assert (started["event"], started["graph_name"]) == ("started", "helper")
    assert started["namespace"][0].startswith("child:")
    assert (ended["event"], ended["namespace"]) == ("completed", started["namespace"])


async def test_interrupts_are_in_values_and_in_updates():
    told = read(SseView(["values", "updates"]), await stored(agent(asking_look)))
    assert of(told, "values")[-1]["__interrupt__"][0]["value"] == {"ask": "x"}
    assert of(told, "updates")[-1]["__interrupt__"][0]["value"] == {"ask": "x"}


def test_an_error_is_told_last():
    events = [
        RunEvent(1, "metadata", (), {"run_id": "r", "attempt": 1}),
        RunEvent(2, "error", (), {"error": "KeyError", "message": "no"}),
        RunEvent(3, "end", (), {"status": "error", "phase": "error"}),
    ]
    assert plain(read(SseView(["values"]), events))[1:] == [
        ("error", {"error": "KeyError", "message": "no"}),
    ]


def test_of_several_events_from_one_only_the_last_has_the_number():
    view = SseView(["messages"])
    told = view.feed(
        RunEvent(4, "messages", (), [{"type": "human", "id": "h", "content": "x"}, {}])
    )
    assert [(event.id, event.name) for event in told] == [
        (None, "messages/metadata"), ("4", "messages/complete")
    ]  # fmt: skip


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_a_client_that_comes_back_gets_exactly_the_rest_wherever_it_was_cut(subgraphs):
    events = await stored(parent())
    modes = [mode for mode in STREAM_MODES if mode not in ("events", "debug")]
    whole = read(SseView(modes, subgraphs=subgraphs), events)
    for cut in range(len(events) + 1):
        view = SseView(modes, subgraphs=subgraphs, after=cut)
        rest = read(view, events)
        have = [event for event in whole if _number(whole, event) <= cut]
        assert plain([*have, *rest]) == plain(whole)


def _number(whole, event):
    """Find the stored event's number: that of the next event which has one."""
    at = next(n for n, other in enumerate(whole) if other is event)
    return int(next(other.id for other in whole[at:] if other.id is not None))


def test_a_view_says_whether_it_needs_a_run_from_its_beginning():
    assert not SseView(["values", "messages-tuple"]).stateful
    assert SseView(["values", "messages"]).stateful


def test_events_of_other_kinds_pass_as_they_are():
    view = SseView(["debug", "events"])
    debug, events = {"type": "task", "payload": {}}, {"event": "on_chain_start"}
    told = read(view, [RunEvent(1, "debug", (), debug), RunEvent(2, "events", (), events)])
    assert told == [
        SseEvent("1", "debug", orjson.dumps(debug)),
        SseEvent("2", "events", orjson.dumps(events)),
    ]


async def test_messages_as_tuples_take_the_place_of_messages_in_parts():
    told = read(SseView(["messages-tuple", "messages"]), await stored(agent()))
    assert {*names(told)} == {"metadata", "messages"}
