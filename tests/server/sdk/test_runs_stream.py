"""What a run streams, in each mode."""

import itertools

import httpx
import pytest

from .support import collect, data_of, names_of, said

CHECKPOINT = {"config", "metadata", "values", "next", "parent_config", "tasks"}


async def streamed(client, thread, graph, **options):
    return await collect(client.runs.stream(thread, graph, **options))


async def test_a_stream_begins_with_its_run_and_says_its_end(client, thread):
    parts = await streamed(client, thread, "echo", input={"text": "hi"})
    assert names_of(parts) == ["metadata", "values", "values"]
    (run,) = await client.runs.list(thread)
    assert parts[0].data["run_id"] == run["run_id"]
    assert parts[0].data["attempt"] == 1
    assert run["status"] == "success"


async def test_every_part_has_an_id_of_its_own(client, thread):
    parts = await streamed(client, thread, "echo", input={"text": "hi"}, stream_resumable=True)
    ids = [part.id for part in parts]
    assert all(ids)
    assert len({*ids}) == len(ids)


async def test_values_are_the_whole_state_after_each_step(client, thread):
    parts = await streamed(client, thread, "steps", input={}, stream_mode="values")
    logs = [data.get("log", []) for data in data_of(parts, "values")]
    assert logs[-3:] == [["one"], ["one", "two"], ["one", "two", "three"]]


async def test_updates_are_what_each_node_wrote(client, thread):
    parts = await streamed(client, thread, "steps", input={}, stream_mode="updates")
    assert names_of(parts) == ["metadata", "updates", "updates", "updates"]
    assert data_of(parts, "updates") == [
        {"one": {"log": ["one"]}},
        {"two": {"log": ["two"]}},
        {"three": {"log": ["three"]}},
    ]


async def test_custom_parts_are_what_nodes_wrote_to_the_stream(client, thread):
    parts = await streamed(client, thread, "flood", input={"events": 3}, stream_mode="custom")
    assert [data["n"] for data in data_of(parts, "custom")] == [0, 1, 2]


async def test_messages_grow_until_they_are_complete(client, thread):
    parts = await streamed(
        client, thread, "chat", input=said("hello there"), stream_mode="messages"
    )
    partial = [message for (message,) in data_of(parts, "messages/partial")]
    texts = [message["content"] for message in partial]
    assert texts[0].strip() == "You"
    assert texts[-1] == "You said: hello there"
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert len({message["id"] for message in partial}) == 1
    (known,) = data_of(parts, "messages/metadata")
    assert known[partial[0]["id"]]["metadata"]["langgraph_node"] == "model"


async def test_messages_that_do_not_grow_are_complete_at_once(client, thread):
    parts = await streamed(client, thread, "agent", input=said("add 2 3"), stream_mode="messages")
    complete = [message for (message,) in data_of(parts, "messages/complete")]
    assert ("tool", "5") in {(message["type"], message["content"]) for message in complete}
    last = data_of(parts, "messages/partial")[-1][0]
    assert last["content"] == "The answer is 5"


async def test_message_chunks_come_with_where_they_are_from(client, thread):
    parts = await streamed(
        client, thread, "chat", input=said("hello there"), stream_mode="messages-tuple"
    )
    assert {*names_of(parts)} == {"metadata", "messages"}
    chunks = data_of(parts, "messages")
    assert "".join(chunk["content"] for chunk, _ in chunks) == "You said: hello there"
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"model"}
    assert {chunk["type"] for chunk, _ in chunks} == {"AIMessageChunk"}


async def test_tasks_begin_and_end(client, thread):
    parts = await streamed(client, thread, "steps", input={}, stream_mode="tasks")
    tasks = data_of(parts, "tasks")
    assert [task["name"] for task in tasks] == ["one", "one", "two", "two", "three", "three"]
    assert tasks[0].keys() >= {"id", "name", "input", "triggers"}
    assert tasks[1].keys() >= {"id", "name", "error", "result", "interrupts"}
    assert tasks[0]["id"] == tasks[1]["id"]
    assert tasks[1]["result"] == {"log": ["one"]}


async def test_checkpoints_are_those_of_the_history(client, thread):
    parts = await streamed(client, thread, "steps", input={}, stream_mode="checkpoints")
    checkpoints = data_of(parts, "checkpoints")
    assert checkpoints[0].keys() >= CHECKPOINT
    history = await client.threads.get_history(thread)
    assert [made["metadata"]["step"] for made in checkpoints] == [-1, 0, 1, 2, 3]
    assert [made["config"]["configurable"]["checkpoint_id"] for made in checkpoints] == [
        state["checkpoint"]["checkpoint_id"] for state in reversed(history)
    ]


async def test_debug_parts_are_checkpoints_and_tasks_with_their_step(client, thread):
    parts = await streamed(client, thread, "echo", input={"text": "hi"}, stream_mode="debug")
    debug = data_of(parts, "debug")
    assert all(part.keys() >= {"step", "timestamp", "type", "payload"} for part in debug)
    kinds = [part["type"] for part in debug]
    assert kinds == ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"]
    assert debug[0]["payload"].keys() >= CHECKPOINT
    assert debug[3]["payload"]["result"] == {"answer": "hi", "log": ["hi"]}


async def test_events_are_those_of_langchain(client, thread):
    parts = await streamed(client, thread, "chat", input=said("hello"), stream_mode="events")
    assert {*names_of(parts)} == {"metadata", "events"}
    kinds = {data["event"] for data in data_of(parts, "events")}
    assert kinds >= {
        "on_chain_start",
        "on_chain_stream",
        "on_chain_end",
        "on_chat_model_start",
        "on_chat_model_stream",
        "on_chat_model_end",
    }
    assert all(data.keys() >= {"name", "run_id", "data"} for data in data_of(parts, "events"))
    root = [data for data in data_of(parts, "events") if not data["parent_ids"]]
    ends = [("on_chain_start", "chat"), ("on_chain_end", "chat")]  # its chunks have their modes
    assert [(data["event"], data["name"]) for data in root] == ends


async def test_tools_tell_of_their_calls(client, thread):
    parts = await streamed(client, thread, "agent", input=said("add 2 3"), stream_mode="tools")
    told = data_of(parts, "tools")
    assert [data["event"] for data in told] == ["on_tool_start", "on_tool_end"]
    assert {(data["toolCallId"], data["name"]) for data in told} == {("call-2-3", "add")}
    assert told[0]["input"] == {"a": 2, "b": 3}
    assert "5" in str(told[1]["output"])


async def test_lifecycle_tells_when_subgraphs_begin_and_end(client, thread):
    parts = await streamed(
        client, thread, "nested", input={}, stream_mode="lifecycle", stream_subgraphs=True
    )
    lives = data_of(parts, "lifecycle")
    assert [data["event"] for data in lives] == ["started", "completed"]
    assert {data["namespace"][0].partition(":")[0] for data in lives} == {"child"}


async def test_several_modes_are_one_stream(client, thread):
    parts = await streamed(
        client,
        thread,
        "chat",
        input=said("hello"),
        stream_mode=["values", "updates", "messages-tuple", "custom"],
    )
    assert {*names_of(parts)} == {"metadata", "values", "updates", "messages"}
    updated, last = data_of(parts, "updates")[-1], data_of(parts, "values")[-1]
    assert updated["model"]["messages"][0]["content"] == last["messages"][-1]["content"]


@pytest.mark.parametrize("inside", [False, True])
async def test_subgraphs_are_streamed_if_asked(client, thread, inside):
    parts = await streamed(
        client,
        thread,
        "nested",
        input={},
        stream_mode=["values", "updates", "custom"],
        stream_subgraphs=inside,
    )
    below = [part for part in parts if "|" in part.event]
    assert bool(below) is inside
    if inside:
        assert {part.event.partition("|")[2].partition(":")[0] for part in below} == {"child"}
        assert {part.event.partition("|")[0] for part in below} == {"values", "updates", "custom"}
    assert data_of(parts, "values")[-1]["log"] == ["outside", "outside", "inside", "again"]


async def test_the_second_version_of_a_stream_gives_typed_parts(client, thread):
    parts = await streamed(
        client,
        thread,
        "nested",
        input={},
        stream_mode=["values", "custom"],
        stream_subgraphs=True,
        version="v2",
    )
    assert {part["type"] for part in parts} == {"metadata", "values", "custom"}
    (inside,) = [part for part in parts if part["type"] == "custom" and part["ns"]]
    assert inside["ns"][0].startswith("child:")
    assert inside["data"] == {"inside": 1}
    assert parts[-1]["data"]["log"][-1] == "again"


async def test_an_interrupt_is_told_in_values_and_updates(client, thread):
    parts = await streamed(
        client, thread, "ask", input={"topic": "tea"}, stream_mode=["values", "updates"]
    )
    (asked,) = data_of(parts, "updates")[-1]["__interrupt__"]
    assert asked["value"] == {"question": "first tea?"}
    assert data_of(parts, "values")[-1]["__interrupt__"] == [asked]
    assert asked["id"]


async def test_the_second_version_gives_interrupts_beside_the_values(client, thread):
    parts = await streamed(client, thread, "ask", input={"topic": "tea"}, version="v2")
    (asked,) = parts[-1]["interrupts"]
    assert asked["value"] == {"question": "first tea?"}
    assert "__interrupt__" not in parts[-1]["data"]


async def test_a_failing_run_streams_its_error(client, thread):
    parts = await streamed(client, thread, "failing", input={"message": "no such luck"})
    (error,) = data_of(parts, "error")
    assert error["error"] == "ValueError"
    assert error["message"] == "no such luck"
    assert names_of(parts)[-1] == "error"
    (run,) = await client.runs.list(thread)
    assert run["status"] == "error"


async def test_an_unknown_mode_is_refused_before_the_stream(client, thread):
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await streamed(client, thread, "echo", input={"text": "hi"}, stream_mode="colours")
    assert refused.value.response.status_code == 422
    assert await client.runs.list(thread) == []


async def test_thousands_of_events_arrive_complete_and_in_order(client, thread):
    parts = await streamed(client, thread, "flood", input={"events": 5000}, stream_mode="custom")
    assert [data["n"] for data in data_of(parts, "custom")] == [*range(5000)]
