"""What becomes of runs whose worker is gone, by the policies of their agents."""

import asyncio
import time
from dataclasses import replace

import pytest
from sqlalchemy import insert, update

from checkrail.store import records, runs
from checkrail.store.records import StoredRecord
from checkrail.store.rows import fetch_rows, select_rows
from checkrail.store.tables import deliveries, hook_records, workers
from checkrail.store.tables import runs as table

from .support import Gate, chain, graph_agent, say, until

DEAD = "01900000-0000-7000-8000-00000000dead"


async def orphaned(world, gate, *, agents=None, lost=0, cancel=None, phase="running"):
    """Leave a run behind as a process that was killed does, with what it had done by then."""
    graphs = {"slow": gate.graph(say)}
    async with world.opened(graphs, stop_grace=0) as first:
        thread = await first.thread()
        row = await first.admit("slow", {"text": "x"}, thread)
        await gate.entered.wait()
        await first.parts.log.flush()
    left = {"worker_id": DEAD, "status": "running", "phase": phase}
    change = update(table).where(table.c.run_id == row.run_id)
    async with world.opened({"slow": gate.graph(say)}, capacity=0) as second:
        await second.write(lambda tx: tx.execute(change.values(**left, lost=lost, cancel=cancel)))
    gate.open.set()
    return row, await world.open(graphs, agents=agents or ())


@pytest.fixture
async def gate():
    return Gate()


async def test_by_default_a_graph_goes_on_from_its_last_checkpoint(world, gate):
    row, served = await orphaned(world, gate)
    ended = await served.over(row)
    assert (ended.status, ended.attempt, ended.lost) == ("success", 2, 1)
    assert ended.output["said"] == ["x", "x passed"]
    attempts = [e.data["attempt"] for e in await served.events(row) if e.event == "metadata"]
    assert attempts == [1, 2]


async def test_an_agent_that_says_fail_ends_its_run_as_an_error(world, gate):
    row, served = await orphaned(world, gate, agents=[graph_agent("slow", on_crash="fail")])
    ended = await served.over(row)
    assert (ended.status, ended.error_type, gate.count) == ("error", "WorkerLost", 1)
    assert "on_crash: fail" in ended.error
    assert (await served.thread_row(row.thread_id)).status == "error"
    assert [event.event for event in await served.events(row)][-2:] == ["error", "end"]


async def test_an_agent_that_says_restart_begins_again_from_the_input(world, gate):
    row, served = await orphaned(world, gate, agents=[graph_agent("slow", on_crash="restart")])
    ended = await served.over(row)
    assert (ended.status, ended.attempt) == ("success", 2)
    assert ended.output["said"] == ["x", "x passed"]


async def test_a_run_that_lost_its_worker_too_often_ends_as_an_error(world, gate):
    row, served = await orphaned(world, gate, lost=2)
    ended = await served.over(row)
    assert (ended.status, ended.error_type) == ("error", "WorkerLost")
    assert "3 times" in ended.error


async def test_a_run_that_was_to_be_cancelled_ends_as_cancelled(world, gate):
    row, served = await orphaned(world, gate, cancel="interrupt")
    ended = await served.over(row)
    assert (ended.status, ended.phase, gate.count) == ("interrupted", "cancelled", 1)


async def test_a_run_that_was_to_be_rolled_back_is_rolled_back_by_the_next(world, gate):
    row, served = await orphaned(world, gate, cancel="rollback")

    async def gone():
        return await served.row(row) is None

    await until(gone)
    assert gate.count == 1
    assert await served.state("slow", row.thread_id) == {}


async def test_a_run_whose_start_hooks_were_cut_off_is_asked_about_again(world, gate):
    row, served = await orphaned(
        world, gate, phase="starting", agents=[graph_agent("slow", on_crash="fail")]
    )
    assert (await served.over(row)).status == "success"


async def test_a_worker_that_beats_keeps_its_runs_though_it_blocks(world):
    """Code that holds up the event loop for longer than a lease does not lose its run."""

    async def block(state):
        time.sleep(3.5)  # noqa: ASYNC251
        return {"said": ["done"]}

    served = await world.open({"block": chain(block)}, lease=2.5, beat=0.1)
    ended = await served.run("block", {"text": "x"})
    assert (ended.status, ended.attempt, ended.lost) == ("success", 1, 0)


async def test_a_worker_that_lost_a_run_stops_and_writes_nothing(postgres_world):
    gate, other = Gate(), Gate()
    first = await postgres_world.open({"slow": gate.graph(say)}, capacity=1)
    row = await first.admit("slow", {"text": "x"}, await first.thread())
    await gate.entered.wait()
    other.open.set()
    second = await postgres_world.open({"slow": other.graph(say)})
    gone = {"worker_id": None, "status": "pending", "phase": "ready"}
    await second.write(lambda tx: (runs.update_run(tx, row.run_id, **gone), tx.publish("work", "")))
    taken = await second.over(row)
    assert (taken.status, taken.attempt) == ("success", 2)

    async def let_go():
        return row.run_id not in first.parts.live

    await until(let_go)
    assert (await second.row(row)).attempt == 2
    assert (gate.count, other.count) == (1, 1)


async def test_hook_calls_that_were_cut_off_are_closed_as_lost(world, gate):
    row, _ = await _with_open_call(world, gate)
    served = await world.open({"slow": gate.graph(say)})
    await served.over(row)
    ends = [each for each in await served.records(row) if each["hook"] == "cut off"]
    assert [(each["event_type"], each.get("failure")) for each in ends] == [
        ("hook_start", None),
        ("hook_failed", "lost"),
    ]


def _start(row, point, hook, **more):
    """Give the record of a hook call that has begun."""
    told = {"event_type": "hook_start", "hook": hook, "point": point}
    kept = {"record_id": "r1", "owner": "ada", "created_at": time.time(), "record": told} | more
    of_run = {"run_id": row.run_id, "thread_id": row.thread_id}
    return StoredRecord(**told, **of_run, **{"call_id": hook, **kept})


async def _with_open_call(world, gate):
    graphs = {"slow": gate.graph(say)}
    async with world.opened(graphs, stop_grace=0) as first:
        row = await first.admit("slow", {"text": "x"}, await first.thread())
        await gate.entered.wait()
    start = _start(row, "on_result", "cut off", worker_id=DEAD)
    async with world.opened(graphs, capacity=0) as second:
        await second.write(
            lambda tx: (
                records.add(tx, [start]),
                tx.execute(
                    update(table)
                    .where(table.c.run_id == row.run_id)
                    .values(worker_id=DEAD, status="running", phase="running")
                ),
            )
        )
    gate.open.set()
    return row, second


async def test_calls_after_a_run_whose_delivery_is_done_are_closed_as_lost(world):
    """A hook that is an agent is followed on, when its delivery is done."""
    async with world.opened({"say": chain(say)}, capacity=1) as first:
        row = await first.run("say", {"text": "x"})
        start = _start(row, "after_run", "next", worker_id=DEAD)
        gone = {"worker_id": DEAD, "host": "gone", "pid": 1, "started_at": 0.0}
        gone["expires_at"] = time.time() - 1
        await first.write(
            lambda tx: (
                records.add(tx, [start]),
                tx.execute(insert(workers).values(**gone)),
            )
        )
    second = await world.open({"say": chain(say)})

    async def endings():
        told = [each for each in await second.records(row) if each["hook"] == "next"]
        return [(each["event_type"], each.get("failure")) for each in told[1:]]

    assert await until(endings, "the ending") == [("hook_failed", "lost")]


async def test_deliveries_of_a_dead_worker_are_carried_out_by_the_next(world):
    told = []

    async def hear(event):
        told.append(event.run_id)

    async def never(event):
        await asyncio.sleep(60)

    async with world.opened({"say": chain(say)}, (never, "after_run", {"timeout": 60})) as first:
        row = await first.run("say", {"text": "x"})
    async with world.opened({"say": chain(say)}, capacity=0) as second:
        await second.write(lambda tx: _owe_by_dead(tx, row))
    third = await world.open({"say": chain(say)}, (hear, "after_run"))
    [owed] = await third.settled(row)
    assert (owed.status, told) == ("done", [row.run_id])


def _owe_by_dead(tx, row):
    """Leave the deliveries of a run behind as a process that was killed does."""
    mark = update(deliveries).where(deliveries.c.run_id == row.run_id)
    tx.execute(mark.values(status="owed", worker_id=DEAD))
    gone = {"worker_id": DEAD, "host": "gone", "pid": 1, "started_at": 0.0, "expires_at": 1.0}
    tx.execute(insert(workers).values(**gone))


async def ignore(event):
    pass


async def test_a_call_of_a_living_process_is_not_ended_with_those_of_a_dead_one(world):
    async with world.opened({"say": chain(say)}, (ignore, "after_run")) as first:
        row = await first.run("say", {"text": "x"})
        await first.settled(row)
        theirs = _start(row, "after_run", "theirs", worker_id=DEAD)
        ours = _start(row, "after_run", "ours", worker_id="alive", record_id="r2")
        await first.write(lambda tx: (records.add(tx, [theirs, ours]), _owe_by_dead(tx, row)))
    second = await world.open({"say": chain(say)})
    await second.settled(row)
    told = [(each["hook"], each.get("failure")) for each in await second.records(row)][2:]
    assert told == [("theirs", None), ("ours", None), ("theirs", "lost")]


async def test_a_process_that_wakes_up_ends_no_call_that_was_ended_for_it(world):
    """The ending was made before it froze, so the call seems to have been quick."""
    heard = asyncio.Event()

    async def hear(event):
        heard.set()

    served = await world.open({"say": chain(say)}, (hear, "after_run", {"name": "hear"}))
    row = await served.run("say", {"text": "x"})
    await heard.wait()
    await served.settled(row)
    [start] = await served.read(_started)
    await served.write(lambda tx: records.add(tx, [_ended(start, "hook_failed")]))
    kinds = [each["event_type"] for each in await served.records(row)]
    assert kinds == ["hook_start", "hook_complete"]


def _started(reads):
    query = select_rows(StoredRecord, hook_records)
    return fetch_rows(reads, StoredRecord, query.where(hook_records.c.event_type == "hook_start"))


def _ended(start, kind):
    return replace(start, seq=0, record_id="late", event_type=kind)
