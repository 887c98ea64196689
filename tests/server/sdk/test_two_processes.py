"""What one server process writes, a client of another one on the same PostgreSQL is told."""

import asyncio

import pytest

from .test_thread_join_stream import FROM_THE_BEGINNING, told_state, until_part, write_log


@pytest.fixture
def both(serve, new_database):
    database = new_database("postgres")
    return [serve(database).start() for _ in range(2)]


async def test_a_state_that_another_server_wrote_is_told_and_replayed(both):
    one, other = both
    async with one.client(timeout=60) as writer, other.client(timeout=60) as listener:
        thread = (await writer.threads.create())["thread_id"]
        await writer.runs.wait(thread, "steps", input={})
        stream = await listener.threads.join_stream(thread, stream_mode="state_update")

        async def written():
            await asyncio.sleep(0.5)  # until the stream is open: what came before it is not told
            await write_log(writer, thread, "mine")

        (part,), _ = await asyncio.gather(until_part(stream, told_state), written())
        state = await writer.threads.get_state(thread)
        assert part.data == {"state": state, "thread_id": thread}
        again = await listener.threads.join_stream(
            thread, stream_mode="state_update", last_event_id=FROM_THE_BEGINNING
        )
        assert await until_part(again, told_state) == [part]
