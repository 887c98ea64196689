"""`client.threads.stream()`: what the newest protocol tells of a run, over both transports."""

from .support import collect, said


async def test_a_thread_is_made_by_its_first_run(aclient, opened):
    async with opened("echo") as thread:
        started = await thread.run.start(input={"text": "hi"}, metadata={"n": 1})
        assert (await thread.output)["answer"] == "hi"
    run = await aclient.runs.get(thread.thread_id, started["run_id"])
    assert (run["status"], run["metadata"]["n"]) == ("success", 1)
    assert (await aclient.threads.get(thread.thread_id))["status"] == "idle"


async def test_values_are_told_as_they_change(opened):
    async with opened("steps") as thread:
        await thread.run.start(input={})
        snapshots = [snapshot async for snapshot in thread.values]
    assert snapshots[-1]["log"] == ["one", "two", "three"]


async def test_values_can_be_awaited(opened):
    async with opened("steps") as thread:
        await thread.run.start(input={})
        assert (await thread.values)["log"] == ["one", "two", "three"]


async def test_messages_are_told_word_by_word(opened):
    async with opened("chat") as thread:
        await thread.run.start(input=said("hello there"))
        (message,) = [message async for message in thread.messages]
        words = [word async for word in message.text]
        whole, output = await message, await thread.output
    assert "".join(words) == "You said: hello there"
    assert len(words) > 1
    assert whole.text == "You said: hello there"
    assert whole.usage_metadata["output_tokens"] == 4
    assert output["messages"][-1]["content"] in (
        "You said: hello there",
        [{"type": "text", "text": "You said: hello there"}],
    )


async def test_messages_say_which_node_they_are_from(opened):
    async with opened("chat") as thread:
        await thread.run.start(input=said("hello"))
        nodes = [message.node async for message in thread.messages]
    assert nodes == ["model"]


async def test_tool_calls_are_told_with_what_they_gave(opened):
    async with opened("agent") as thread:
        await thread.run.start(input=said("add 2 3"))
        calls = [call async for call in thread.tool_calls]
        (call,) = calls
        assert (call.name, call.tool_call_id) == ("add", "call-2-3")
        assert call.input == {"a": 2, "b": 3}
        assert "5" in str(await call.output)


async def test_a_message_tells_the_calls_that_it_makes(opened):
    async with opened("agent") as thread:
        await thread.run.start(input=said("add 2 3"))
        told = [message async for message in thread.messages]
        messages = [await message for message in told]
    assert [call["name"] for call in messages[0].tool_calls] == ["add"]
    assert messages[-1].text == "The answer is 5"


async def test_subgraphs_are_told_with_how_they_ended(opened):
    async with opened("nested") as thread:
        await thread.run.start(input={})
        children = [child async for child in thread.subgraphs]
        await thread.output
    (child,) = children
    assert child.graph_name == "child"
    assert child.path[0].startswith("child:")
    assert child.status == "completed"


async def test_what_nodes_write_is_told_by_its_name(opened):
    async with opened("flood") as thread:
        await thread.run.start(input={"events": 3, "name": "drops"})
        drops = await collect(thread.extensions["drops"])
    assert [drop["payload"]["n"] for drop in drops] == [0, 1, 2]


async def test_what_nodes_write_is_not_told_by_another_name(opened):
    async with opened("flood") as thread:
        await thread.run.start(input={"events": 3, "name": "drops"})
        assert await collect(thread.extensions["others"]) == []


async def test_channels_can_be_subscribed_to(opened):
    async with opened("steps") as thread:
        await thread.run.start(input={})
        events = [event async for event in thread.subscribe(["updates"])]
    assert {event["method"] for event in events} <= {"updates", "lifecycle"}
    nodes = [e["params"]["data"]["node"] for e in events if e["method"] == "updates"]
    assert nodes == ["one", "two", "three"]


async def test_a_subscription_can_be_narrowed_to_a_namespace(opened):
    async with opened("nested") as thread:
        await thread.run.start(input={})
        events = [
            event
            async for event in thread.subscribe(["updates"], namespaces=[["child"]], depth=1)
            if event["method"] == "updates"
        ]
    assert {event["params"]["namespace"][0].partition(":")[0] for event in events} == {"child"}
    assert {event["params"]["data"]["node"] for event in events} == {"inside", "again"}


async def test_every_event_is_numbered_and_named(opened):
    async with opened("chat") as thread:
        told = thread.events
        await thread._open_handles[-1].ready  # a run that is over is not told again
        await thread.run.start(input=said("hello"))
        events = []
        async for event in told:
            if event["type"] == "success":  # a WebSocket answers the subscription first
                continue
            events.append(event)
            data = event["params"]["data"]
            if event["method"] == "lifecycle" and data["event"] == "completed":
                break
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(numbers)
    assert len({event["event_id"] for event in events}) == len(events)
    assert all(event["type"] == "event" for event in events)
    methods = {event["method"] for event in events}
    assert methods >= {"lifecycle", "values", "messages", "updates", "tasks"}


async def test_projections_can_be_read_as_one(opened):
    async with opened("agent") as thread:
        await thread.run.start(input=said("add 2 3"))
        kinds = [
            name
            async for name, _ in thread.interleave_projections(["values", "messages", "tool_calls"])
        ]
    assert {*kinds} == {"values", "messages", "tool_calls"}
    assert kinds.index("messages") < kinds.index("tool_calls")
