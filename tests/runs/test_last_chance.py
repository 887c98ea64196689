"""What processes have died with is taken up one by one, and blamed alone if they die again."""

import asyncio
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from checkrail.runs.events.hub import WORK
from checkrail.runs.execute.last_chance import LastChance, find_suspected, is_blamed
from checkrail.store.tables import deliveries
from checkrail.store.tables import runs as table

from .support import Gate, chain, say, until


@pytest.fixture
async def gate():
    return Gate()


def test_one_suspect_is_under_way_at_a_time():
    chance = LastChance()
    assert chance.start_search("runs")
    assert not chance.start_search("deliveries")  # while somebody looks
    chance.hold("runs", "r1")
    chance.search_again()
    assert not chance.start_search("deliveries")
    assert not chance.release("r2")
    assert chance.release("r1")
    assert chance.start_search("deliveries")
    chance.hold("deliveries", None)
    assert not chance.start_search("deliveries")  # there was none: not again for a while
    assert chance.start_search("runs")


def test_a_death_counts_for_all_unless_a_suspect_was_under_way():
    rows = [
        SimpleNamespace(worker_id="a", lost=0),
        SimpleNamespace(worker_id="a", lost=2),
        SimpleNamespace(worker_id="b", lost=1),
    ]
    known = find_suspected(rows)
    assert [is_blamed(row, known) for row in rows] == [False, True, True]


async def suspect(world, gate, count):
    """Leave runs behind that two processes have died with, in none that is alive."""
    graphs = {"slow": gate.graph(say)}
    async with world.opened(graphs, capacity=0) as first:
        rows = [await first.admit("slow", {"text": "x"}, await first.thread()) for _ in count]
        ids = [row.run_id for row in rows]
        change = update(table).where(table.c.run_id.in_(ids)).values(lost=2)
        await first.write(lambda tx: tx.execute(change))
    return rows, await world.open(graphs)


async def test_suspects_are_carried_out_one_after_the_other_beside_others(world, gate):
    rows, served = await suspect(world, gate, range(3))
    await gate.entered.wait()
    other = await served.admit("slow", {"text": "y"}, await served.thread())
    await until(lambda: _is(gate.count == 2))
    assert len(served.parts.live) == 2
    assert other.run_id in served.parts.live
    gate.open.set()
    for row in (*rows, other):
        assert (await served.over(row)).status == "success"


async def _is(value):
    return value


async def test_suspected_deliveries_are_carried_out_one_after_the_other(world):
    busy, most, told = 0, 0, []

    async def finish(event):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.02)
        busy -= 1
        told.append(event.run_id)

    served = await world.open({"say": chain(say)}, (finish, "after_run"))
    rows = [await served.admit("say", {"text": "x"}, await served.thread()) for _ in range(4)]
    for row in rows:
        await served.over(row)
    await until(lambda: _is(len(told) == 4))
    told.clear()
    most = 0
    again = update(deliveries).values(status="owed", lost=2, worker_id=None)
    await served.write(lambda tx: tx.execute(again))
    served.parts.last_chance.search_again()
    served.parts.hub.notify([WORK])
    await until(lambda: _is(len(told) == 4))
    assert most == 1
