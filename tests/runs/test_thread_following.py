"""Following a thread: its runs one after the other, each told to its end."""

import asyncio
from contextlib import aclosing

from .support import Gate, chain, say


async def ends(served, thread, count, after=0):
    """The first so many runs that a follower of a thread sees the end of."""
    found = []
    async with asyncio.timeout(30), aclosing(served.service.follow_thread(thread, after)) as source:
        async for row, batch in source:
            if batch and batch[-1].event == "end":
                found.append((row.run_id, batch[-1].data["phase"]))
                if len(found) == count:
                    return found
    return found


async def test_runs_are_told_one_after_the_other(world):
    served = await world.open({"say": chain(say)})
    thread = await served.thread()
    rows = [await served.run("say", {"text": str(n)}, thread) for n in range(3)]
    assert await ends(served, thread, 3) == [(row.run_id, "success") for row in rows]


async def test_whoever_has_the_first_run_gets_the_rest(world):
    served = await world.open({"say": chain(say)})
    thread = await served.thread()
    first = await served.run("say", {"text": "1"}, thread)
    second = await served.run("say", {"text": "2"}, thread)
    after = (await served.row(first)).last_seq
    assert await ends(served, thread, 1, after) == [(second.run_id, "success")]


async def test_a_run_that_was_cancelled_in_the_queue_is_told_to_its_end(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(), "say": chain(say)})
    thread = await served.thread()
    running = await served.admit("slow", {"text": "x"}, thread)
    await gate.entered.wait()
    queued = await served.admit("say", {"text": "y"}, thread)
    later = await served.admit("say", {"text": "z"}, thread)
    told = asyncio.create_task(ends(served, thread, 3))
    await served.service.cancel(queued.run_id, "interrupt")
    gate.open.set()
    assert sorted(await told) == sorted(
        [
            (running.run_id, "success"),
            (queued.run_id, "cancelled"),
            (later.run_id, "success"),
        ]
    )
