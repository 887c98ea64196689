"""The feed: one sequence over all runs, of which nobody misses anything."""

import asyncio
import time

from checkrail.runs.events.follower import Feed
from checkrail.store import records
from checkrail.store.database import Database
from checkrail.store.records import StoredRecord

from .support import chain, say, until


async def read(feed, wanted):
    """What a feed gives until something is there, with where to go on from."""
    found, last = [], 0
    async with asyncio.timeout(30):
        async for safe, rows in feed.follow():
            last = safe
            found += rows
            if wanted(found):
                break
    return last, found


def feed_of(served, after=0):
    return Feed(served.parts.database, served.parts.hub, after)


async def test_the_life_of_a_run_is_told_in_order(world):
    async def look(event):
        return None

    served = await world.open({"say": chain(say)}, (look, "before_run"), (look, "on_result"))
    run = await served.run("say", {"text": "x"}, await served.thread())
    last, rows = await read(feed_of(served), lambda rows: rows[-1].event_type == "run_ended")
    told = [row.event_type for row in rows if row.run_id == run.run_id]
    assert told[-1] == "run_ended"
    assert sorted(told) == sorted(
        ["run_created", "run_started", "run_ended", *["hook_start", "hook_complete"] * 2]
    )
    assert told.index("run_created") < told.index("run_started")
    assert last == rows[-1].seq
    assert {row.owner for row in rows} == {"ada"}
    assert rows[-1].record["status"] == "success"


async def test_a_run_that_was_cancelled_while_it_waited_has_ended_too(world):
    served = await world.open({"say": chain(say)})
    run = await served.admit("say", {"text": "x"}, await served.thread(), after_seconds=3600)
    await served.service.cancel(run.run_id, "interrupt")
    _, rows = await read(feed_of(served), lambda rows: rows[-1].event_type == "run_ended")
    assert [row.event_type for row in rows] == ["run_created", "run_ended"]
    assert rows[-1].record["phase"] == "cancelled"


async def test_who_comes_back_is_told_what_came_since(world):
    served = await world.open({"say": chain(say)})
    await served.run("say", {"text": "x"})
    last, _ = await read(feed_of(served), lambda rows: rows[-1].event_type == "run_ended")
    second = await served.run("say", {"text": "y"})
    _, rows = await read(feed_of(served, last), lambda rows: rows[-1].event_type == "run_ended")
    assert {row.run_id for row in rows} == {second.run_id}


async def test_a_reader_that_waits_is_woken(world):
    served = await world.open({"say": chain(say)})
    reading = asyncio.ensure_future(
        read(feed_of(served), lambda rows: rows[-1].event_type == "run_ended")
    )
    await asyncio.sleep(0)
    run = await served.run("say", {"text": "x"})
    _, rows = await reading
    assert {row.run_id for row in rows} == {run.run_id}


async def test_numbers_are_never_given_twice_though_the_last_ones_are_forgotten(world):
    served = await world.open({"say": chain(say)})
    first = await served.run("say", {"text": "x"})
    last = await served.read(records.last_seq)
    await served.write(lambda tx: records.remove_of_runs(tx, [first.run_id]))
    second = await served.run("say", {"text": "y"})
    _, rows = await read(feed_of(served, last), lambda rows: rows[-1].event_type == "run_ended")
    assert {row.run_id for row in rows} == {second.run_id}
    await served.write(lambda tx: records.forget_before(tx, time.time() + 1))
    await served.run("say", {"text": "z"})
    assert (await served.read(lambda reads: records.load_after(reads, rows[-1].seq, (), 10)))[0]


def note(number):
    return StoredRecord("", f"note_{number}", "", "", time.time(), {})


async def test_a_number_that_is_kept_late_is_not_missed(postgres_world):
    """Two servers write at once: the one that took the lower number is kept last."""
    served = await postgres_world.open({})
    other = Database(postgres_world.place.url)
    first = await served.read(records.last_seq)
    feed = feed_of(served, first)
    with other.engine.connect() as slow:
        beginning = slow.begin()
        records.add(slow, [note("late")])
        await served.write(lambda tx: records.add(tx, [note("soon")]))
        stream = feed.follow()
        safe, rows = await anext(stream)
        assert [row.event_type for row in rows] == ["note_soon"]
        assert safe == first, "who goes on from here still finds what is missing"
        beginning.commit()
    await served.write(lambda tx: records.add(tx, [note("next")]))
    found = []

    async def more():
        nonlocal safe
        safe, rows = await anext(stream)
        found.extend(row.event_type for row in rows)
        return len(found) == 2

    await until(more, "what was late")
    assert sorted(found) == ["note_late", "note_next"]
    assert safe == await served.read(records.last_seq)
    await stream.aclose()
    other.close()
