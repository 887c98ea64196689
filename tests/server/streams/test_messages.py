"""Messages of the protocol: their blocks, and the same run as LangGraph itself tells it."""

import pytest
from langchain_core.language_models.chat_model_stream import ChatModelStream
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.stream.transformers import CustomTransformer, UpdatesTransformer

from checkrail.runs.jsons import jsonable
from checkrail.server.streams.messages import Messages
from checkrail.server.streams.protocol import ProtocolView
from checkrail.store.events import RunEvent

from .support import ASK, agent, calls, of, parent, read, stored


def spoken(*chunks, end=True):
    """Feed pieces of one message, and give its events."""
    messages = Messages()
    pieces = [AIMessageChunk(id="m", **chunk) for chunk in chunks]
    if end:
        pieces.append(AIMessageChunk(id="m", content="", chunk_position="last"))
    found = [messages.feed((), [jsonable(piece), {}]) for piece in pieces]
    return [event for told in found for _, event in told]


def assembled(events):
    """Let LangChain's own reader put a message together."""
    stream = ChatModelStream(namespace=[], node=None, message_id=None)
    for event in events:
        stream.dispatch(event)
    return stream


def kinds(events):
    return [event["event"] for event in events]


def test_text_starts_grows_and_ends():
    assert spoken({"content": "Let "}, {"content": "me"}) == [
        {"event": "message-start", "role": "ai", "id": "m", "metadata": {}},
        {"event": "content-block-start", "message_id": "m", "index": 0,
         "content": {"type": "text", "text": ""}},
        {"event": "content-block-delta", "message_id": "m", "index": 0,
         "delta": {"type": "text-delta", "text": "Let "}},
        {"event": "content-block-delta", "message_id": "m", "index": 0,
         "delta": {"type": "text-delta", "text": "me"}},
        {"event": "content-block-finish", "message_id": "m", "index": 0,
         "content": {"type": "text", "text": "Let me"}},
        {"event": "message-finish", "message_id": "m"},
    ]  # fmt: skip


def fed(*pieces):
    """Feed pieces of messages, each with its id and what called the model."""
    messages = Messages()
    found = []
    for name, node, chunk in pieces:
        told = {"langgraph_checkpoint_ns": node, "ls_model_name": "m"}
        piece = jsonable(AIMessageChunk(id=name, **chunk))
        found += [event for _, event in messages.feed((), [piece, told])]
    return found


LAST = {"content": "", "chunk_position": "last"}


@pytest.mark.parametrize("more", ["ai-1", "lc_run--7"])
def test_one_call_of_a_model_is_one_message_whatever_ids_its_pieces_have(more):
    events = fed(
        ("ai-1", "n:1", {"content": "Let "}),
        (more, "n:1", {"content": "me"}),
        ("lc_run--7", "n:1", LAST),
    )
    assert {event.get("message_id", event.get("id")) for event in events} == {"ai-1"}
    assert kinds(events).count("message-start") == kinds(events).count("message-finish") == 1
    assert assembled(events).output.text == "Let me"


def test_calls_that_cannot_be_told_apart_get_no_empty_message():
    events = fed(
        ("ai-1", "n:1", {"content": "a"}),
        ("ai-2", "n:1", {"content": "b"}),
        ("lc_run--7", "n:1", LAST),
        ("lc_run--8", "n:2", {"content": "c"}),
    )
    started = [event["id"] for event in events if event["event"] == "message-start"]
    assert started == ["ai-1", "ai-2", "lc_run--8"]


def test_tool_calls_that_are_spoken_at_the_same_time_are_kept_apart():
    stream = assembled(spoken(
        {"content": "", "tool_call_chunks": [calls('{"a"', id="c1", name="one", index=0)]},
        {"content": "", "tool_call_chunks": [calls('{"b"', id="c2", name="two", index=1)]},
        {"content": "", "tool_call_chunks": [calls(":1}", index=0), calls(":2}", index=1)]},
    ))  # fmt: skip
    found = [(call["id"], call["name"], call["args"]) for call in stream.output.tool_calls]
    assert found == [("c1", "one", {"a": 1}), ("c2", "two", {"b": 2})]


def test_arguments_that_are_no_json_are_told_as_such():
    events = spoken({"content": "", "tool_call_chunks": [calls('{"a', id="c1", name="one")]})
    (block,) = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert (block["type"], block["args"], block["id"]) == ("invalid_tool_call", '{"a', "c1")
    assert "parse" in block["error"]


def test_a_call_without_arguments_has_none():
    events = spoken({"content": "", "tool_call_chunks": [calls("", id="c1", name="one")]})
    assert assembled(events).output.tool_calls[0]["args"] == {}


def test_usage_is_summed_over_the_pieces():
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    details = {"input_token_details": {"cache_read": 2}}
    events = spoken(
        {"content": "a", "usage_metadata": {**usage, **details}},
        {"content": "b", "usage_metadata": {**usage, "input_tokens": 0, "total_tokens": 1}},
    )
    assert events[-1]["usage"] == {
        "input_tokens": 3, "output_tokens": 2, "total_tokens": 5,
        "input_token_details": {"cache_read": 2},
    }  # fmt: skip


def test_a_picture_is_told_whole_when_its_block_ends():
    block = {"type": "image", "base64": "aGk=", "mime_type": "image/png", "index": 0}
    events = spoken({"content": [block]})
    start, finish = events[1], events[2]
    assert "base64" not in start["content"]
    assert finish["content"]["base64"] == "aGk="


def test_reasoning_keeps_what_comes_late():
    events = spoken(
        {"content": [{"type": "reasoning", "reasoning": "h", "index": 0}]},
        {"content": [{"type": "reasoning", "reasoning": "m", "index": 0, "extras": {"s": 1}}]},
    )
    (block,) = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert (block["reasoning"], block["extras"]) == ("hm", {"s": 1})


def test_messages_of_one_namespace_may_be_interleaved():
    messages = Messages()
    pieces = [
        {"type": "AIMessageChunk", "id": name, "content": text}
        for name, text in [("m1", "a"), ("m2", "x"), ("m1", "b"), ("m2", "y")]
    ]
    told = [event for piece in pieces for _, event in messages.feed((), [piece, {}])]
    told += [event for _, event in messages.close()]
    for name, text in (("m1", "ab"), ("m2", "xy")):
        mine = [event for event in told if name in (event.get("id"), event.get("message_id"))]
        assert str(assembled(mine).text) == text


def test_a_message_without_a_last_piece_ends_with_its_step():
    view = ProtocolView("r1")
    chunk = {"type": "AIMessageChunk", "id": "m", "content": "a"}
    view.feed(RunEvent(1, "messages", (), [chunk, {}]))
    envelopes = view.feed(RunEvent(2, "values", (), {}))
    assert [one["method"] for one in envelopes] == ["messages", "messages", "values"]
    assert kinds(of(envelopes, "messages")) == ["content-block-finish", "message-finish"]


def test_a_message_that_is_cut_off_fails():
    view = ProtocolView("r1")
    chunk = {"type": "AIMessageChunk", "id": "m", "content": "a"}
    view.feed(RunEvent(1, "messages", (), [chunk, {}]))
    envelopes = view.feed(RunEvent(2, "end", (), {"status": "timeout", "phase": "timeout"}))
    (event,) = of(envelopes, "messages")
    assert event == {"event": "error", "message_id": "m", "message": "the run timed out"}


def test_what_a_tool_answered_is_not_among_the_messages():
    tool = {"type": "tool", "id": "t", "content": "x", "tool_call_id": "c"}
    assert Messages().feed((), [tool, {}]) == []


@pytest.mark.parametrize(("kind", "role"), [("human", "human"), ("system", "system"), ("ai", "ai")])
def test_a_whole_message_is_told_from_start_to_end(kind, role):
    message = {"type": kind, "id": "m", "content": "hi"}
    events = [event for _, event in Messages().feed((), [message, {"langgraph_node": "n"}])]
    assert kinds(events) == [
        "message-start", "content-block-start", "content-block-delta",
        "content-block-finish", "message-finish",
    ]  # fmt: skip
    assert (events[0]["role"], events[0]["metadata"]) == (role, {"langgraph_node": "n"})


def test_a_whole_message_with_calls_is_put_together_again():
    call = {"name": "t", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    bad = {"name": "u", "args": "{", "id": "d", "error": None, "type": "invalid_tool_call"}
    message = AIMessage("text", id="m", tool_calls=[call], invalid_tool_calls=[bad])
    events = [event for _, event in Messages().feed((), [jsonable(message), {}])]
    output = assembled(events).output
    assert output.tool_calls == [call]
    assert [one["id"] for one in output.invalid_tool_calls] == ["d"]


def test_a_whole_message_after_its_pieces_only_ends_it():
    messages = Messages()
    messages.feed((), [{"type": "AIMessageChunk", "id": "m", "content": "a"}, {}])
    events = [
        event for _, event in messages.feed((), [{"type": "ai", "id": "m", "content": "a"}, {}])
    ]
    assert kinds(events) == ["content-block-finish", "message-finish"]


# What is compared with is marked as experimental; nothing of ours calls it.
experimental = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")


async def native(graph):
    """The same graph, told by LangGraph's own event stream."""
    config = {"configurable": {"thread_id": "t"}}
    transformers = [UpdatesTransformer, CustomTransformer]
    run = await graph.astream_events(ASK, config, version="v3", transformers=transformers)
    return [event async for event in run]


def by_name(namespace):
    """Task ids differ from run to run."""
    return [segment.partition(":")[0] for segment in namespace]


def comparable(events):
    """Leave out what is different in every run, and what only one of the two tells."""
    kept = []
    for namespace, event in events:
        data = {k: v for k, v in event.items() if k not in ("id", "message_id", "metadata")}
        kept.append((by_name(namespace), data))
    return kept


@experimental
async def test_streamed_messages_are_told_as_langgraph_tells_them():
    theirs = [
        (event["params"]["namespace"], event["params"]["data"][0])
        for event in await native(parent())
        if event["method"] == "messages" and isinstance(event["params"]["data"][0], dict)
    ]
    envelopes = read(ProtocolView("r1"), await stored(parent()))
    ours = [
        (one["params"]["namespace"], one["params"]["data"])
        for one in envelopes
        if one["method"] == "messages" and one["params"]["namespace"]
    ]
    assert comparable(ours) == comparable(theirs)
    starts = [data for _, data in ours if data["event"] == "message-start"]
    assert {start["metadata"]["langgraph_node"] for start in starts} == {"model"}


@experimental
async def test_lifecycle_and_custom_events_are_told_as_langgraph_tells_them():
    graph = parent()
    theirs = await native(graph)
    ours = read(ProtocolView("r1"), await stored(parent()))
    subgraphs = [
        (by_name(one["params"]["namespace"]), one["params"]["data"]["event"])
        for one in ours
        if one["method"] == "lifecycle" and one["params"]["namespace"]
    ]
    assert subgraphs == [
        (by_name(one["params"]["data"]["namespace"]), one["params"]["data"]["event"])
        for one in theirs
        if one["method"] == "lifecycle"
    ]
    names = [
        one["params"]["data"].get("graph_name") for one in theirs if one["method"] == "lifecycle"
    ]
    assert of(ours, "lifecycle")[2]["graph_name"] == names[0]
    written = [one["params"]["data"] for one in theirs if one["method"] == "custom"]
    assert written == [{"name": "progress", "payload": 1}, "half way"]
    assert of(ours, "custom") == [written[0], {"payload": written[1]}]


@experimental
async def test_values_and_updates_come_in_the_order_in_which_langgraph_tells_them():
    theirs = await native(agent())
    ours = read(ProtocolView("r1"), await stored(agent()))
    order = [one["method"] for one in theirs if one["method"] in ("values", "updates")]
    assert [one["method"] for one in ours if one["method"] in ("values", "updates")] == order
