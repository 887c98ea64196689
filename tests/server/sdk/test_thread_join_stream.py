"""The stream of a thread, over all its runs."""

import asyncio
import contextlib
import uuid

import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

FROM_THE_BEGINNING = "-"


async def _until(stream, last):
    """The parts of a stream up to one that is the last for us; the stream itself has no end."""
    parts = []
    async with contextlib.aclosing(stream), asyncio.timeout(60):
        async for part in stream:
            parts.append(part)
            if last(part):
                break
    return parts


def done(part):
    return part.event == "metadata" and (part.data or {}).get("status") == "run_done"


def done_times(times):
    seen = iter(range(1, times + 1))
    return lambda part: done(part) and next(seen) == times


async def test_a_thread_tells_of_each_of_its_runs(client, thread):
    for text in ("one", "two"):
        await client.runs.wait(thread, "echo", input={"text": text})
    stream = await client.threads.join_stream(thread, last_event_id=FROM_THE_BEGINNING)
    parts = await _until(stream, done_times(2))
    answers = [part.data["answer"] for part in parts if "answer" in (part.data or {})]
    assert answers[-1] == "two"
    assert "one" in answers
    runs = await client.runs.list(thread)
    begun = [part.data["run_id"] for part in parts if part.event == "metadata" and not done(part)]
    assert begun == [run["run_id"] for run in reversed(runs)]


async def test_a_thread_tells_of_runs_that_come_later(client, thread):
    stream = await client.threads.join_stream(thread)

    async def ran():
        await asyncio.sleep(0.5)  # until the stream is open: what came before it is not told
        await client.runs.wait(thread, "echo", input={"text": "later"})

    parts, _ = await asyncio.gather(_until(stream, done), ran())
    values = [part.data for part in parts if part.event == "values"]
    assert values[-1]["answer"] == "later"


async def test_a_threads_stream_goes_on_where_it_was_left(client, thread):
    for text in ("one", "two"):
        await client.runs.wait(thread, "echo", input={"text": text})
    whole = await _until(
        await client.threads.join_stream(thread, last_event_id=FROM_THE_BEGINNING), done_times(2)
    )
    place = next(place for place, part in enumerate(whole) if done(part))
    rest = await _until(
        await client.threads.join_stream(thread, last_event_id=whole[place].id), done
    )
    assert rest == whole[place + 1 :]


async def test_a_threads_life_is_told_without_its_content(client, thread):
    await client.runs.wait(thread, "echo", input={"text": "one"})
    stream = await client.threads.join_stream(
        thread, stream_mode="lifecycle", last_event_id=FROM_THE_BEGINNING
    )
    parts = await _until(stream, done)
    assert {part.event for part in parts} == {"metadata"}
    assert len(parts) == 2


async def test_a_threads_state_is_told_as_it_changes(client, thread):
    await client.runs.wait(thread, "steps", input={})
    stream = await client.threads.join_stream(
        thread, stream_mode=["state_update", "lifecycle"], last_event_id=FROM_THE_BEGINNING
    )
    parts = await _until(stream, done)
    states = [part.data["values"] for part in parts if part.event == "state_update"]
    assert states[-1]["log"] == ["one", "two", "three"]


async def test_an_unknown_thread_has_no_stream(client):
    with pytest.raises(NotFoundError):
        await _until(await client.threads.join_stream(str(uuid.uuid4())), done)


async def test_an_unknown_mode_is_refused(client, thread):
    with pytest.raises(UnprocessableEntityError):
        await _until(await client.threads.join_stream(thread, stream_mode="colours"), done)
