"""Hooks as events of their run, wherever it is executed."""

import time
from dataclasses import replace

from checkrail import AssistantMessage, Block, Continue
from checkrail.store import runs
from checkrail.store.tables import workers

from .support import chain, say, told


def hooks_in(events):
    return [(each.event, each.data["hook"]) for each in events if each.event.startswith("hook_")]


async def test_hooks_are_among_the_events_of_their_run_in_order(world):
    async def louder(event, value):
        return Continue({**value, "text": value["text"].upper()})

    async def look(event):
        return None

    hooks = ((louder, "on_run_start", {"name": "louder"}), (look, "on_result", {"name": "look"}))
    served = await world.open({"say": chain(say)}, *hooks)
    run = await served.run("say", {"text": "x"}, await served.thread())
    events = await served.events(run)
    names = [each.event for each in told(events)]
    assert names[:3] == ["metadata", "hook_start", "hook_complete"]
    assert names[-1] == "end"
    assert hooks_in(events) == [
        ("hook_start", "louder"),
        ("hook_complete", "louder"),
        ("hook_start", "look"),
        ("hook_complete", "look"),
    ]
    assert [each.seq for each in events] == [*range(1, len(events) + 1)]
    assert [each.data for each in events if each.event.startswith("hook_")] == (
        await served.records(run)
    )


async def test_a_hook_that_blocks_and_one_that_fails_say_so(world):
    async def shut(event):
        return Block("Not today")

    def broken(event):
        raise ValueError("it broke")

    hooks = (
        (broken, "on_run_start", {"name": "broken", "on_error": "continue"}),
        (shut, "on_run_start", {"name": "shut", "lane": "gate"}),
    )
    served = await world.open({"say": chain(say)}, *hooks)
    run = await served.run("say", {"text": "x"})
    told = {each.event: each.data for each in await served.events(run)}
    assert (told["hook_failed"]["hook"], told["hook_failed"]["failure"]) == ("broken", "error")
    assert told["hook_failed"]["on_error_behavior"] == "continue"
    assert (told["hook_blocked"]["hook"], told["hook_blocked"]["block_reason"]) == (
        "shut",
        "Not today",
    )


async def test_hooks_at_admission_and_at_the_end_are_no_events_of_the_execution(world):
    async def look(event):
        return None

    points = ("before_run", "after_run", "on_run_error")
    served = await world.open({"say": chain(say)}, *((look, point) for point in points))
    run = await served.run("say", {"text": "x"})
    await served.settled(run)
    assert hooks_in(await served.events(run)) == []
    assert len(await served.records(run)) == 4


async def test_hooks_of_a_run_that_somebody_else_executes_come_behind_what_it_told(world):
    async def look(event):
        return None

    served = await world.open(
        {"say": chain(say)}, (look, "before_final_response"), tags=frozenset()
    )
    row = await served.admit("say", {"text": "x"}, demands=("elsewhere",))
    now = time.time()
    somebody = {"worker_id": "somebody", "host": "elsewhere", "pid": 1, "kind": "runner"}
    there = somebody | {"started_at": now, "expires_at": now + 600}
    await served.write(lambda tx: tx.execute(workers.insert(), there))
    held = {"worker_id": "somebody", "phase": "running", "attempt": 1}
    await served.write(lambda tx: runs.update_run(tx, row.run_id, **held))
    scope = served.parts.scope(replace(row, **held))
    await scope.fire("before_final_response", AssistantMessage("done"))
    await served.parts.log.flush()
    events = await served.events(row)
    assert hooks_in(events) == [("hook_start", "look"), ("hook_complete", "look")]
    free = {"worker_id": None, "phase": "ready", "attempt": 0}
    await served.write(lambda tx: runs.update_run(tx, row.run_id, last_seq=events[-1].seq, **free))
    await served.service.cancel(row.run_id, "interrupt")
