"""The end of a run: once, by whoever holds it, and with everything that belongs to it."""

import asyncio
import time
from dataclasses import replace

import pytest

from checkrail.runs.execute.live_run import EventLimits, LiveRun
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.finisher import Finisher, end_unclaimed_run
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.store import runs, threads, workers

from .support import chain, say, until

GOOD = RunOutcome("success", "success", output={"said": ["me"]}, values={"said": ["me"]})
BAD = outcomes.error_outcome("it broke", "ValueError")


def quiet(event):
    return None


@pytest.fixture
async def served(world):
    """A service that takes no runs by itself, but owes finish hooks for them.

    It does not give back in a beat what tests have it hold and nobody works on.
    """
    hooks = [(quiet, point) for point in ("after_run", "on_run_error")]
    return await world.open({"say": chain(say)}, *hooks, capacity=0, lease=600.0, beat=200.0)


async def held(served, worker=None, attempt=1):
    """A run that a worker holds, without anybody working on it."""
    thread = await served.thread()
    row = await served.admit("say", {"text": "x"}, thread)
    mine = {"worker_id": worker or served.parts.worker_id, "attempt": attempt}
    await served.write(lambda tx: runs.update_run(tx, row.run_id, phase="running", **mine))
    return await served.row(row)


def live_of(served, row, **changed):
    log = served.parts.log
    return LiveRun(replace(row, **changed), EventLimits(), log.mark_dirty, lambda: True)


async def test_of_two_that_end_a_run_exactly_one_does(served):
    row = await held(served)
    finisher = Finisher(served.parts)
    lives = [live_of(served, row), live_of(served, row)]
    answers = await asyncio.gather(finisher.finish(lives[0], GOOD), finisher.finish(lives[1], BAD))
    assert sorted(answer is None for answer in answers) == [False, True]
    won = 0 if answers[0] is not None else 1
    ended = await served.row(row)
    assert ended.status == ("success", "error")[won]
    assert [each.kind for each in await served.owed(row)] == [("after_run", "on_run_error")[won]]
    assert len([e for e in await served.events(row) if e.event == "end"]) == 1


async def test_of_many_that_end_it_from_anywhere_exactly_one_does(served):
    row = await held(served)
    finisher = Finisher(served.parts)

    async def unheld():
        fence = {"worker_id": row.worker_id, "attempt": row.attempt}
        return await served.write(lambda tx: end_unclaimed_run(tx, served.parts, row, BAD, **fence))

    async def own():
        return await finisher.finish(live_of(served, row), GOOD) is not None

    answers = await asyncio.gather(*(each() for each in [own, unheld] * 5))
    assert answers.count(True) == 1
    assert len(await served.owed(row)) == 1
    assert len([e for e in await served.events(row) if e.event == "end"]) == 1


@pytest.mark.parametrize(
    "stale",
    [{"attempt": 0}, {"attempt": 2}, {"run_id": "5d1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11"}],
    ids=["an earlier attempt", "a later attempt", "another run"],
)
async def test_whoever_does_not_hold_a_run_ends_nothing(served, stale):
    row = await held(served)
    live = live_of(served, row, **stale)
    live.emit("values", (), {"late": True})
    assert await Finisher(served.parts).finish(live, GOOD) is None
    after = await served.row(row)
    assert (after.status, after.phase, after.ended_at) == ("pending", "running", None)
    assert await served.owed(row) == []
    assert await served.events(row) == []
    assert (await served.thread_row(row.thread_id)).status == "busy"


async def test_a_run_that_another_worker_holds_is_not_ended(served):
    row = await held(served, worker="another")
    assert await Finisher(served.parts).finish(live_of(served, row), GOOD) is None
    assert (await served.row(row)).ended_at is None


async def test_writes_of_an_owner_are_fenced(served):
    row = await held(served)
    mine = (row.run_id, served.parts.worker_id, 1)
    wrong = [
        (row.run_id, "another", 1),
        (row.run_id, served.parts.worker_id, 2),
        ("another", served.parts.worker_id, 1),
    ]
    for fence in wrong:
        assert not await served.write(
            lambda tx, fence=fence: runs.update_owned(tx, *fence, phase="ready")
        )
    assert (await served.row(row)).phase == "running"
    assert await served.write(lambda tx: runs.update_owned(tx, *mine, phase="ready"))
    assert (await served.row(row)).phase == "ready"


async def test_events_of_a_run_that_is_no_longer_ours_are_not_kept(served):
    row = await held(served, worker="another")
    live_of(served, row).emit("values", (), {"late": True})
    await served.parts.log.flush()
    assert await served.events(row) == []


async def test_an_end_with_its_debts_and_its_thread_is_one_transaction(served, monkeypatch):
    row = await held(served)
    real = threads.update_thread

    def broken(tx, thread_id, **values):
        real(tx, thread_id, **values)
        raise OSError("the plug was pulled")

    monkeypatch.setattr(threads, "update_thread", broken)
    with pytest.raises(OSError, match="plug"):
        await Finisher(served.parts).finish(live_of(served, row), GOOD)
    monkeypatch.undo()
    assert (await served.row(row)).ended_at is None
    assert await served.owed(row) == []
    assert await served.events(row) == []
    assert (await served.thread_row(row.thread_id)).status == "busy"


async def test_the_next_run_of_a_thread_is_ready_in_the_transaction_that_ends_the_one_before(
    served,
):
    row = await held(served)
    following = [await served.admit("say", {"text": "y"}, row.thread_id) for _ in range(3)]
    await Finisher(served.parts).finish(live_of(served, row), GOOD)
    first, *others = [(await served.row(each)).phase for each in following]
    assert first in {"starting", "ready"}  # a server makes it ready if no hook is to start it
    assert others == ["queued", "queued"]
    assert (await served.thread_row(row.thread_id)).status == "busy"


async def test_records_of_a_run_that_could_not_be_ended_are_kept_all_the_same(world):
    """A worker that was taken for dead has still called the hooks that it called."""
    entered, opened = asyncio.Event(), asyncio.Event()

    async def look(event):
        entered.set()
        await opened.wait()

    hook = (look, "on_result", {"name": "look", "timeout": 60})
    served = await world.open({"quick": chain(say)}, hook, lease=600.0, beat=200.0)
    row = await served.admit("quick", {"text": "x"}, await served.thread())
    await entered.wait()

    def taken(tx):
        workers.add(tx, "another", ("elsewhere", 1), served.parts.database.now(), 3600)
        runs.update_run(tx, row.run_id, worker_id="another")

    await served.write(taken)
    opened.set()

    async def recorded():
        return [each["event_type"] for each in await served.records(row) if each["hook"] == "look"]

    assert await until(recorded) == ["hook_start", "hook_complete"]
    assert (await served.row(row)).ended_at is None


def test_what_ends_well_is_told_to_after_run_and_all_else_to_on_run_error():
    good = [GOOD, RunOutcome("interrupted", "interrupted")]
    bad = [
        BAD,
        outcomes.cancelled_outcome(),
        outcomes.blocked_outcome("h", "no"),
        RunOutcome("timeout", "timeout"),
    ]
    assert [each.is_success for each in good + bad] == [True, True, False, False, False, False]


def test_the_last_event_is_always_the_end():
    for each in (GOOD, BAD, outcomes.cancelled_outcome(), outcomes.blocked_outcome("h", "no")):
        assert each.last_events()[-1][0] == "end"
    assert [event for event, _ in BAD.last_events()] == ["error", "end"]
    assert [event for event, _ in outcomes.cancelled_outcome().last_events()] == ["end"]


async def test_a_run_that_waited_tells_how_long_it_was_carried_out(served):
    row = await held(served)
    started = time.time() - 2
    await served.write(lambda tx: runs.update_run(tx, row.run_id, started_at=started))
    row = await served.row(row)
    [owed] = await Finisher(served.parts).finish(live_of(served, row), GOOD)
    told = (await served.owed(row))[0].payload
    assert owed.run_id == row.run_id
    assert 1900 < told["duration_ms"] < 10_000
