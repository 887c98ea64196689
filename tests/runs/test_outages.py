"""What becomes of runs while the database is away, and after it."""

import asyncio
import contextlib
import time

import pytest
from sqlalchemy import select
from tests.pg_proxy import PostgresProxy

from checkrail import Ask
from checkrail.runs.admit.requests import Idempotency
from checkrail.runs.events import follower
from checkrail.store import events
from checkrail.store.tables import approvals, idempotency
from checkrail.store.tables import runs as table

from .support import Gate, Place, World, chain, graph_agent, say, until

LEASE = {"lease": 1.0, "beat": 0.1}


@contextlib.asynccontextmanager
async def reached_by(place):
    """A world that reaches its database by a way that can be cut; its checkpoints are beside it."""
    with PostgresProxy(place.url) as proxy:
        async with World(Place(proxy.url, place.checkpoints)) as world:
            yield world, proxy
            proxy.mend() if proxy.is_cut else None


@pytest.fixture
async def cut_world(postgres_place):
    async with reached_by(postgres_place) as found:
        yield found


def gated(gates):
    graphs = {f"slow{number}": gate.graph(say) for number, gate in enumerate(gates)}
    return graphs, [graph_agent(name, on_crash="fail") for name in graphs]


async def test_servers_keep_their_runs_when_the_database_was_away_for_longer_than_a_lease(
    cut_world,
):
    world, proxy = cut_world
    gates = [Gate() for _ in range(4)]
    graphs, agents = gated(gates)
    servers = [await world.open(graphs, agents=agents, **LEASE) for _ in range(2)]
    rows = [
        await servers[number % 2].admit(name, {"text": "x"}) for number, name in enumerate(graphs)
    ]
    for gate in gates:
        await gate.entered.wait()
    proxy.cut()
    await asyncio.sleep(2.5)
    gates[0].open.set()  # its run comes to its end while nobody can keep it
    gates[1].open.set()
    await asyncio.sleep(0.5)
    proxy.mend()
    for gate in gates:
        gate.open.set()
    ended = [await servers[0].over(row) for row in rows]
    assert [(row.status, row.attempt, row.lost) for row in ended] == [("success", 1, 0)] * 4
    assert [gate.count for gate in gates] == [1] * 4


async def test_a_server_that_died_during_an_outage_is_found_after_it(cut_world, postgres_place):
    world, proxy = cut_world
    gate, other = Gate(), Gate()
    other.open.set()
    async with reached_by(postgres_place) as (dying_world, dying_proxy):
        dying = await dying_world.open({"slow": gate.graph(say)}, **LEASE)
        living = await world.open({"slow": other.graph(say)}, **LEASE)
        row = await dying.admit("slow", {"text": "x"}, await dying.thread())
        await gate.entered.wait()
        dying_proxy.cut()
        proxy.cut()
        await asyncio.sleep(2.0)
        proxy.mend()
        ended = await living.over(row)
        assert (ended.status, ended.attempt, ended.lost) == ("success", 2, 1)
        told = [event async for event in _tapped(dying, row)]
        assert told == []
        dying_proxy.mend()

        async def let_go():
            return row.run_id not in dying.parts.live

        await until(let_go)
        assert (await living.row(row)).attempt == 2
        assert (gate.count, other.count) == (1, 1)


async def _tapped(served, row):
    """What a client of a server hears that cannot know whether a run is still its own."""
    live = served.parts.live[row.run_id]
    tap = live.add_tap(lambda: None)
    tap.waiting.clear()
    live.emit("custom", (), {"late": True})
    for event in tap.waiting:
        yield event


async def test_events_of_an_outage_are_told_after_it(cut_world, monkeypatch):
    monkeypatch.setattr(follower, "_LOOK_EVERY", 0.05)
    world, proxy = cut_world
    gate = Gate()
    served = await world.open({"slow": gate.graph(say)}, **LEASE)
    row = await served.admit("slow", {"text": "x"})
    await gate.entered.wait()
    batches = []

    async def follow():
        async for batch in served.service.follow(row.run_id):
            batches.append(batch)  # noqa: PERF401 - one at a time, as they come

    async def has_all_so_far():
        return batches and not batches[-1]

    following = asyncio.create_task(follow())
    await until(has_all_so_far)
    proxy.cut()
    await asyncio.sleep(1.5)
    live = served.parts.live[row.run_id]
    live.emit("custom", (), {"late": True})
    await asyncio.sleep(0.2)
    proxy.mend()

    async def is_written():
        return not live.pending

    await until(is_written)
    gate.open.set()
    await asyncio.wait_for(following, 60)
    names = [event.event for batch in batches for event in batch]
    assert names.count("custom") == 1
    assert names[-1] == "end"
    found = await served.read(lambda reads: events.load_after(reads, row.run_id, 0, 1000))
    assert [event.event for event in found] == names


@pytest.mark.parametrize("hooked", [False, True], ids=["straight", "with start hooks"])
async def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_doubled(cut_world, hooked):
    """Admission, claim, start and end each lose the answer to a commit in turn."""
    world, proxy = cut_world

    async def agree(event, value):
        return None

    hooks = [(agree, "on_run_start")] if hooked else []
    agents = [graph_agent("say", on_crash="fail")]
    served = await world.open({"say": chain(say)}, *hooks, agents=agents, capacity=4, **LEASE)
    rows = []
    for _ in range(6):
        proxy.lose_commits(2)
        rows += [await served.admit("say", {"text": "x"}) for _ in range(6)]
    ended = [await served.over(row) for row in rows]
    assert {(row.status, row.attempt, row.lost) for row in ended} == {("success", 1, 0)}
    proxy.await_loss()
    found = await served.read(lambda reads: reads.execute(table.select()).fetchall())
    assert len(found) == len(rows)


async def test_times_that_machines_compare_are_the_databases(postgres_world, monkeypatch):
    """The clock of this machine is an hour slow; that of the database is right."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3600)

    async def hear(event):
        pass

    served = await postgres_world.open({"say": chain(say)}, (hear, "after_run"), beat=0.1)
    thread = await served.thread()
    once = Idempotency("key", "runs", "digest")
    row = await served.admit("say", {"text": "x"}, thread, once=once, after_seconds=0.5)
    ended = await served.over(row)
    [owed] = await served.settled(ended)
    [kept] = await served.read(
        lambda reads: reads.execute(select(idempotency.c.created_at)).fetchall()
    )
    times = {
        name: getattr(ended, name) for name in ("created_at", "due_at", "started_at", "ended_at")
    }
    times |= {"owed": owed.due_at, "kept": kept[0]} | {"due_at": row.due_at}
    assert all(abs(when - right()) < 60 for when in times.values()), times


async def test_a_question_expires_by_the_databases_clock(postgres_world, monkeypatch):
    right = time.time

    async def unsure(event, value):
        return Ask("go on?", timeout=2.0, on_timeout="continue")

    asking = await postgres_world.open({"say": chain(say)}, (unsure, "on_run_start"), beat=0.1)
    monkeypatch.setattr(time, "time", lambda: right() + 3600)
    row = await asking.admit("say", {"text": "x"}, await asking.thread())

    async def put():
        return await asking.read(
            lambda reads: reads.execute(select(approvals.c.expires_at)).scalar()
        )

    assert abs(await until(put, "the question") - right()) < 60
    assert (await asking.over(row)).status == "success"
