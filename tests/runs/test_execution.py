"""Carrying out runs: what they come to, and what is kept of them."""

import asyncio
import json

import pytest
from langgraph.graph import MessagesState

from .support import USED, Gate, ask, chain, fail, graph_agent, reply, say, talk, until

SOON = [graph_agent("slow", timeout_seconds=1)]


async def test_a_run_comes_to_the_values_of_its_graph(world):
    served = await world.open({"say": chain(say)})
    thread = await served.thread()
    row = await served.run("say", {"text": "hello"}, thread)
    assert (row.status, row.phase, row.attempt) == ("success", "success", 1)
    assert row.output == {"text": "hello", "said": ["hello"]}
    kept = await served.row(row)
    assert kept.output == row.output
    assert kept.worker_id is None
    assert kept.ended_at >= kept.started_at >= kept.created_at


async def test_a_thread_keeps_the_values_and_is_idle_again(world):
    served = await world.open({"say": chain(say)})
    thread = await served.thread()
    await served.run("say", {"text": "one"}, thread)
    await served.run("say", {"text": "two"}, thread)
    row = await served.thread_row(thread)
    assert (row.status, row.values) == ("idle", {"text": "two", "said": ["one", "two"]})
    assert row.metadata["graph_id"] == "say"


async def test_a_run_without_a_thread_leaves_no_thread_and_no_checkpoint(world):
    served = await world.open({"say": chain(say)})
    row = await served.run("say", {"text": "hello"})
    assert row.output["said"] == ["hello"]
    assert await served.thread_row(row.thread_id) is None

    async def gone():
        return not await served.state("say", row.thread_id)

    assert await until(gone, "the checkpoints to go")


async def test_a_graph_that_raises_ends_its_run_as_an_error_with_what_it_said(world):
    served = await world.open({"fail": chain(say, fail)})
    thread = await served.thread()
    row = await served.run("fail", {"text": "no luck"}, thread)
    assert (row.status, row.phase) == ("error", "error")
    assert (row.error, row.error_type) == ("no luck", "ValueError")
    left = await served.thread_row(thread)
    told = {"error": "ValueError", "message": "no luck"}
    assert (left.status, json.loads(left.error)) == ("error", told)
    assert left.values == {"text": "no luck", "said": ["no luck"]}
    error, end = (await served.events(row))[-2:]
    assert (error.event, error.data) == ("error", {"error": "ValueError", "message": "no luck"})
    assert (end.event, end.data["status"], end.data["error"]) == ("end", "error", "no luck")


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 a pair"], ids=["nul", "surrogate"])
async def test_an_error_that_no_database_can_keep_as_it_is_ends_its_run_once(world, text):
    served = await world.open({"fail": chain(fail)})

    async def broken(state):
        raise ValueError(text)

    served.parts.graphs.update_from(type(served.parts.graphs)({"fail": chain(broken)}))
    row = await served.run("fail", {}, await served.thread())
    assert (row.status, row.error_type, row.attempt) == ("error", "ValueError", 1)


async def test_an_output_with_text_that_no_database_can_keep_is_kept_all_the_same(world):
    async def odd(state):
        return {"said": ["a\0b", "\ud800"]}

    served = await world.open({"odd": chain(odd)})
    thread = await served.thread()
    row = await served.run("odd", {"text": "x"}, thread)
    assert (row.status, row.output["said"]) == ("success", ["a\0b", "?"])
    assert (await served.thread_row(thread)).values["said"] == ["a\0b", "?"]


async def test_a_run_that_waits_is_interrupted_and_so_is_its_thread(world):
    served = await world.open({"ask": chain(ask)})
    thread = await served.thread()
    row = await served.run("ask", {"text": "x"}, thread)
    assert (row.status, row.phase) == ("interrupted", "interrupted")
    [asked] = row.output["__interrupt__"]
    assert asked["value"] == {"question": "go on?"}
    left = await served.thread_row(thread)
    assert left.status == "interrupted"
    [[of_thread]] = left.interrupts.values()
    assert asked == of_thread | {"response_schema": None}


async def test_an_answer_goes_on_as_a_new_run(world):
    served = await world.open({"ask": chain(ask)})
    thread = await served.thread()
    first = await served.run("ask", {"text": "x"}, thread)
    second = await served.run("ask", None, thread, command={"resume": "yes"})
    assert second.run_id != first.run_id
    assert (second.status, second.output["said"]) == ("success", ["yes"])
    left = await served.thread_row(thread)
    assert (left.status, left.interrupts) == ("idle", {})


async def test_a_run_that_takes_too_long_ends_as_a_timeout(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph(say)}, agents=SOON)
    thread = await served.thread()
    row = await served.run("slow", {"text": "x"}, thread)
    assert (row.status, row.phase, row.error_type) == (
        "timeout",
        "timeout",
        "TimeoutError",
    )
    assert row.error == "the run took longer than 1 s"
    assert row.unwound is True
    left = await served.thread_row(thread)
    assert (left.status, left.values["said"]) == ("error", ["x"])


async def test_a_body_that_does_not_stop_is_left_behind_after_its_grace(world):
    gate = Gate()
    gate.stubborn = True
    agents = [graph_agent("slow", timeout_seconds=2)]  # enough for the second run
    served = await world.open({"slow": gate.graph()}, agents=agents, cancel_grace=0.05)
    thread = await served.thread()
    row = await served.run("slow", {"text": "x"}, thread)
    assert (row.status, row.unwound) == ("timeout", False)
    gate.open.set()
    assert (await served.run("slow", {"text": "y"}, thread)).status == "success"
    assert (await served.row(row)).status == "timeout"


async def test_what_a_model_used_is_kept_by_its_name(world):
    served = await world.open({"talk": talk()})
    row = await served.run("talk", {"messages": [{"role": "user", "content": "hi"}]})
    assert (await served.row(row)).usage == USED


async def test_what_was_used_before_an_error_is_kept_too(world):
    served = await world.open({"talk": talk(fail)})
    row = await served.run("talk", {"messages": [{"role": "user", "content": "hi"}]})
    assert (row.status, (await served.row(row)).usage) == ("error", USED)


async def test_what_was_used_before_a_cancel_is_kept_too(world):
    gate = Gate()
    graph = chain(reply, gate.pass_through, state=MessagesState)
    served = await world.open({"talk": graph})
    row = await served.admit("talk", {"messages": [{"role": "user", "content": "hi"}]})
    await gate.entered.wait()
    await served.service.cancel(row.run_id, "interrupt")
    ended = await served.over(row)
    assert (ended.phase, (await served.row(row)).usage) == ("cancelled", USED)


async def test_no_more_runs_are_under_way_at_once_than_there_is_room_for(world):
    gate = Gate()
    served = await world.open({"slow": gate.graph()}, capacity=3)
    rows = await asyncio.gather(*(served.admit("slow", {"text": str(n)}) for n in range(12)))

    async def is_full():
        return gate.count >= 3

    await until(is_full)
    await asyncio.sleep(0.1)
    assert gate.count == 3
    gate.open.set()
    assert {(await served.over(row)).status for row in rows} == {"success"}
    assert gate.count == 12


async def test_a_server_that_closes_hands_back_what_it_could_not_finish(world):
    gate = Gate()
    async with world.opened({"slow": gate.graph(say)}) as first:
        thread = await first.thread()
        row = await first.admit("slow", {"text": "x"}, thread)
        await gate.entered.wait()
    gate.open.set()
    second = await world.open({"slow": gate.graph(say)})
    ended = await second.over(row)
    assert (ended.status, ended.attempt, ended.lost) == ("success", 2, 0)
    assert ended.output["said"] == ["x", "x passed"]
