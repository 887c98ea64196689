"""Events of runs on their way into the table."""

import asyncio
from dataclasses import replace

from checkrail.runs.execute.live_run import LiveRun
from checkrail.store import runs

from .support import Gate


async def open_held(world):
    """A server that holds a run in its first attempt, and the run as the server has it."""
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, lease=600.0, beat=200.0)
    row = await served.admit("slow", {"text": "x"}, await served.thread())
    await gate.entered.wait()
    await served.parts.log.flush()
    return gate, served, served.parts.live[row.run_id]


def live_in(served, live, attempt):
    row = replace(live.row, attempt=attempt)
    return LiveRun(row, served.parts.settings.limits, served.parts.log.mark_dirty, lambda: True)


async def test_an_attempt_that_is_over_writes_nothing_among_the_events_of_the_next(world):
    gate, served, live = await open_held(world)
    await served.write(lambda tx: runs.update_run(tx, live.run_id, attempt=2))
    older, newer = live_in(served, live, 1), live_in(served, live, 2)
    older.seq = newer.seq = 500
    older.emit("custom", (), "from before")
    newer.emit("custom", (), "from now")
    async with asyncio.timeout(60):
        await served.parts.log.flush()
    told = [event for event in await served.events(live.row) if event.seq > 500]
    assert [event.raw for event in told] == [b'"from now"']
    gate.open.set()


async def test_events_whose_numbers_are_taken_hold_up_nobody_else(world):
    gate, served, live = await open_held(world)
    twin = live_in(served, live, 1)
    twin.seq = live.seq - 1
    twin.emit("custom", (), "the last one again")
    live.emit("custom", (), "the next one")
    async with asyncio.timeout(60):
        await served.parts.log.flush()
    told = [event.raw for event in await served.events(live.row)]
    assert told[-1] == b'"the next one"'
    assert b'"the last one again"' not in told
    gate.open.set()
