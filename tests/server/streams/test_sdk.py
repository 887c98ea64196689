"""The real client against a small server that uses our views."""

import asyncio
import time

import pytest
from langgraph_sdk import get_client, get_sync_client

from .small_server import serving
from .support import ASK, agent, asking_look, failing_look, parent

TRANSPORTS = ["sse", "websocket"]
both = pytest.mark.parametrize("transport", TRANSPORTS)


def last_text(state):
    return state["messages"][-1]["content"][-1]["text"]


async def gone(served):
    """Wait until nobody listens any more."""
    while any(thread.watchers for thread in served.threads.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@both
async def test_a_run_is_followed_to_its_output(transport):
    with serving(agent()) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            output = await thread.output.with_timeout(10)
    assert last_text(output) == "Done"


@both
async def test_a_run_that_is_over_before_anybody_listens_is_told_all_the_same(transport):
    with serving(agent(), quick=True) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            values = [value async for value in thread.values]
            output = await thread.output.with_timeout(10)
    assert [len(value["messages"]) for value in values][-1] == 4
    assert last_text(output) == "Done"


@both
async def test_messages_and_tool_calls_are_read_as_they_were_spoken(transport):
    with serving(agent(), quick=True) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            seen = [item async for item in thread.interleave_projections(
                ["messages", "tool_calls", "updates", "progress"]
            )]  # fmt: skip
            messages = [item for channel, item in seen if channel == "messages"]
            texts = [str(await message.text) for message in messages]
            first, second = [await message.output for message in messages]
            (call,) = [item for channel, item in seen if channel == "tool_calls"]
            result = await call.output
    assert texts == ["Let me", "Done"]
    assert first.tool_calls[0]["args"] == {"q": "x"}
    assert first.usage_metadata["total_tokens"] == 5
    assert second.content_blocks[0]["reasoning"] == "hm"
    assert (call.name, call.input, result["content"]) == ("look", {"q": "x"}, "saw x")
    assert [item["node"] for channel, item in seen if channel == "updates"] == [
        "model", "tools", "model"
    ]  # fmt: skip
    assert [item["payload"] for channel, item in seen if channel == "progress"] == [1]


@both
async def test_subgraphs_are_found_with_what_they_say(transport):
    with serving(parent(), quick=True) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            found = [handle async for handle in thread.subgraphs]
            (child,) = found
            messages = [message async for message in child.messages]
            texts = [str(await message.text) for message in messages]
    assert child.path[0].startswith("child:")
    assert child.status == "completed"
    assert texts == ["Let me", "Done"]


@both
@pytest.mark.parametrize("make", [agent, parent])
async def test_an_interrupt_is_asked_and_answered(transport, make):
    with serving(make(asking_look)) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            async with asyncio.timeout(30):
                while not thread.interrupted:  # noqa: ASYNC110 - the client has no other way
                    await asyncio.sleep(0.01)
            (request,) = thread.interrupts
            await thread.run.respond("yes")
            output = await thread.output.with_timeout(10)
    assert request["value"] == {"ask": "x"}
    assert "saw yes" in [message["content"] for message in output["messages"]]


@both
@pytest.mark.parametrize("quick", [False, True], ids=["slow", "quick"])
async def test_a_second_run_is_not_taken_for_the_first(transport, quick):
    with serving(agent(), quick=quick) as (served, url):
        async with get_client(url=url) as client:
            async with client.threads.stream(assistant_id="a", transport=transport) as thread:
                await thread.run.start(input=ASK)
                first = await thread.output.with_timeout(10)
            await gone(served)
            async with client.threads.stream(
                thread.thread_id, assistant_id="a", transport=transport
            ) as again:
                await again.run.start(input=ASK)
                second = await again.output.with_timeout(10)
    assert (len(first["messages"]), len(second["messages"])) == (4, 8)


@both
async def test_a_run_that_fails_raises_what_it_said(transport):
    with serving(agent(failing_look)) as (_, url):
        async with (
            get_client(url=url) as client,
            client.threads.stream(assistant_id="a", transport=transport) as thread,
        ):
            await thread.run.start(input=ASK)
            with pytest.raises(RuntimeError, match="Run errored: nothing about x"):
                await thread.output.with_timeout(10)


@both
def test_the_sync_client_follows_an_interrupt_to_the_end(transport):
    with (
        serving(agent(asking_look)) as (_, url),
        get_sync_client(url=url) as client,
        client.threads.stream(assistant_id="a", transport=transport) as thread,
    ):
        thread.run.start(input=ASK)
        deadline = time.monotonic() + 30
        while not thread.interrupted and time.monotonic() < deadline:
            time.sleep(0.01)
        (request,) = thread.interrupts
        thread.run.respond("yes", interrupt_id=request["interrupt_id"])
        output = thread.output
    assert request["value"] == {"ask": "x"}
    assert last_text(output) == "Done"


@both
def test_the_sync_client_reads_values_messages_and_tool_calls(transport):
    with (
        serving(agent(), quick=True) as (_, url),
        get_sync_client(url=url) as client,
        client.threads.stream(assistant_id="a", transport=transport) as thread,
    ):
        thread.run.start(input=ASK)
        seen = [*thread.interleave_projections(["values", "messages", "tool_calls"])]
        texts = [str(item.text) for channel, item in seen if channel == "messages"]
        outputs = [item.output["content"] for channel, item in seen if channel == "tool_calls"]
    states = [item for channel, item in seen if channel == "values"]
    assert [len(state["messages"]) for state in states] == [1, 2, 3, 4]
    assert texts == ["Let me", "Done"]
    assert outputs == ["saw x"]


async def test_a_stream_with_a_wrong_filter_is_refused():
    with serving(agent()) as (_, url):
        async with get_client(url=url) as client:
            response = await client.http.client.post(
                "/threads/t/stream/events", json={"channels": ["nothing"]}
            )
    assert response.status_code == 422
    assert response.json()["error"] == "invalid_argument"


async def test_the_older_streams_are_read_by_the_client_and_resumed():
    with serving(agent(), quick=True) as (served, url):
        async with get_client(url=url) as client:
            async with client.threads.stream(assistant_id="a") as thread:
                run_id = (await thread.run.start(input=ASK))["run_id"]
                await thread.output.with_timeout(10)
            whole = [part async for part in client.runs.join_stream(
                thread.thread_id, run_id, stream_mode=["messages", "updates"]
            )]  # fmt: skip
            cut = next(n for n, part in enumerate(whole) if part.event == "updates")
            rest = [part async for part in client.runs.join_stream(
                thread.thread_id, run_id, stream_mode=["messages", "updates"],
                last_event_id=whole[cut].id,
            )]  # fmt: skip
            told = [part async for part in await client.threads.join_stream(
                thread.thread_id, stream_mode=["lifecycle"]
            )]  # fmt: skip
    assert whole[0].event == "metadata"
    assert whole[-1].event != "end"
    assert [(part.event, part.data) for part in rest] == [
        (part.event, part.data) for part in whole[cut + 1 :]
    ]
    assert [part.data.get("status") for part in told] == [None, "run_done"]
    assert served.threads[thread.thread_id].watchers == 0
