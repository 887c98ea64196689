"""The stream of a thread, over all its runs."""

import asyncio
import contextlib
import uuid

import pytest
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

FROM_THE_BEGINNING = "-"


async def until_part(stream, last):
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
    parts = await until_part(stream, done_times(2))
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

    parts, _ = await asyncio.gather(until_part(stream, done), ran())
    values = [part.data for part in parts if part.event == "values"]
    assert values[-1]["answer"] == "later"


async def test_a_threads_stream_goes_on_where_it_was_left(client, thread):
    for text in ("one", "two"):
        await client.runs.wait(thread, "echo", input={"text": text})
    whole = await until_part(
        await client.threads.join_stream(thread, last_event_id=FROM_THE_BEGINNING), done_times(2)
    )
    place = next(place for place, part in enumerate(whole) if done(part))
    rest = await until_part(
        await client.threads.join_stream(thread, last_event_id=whole[place].id), done
    )
    assert rest == whole[place + 1 :]


async def test_a_threads_life_is_told_without_its_content(client, thread):
    await client.runs.wait(thread, "echo", input={"text": "one"})
    stream = await client.threads.join_stream(
        thread, stream_mode="lifecycle", last_event_id=FROM_THE_BEGINNING
    )
    parts = await until_part(stream, done)
    assert {part.event for part in parts} == {"metadata"}
    assert len(parts) == 2


def told_state(part):
    return part.event == "state_update"


async def write_log(client, thread, *entries):
    for entry in entries:
        await client.threads.update_state(thread, {"log": [entry]})


async def test_a_state_that_is_written_by_hand_is_told(client, thread):
    await client.runs.wait(thread, "steps", input={})
    stream = await client.threads.join_stream(thread, stream_mode="state_update")

    async def written():
        await asyncio.sleep(0.5)  # until the stream is open: what came before it is not told
        await write_log(client, thread, "mine")

    (part,), _ = await asyncio.gather(until_part(stream, told_state), written())
    assert part.data == {"state": await client.threads.get_state(thread), "thread_id": thread}
    assert part.data["state"]["values"]["log"] == ["one", "two", "three", "mine"]
    assert part.id


async def test_states_are_replayed_between_the_runs_that_they_were_written_between(client, thread):
    await client.runs.wait(thread, "steps", input={})
    await write_log(client, thread, "first", "second")
    await client.runs.wait(thread, "steps", input={})
    await write_log(client, thread, "third")

    async def told_after(event_id, count):
        modes = ["state_update", "lifecycle"]
        stream = await client.threads.join_stream(thread, stream_mode=modes, last_event_id=event_id)
        seen = iter(range(1, count + 1))
        return await until_part(stream, lambda _part: next(seen) == count)

    whole = await told_after(FROM_THE_BEGINNING, 7)
    logs = [part.data["state"]["values"]["log"][-1] for part in whole if told_state(part)]
    assert logs == ["first", "second", "third"]
    assert [told_state(part) for part in whole] == [False, False, True, True, False, False, True]
    for place, part in enumerate(whole[:-1]):
        assert part.id
        assert await told_after(part.id, 6 - place) == whole[place + 1 :]


async def test_states_of_a_thread_that_was_made_with_its_past_are_told(client):
    steps = [{"updates": [{"values": {"log": ["past"]}, "as_node": "three"}]}]
    made = await client.threads.create(graph_id="steps", supersteps=steps)
    stream = await client.threads.join_stream(
        made["thread_id"], stream_mode="state_update", last_event_id=FROM_THE_BEGINNING
    )
    (part,) = await until_part(stream, told_state)
    assert part.data["state"]["values"]["log"] == ["past"]


async def test_an_unknown_thread_has_no_stream(client):
    with pytest.raises(NotFoundError):
        await until_part(await client.threads.join_stream(str(uuid.uuid4())), done)


async def test_an_unknown_mode_is_refused(client, thread):
    with pytest.raises(UnprocessableEntityError):
        await until_part(await client.threads.join_stream(thread, stream_mode="colours"), done)
