"""What a run of the loop tells, as the clients of both APIs see it."""

import pytest

from checkrail import Agent, AssistantMessage, ToolCall, tool
from checkrail.runs.executors.loop import run_loop
from checkrail.server.streams.protocol import ProtocolView
from checkrail.server.streams.sse import SseView
from checkrail.testing import ScriptedModel

CALL = ToolCall("c1", "find", {"what": "é"})


@tool
async def find(what: str) -> dict[str, str]:
    """Find it."""
    return {"found": what}


@tool
async def broken() -> str:
    """Never works."""
    raise ValueError("it broke")


@pytest.fixture
async def told(make_work):
    """What a run tells that says something, calls two tools, and answers."""
    replies = [
        AssistantMessage("Let me see.", [CALL, ToolCall("c2", "broken", {})]),
        "It is there.",
    ]
    work, told = make_work({"prompt": "?"})
    done = await run_loop(work, Agent(ScriptedModel(replies), [find, broken], name="helper"))
    assert done.error is None
    return told


def sse(told, mode):
    view = SseView([mode])
    return [(name, data) for event in told.stored for _, name, data in view.feed(event)]


def test_in_our_own_words(told):
    assert told.text() == "Let me see.It is there."
    assert {data["iteration"] for data in told.of("custom", "text_delta")} == {1, 2}
    assert told.of("custom", "tool_started")[0] == {
        "type": "tool_started",
        "tool_call_id": "c1",
        "tool_name": "find",
        "args": {"what": "é"},
    }
    good, bad = sorted(
        told.of("custom", "tool_finished"), key=lambda finished: finished["tool_call_id"]
    )
    assert good == {
        "type": "tool_finished",
        "tool_call_id": "c1",
        "tool_name": "find",
        "content": {"found": "é"},
        "is_error": False,
    }
    assert (bad["is_error"], bad["content"]) == (True, "ValueError: it broke")


def test_the_order_is_that_of_what_happened(told):
    kinds = [data["type"] for data in told.of("custom")]
    first = kinds.index("tool_started")
    assert set(kinds[:first]) == {"text_delta"}
    last = len(kinds) - 1 - kinds[::-1].index("tool_finished")
    assert set(kinds[last + 1 :]) == {"text_delta"}
    assert told.events[-1][0] == "values"


def test_messages_grow_for_the_older_surface(told):
    partial = [data[0] for name, data in sse(told, "messages") if name == "messages/partial"]
    said = {message["id"]: message["content"] for message in partial}
    assert said == {"r-1:2:1": "Let me see.", "r-1:2:2": "It is there."}
    assert {message["type"] for message in partial} == {"ai"}
    metadata = [data for name, data in sse(told, "messages") if name == "messages/metadata"]
    assert [about["metadata"]["run_id"] for each in metadata for about in each.values()] == [
        "r-1",
        "r-1",
    ]


def test_tools_are_told_to_the_older_surface(told):
    events = [(data["event"], data["name"]) for _, data in sse(told, "tools")]
    assert sorted(events) == [
        ("on_tool_end", "find"),
        ("on_tool_error", "broken"),
        ("on_tool_start", "broken"),
        ("on_tool_start", "find"),
    ]


def test_other_modes_are_given_as_they_are(told):
    assert len(sse(told, "values")) == 1
    assert len(sse(told, "custom")) == len(told.of("custom"))
    assert len(sse(told, "messages-tuple")) == len(told.of("messages"))
    assert sse(told, "updates") == []


def test_the_event_protocol_tells_whole_messages(told):
    view = ProtocolView("r-1")
    found = [envelope for event in told.stored for envelope in view.feed(event)]
    messages = [each["params"]["data"] for each in found if each["method"] == "messages"]
    whole = [each["content"] for each in messages if each["event"] == "content-block-finish"]
    assert [block["text"] for block in whole] == ["Let me see.", "It is there."]
    kinds = [each["event"] for each in messages]
    assert (kinds.count("message-start"), kinds.count("message-finish")) == (2, 2)
    tools = [each["params"]["data"] for each in found if each["method"] == "tools"]
    assert [each["event"] for each in tools].count("tool-finished") == 1
    custom = [each["params"]["data"] for each in found if each["method"] == "custom"]
    assert custom
    assert all("name" not in each for each in custom)
