"""Stopping a session: what it does now is stopped, wherever it is, and nothing that comes later."""

import asyncio

import pytest

from checkrail.runs.errors import ConflictError

from .support import agent_hook, procedural


class Slow:
    """A function that waits until it is let go, and says when somebody is in it."""

    def __init__(self, answer=None):
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.answer = answer or {}

    async def __call__(self, told):
        self.began.set()
        await self.go.wait()
        return self.answer


async def phases(served, *rows):
    return [(await served.over(row)).phase for row in rows]


async def test_a_run_that_is_under_way_is_stopped(world):
    slow = Slow()
    served = await world.open({}, functions={"slow": slow})
    run = await served.admit("slow", {}, keep_thread=True)
    await slow.began.wait()
    assert await served.service.stop_session(run.session_id) == [run.run_id]
    assert await phases(served, run) == ["cancelled"]


async def test_a_run_is_stopped_in_the_middle_of_its_hook(world):
    looking = Slow()
    hook = agent_hook(world.outside, "looker", "on_run_start")
    served = await world.open(
        {},
        agents=[procedural("work", hooks=(hook,))],
        functions={"work": lambda told: {}, "looker": looking},
    )
    run = await served.admit("work", {}, keep_thread=True)
    await looking.began.wait()
    assert await served.service.stop_session(run.session_id) == [run.run_id]
    assert await phases(served, run) == ["cancelled"]


async def test_runs_that_wait_are_stopped_and_none_of_them_begins(world):
    slow = Slow()
    served = await world.open({}, functions={"slow": slow})
    first = await served.admit("slow", {}, keep_thread=True)
    await slow.began.wait()
    slow.began.clear()
    same = {"thread": first.thread_id, "session_id": first.session_id}
    queued = [await served.admit("slow", {}, **same) for _ in range(3)]
    stopped = await served.service.stop_session(first.session_id)
    assert stopped == [row.run_id for row in (first, *queued)]
    assert await phases(served, first, *queued) == ["cancelled"] * 4
    assert not slow.began.is_set()


async def test_a_run_that_no_runner_has_taken_is_stopped(world):
    served = await world.open(
        {}, agents=[procedural("far", demands=("away",))], functions={"far": lambda told: {}}
    )
    run = await served.admit("far", {}, keep_thread=True)
    assert run.phase == "ready"
    await served.service.stop_session(run.session_id)
    assert await phases(served, run) == ["cancelled"]


async def test_between_two_runs_there_is_nothing_to_stop_and_the_next_is_not_touched(world):
    served = await world.open({}, functions={"quick": lambda told: {}})
    first = await served.run("quick", {}, keep_thread=True)
    with pytest.raises(ConflictError, match="does nothing"):
        await served.service.stop_session(first.session_id)
    same = {"thread": first.thread_id, "session_id": first.session_id}
    assert (await served.run("quick", {}, **same)).status == "success"


async def test_other_sessions_go_on(world):
    slow = Slow()
    served = await world.open({}, functions={"slow": slow})
    mine, other = [await served.admit("slow", {}, keep_thread=True) for _ in range(2)]
    await served.service.stop_session(mine.session_id)
    slow.go.set()
    assert await phases(served, mine, other) == ["cancelled", "success"]
