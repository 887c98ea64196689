"""Questions of hooks in the middle of a run: it goes on when somebody has answered."""

import asyncio

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from checkrail.runs.errors import ConflictError, InvalidError

from .approval_support import approve, asked, asks, deny, questions, told, waiting
from .support import reply, statuses, talk

POINT = "before_llm_call"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def said(run):
    return run.output["messages"][-1]["content"]


async def test_a_run_goes_on_where_it_asked_when_somebody_approves(world):
    async with world.opened({"chat": talk()}, (asks("Call it?"), POINT)) as served:
        run = await served.admit("chat", HELLO, await served.thread())
        row = await waiting(served, run)
        assert row.value["messages"][-1]["content"] == "hello"
        await approve(served, row)
        ended = await served.over(run)
        assert (ended.status, said(ended), ended.attempt) == ("success", "heard hello", 2)
        [row] = await questions(served, run)
        assert (row.status, row.used_at is None) == ("approved", False)
        assert await told(served, run) == [(POINT, "open"), (POINT, "approved")]


async def test_a_no_blocks_the_run(world):
    async with world.opened({"chat": talk()}, (asks(), POINT)) as served:
        run = await served.admit("chat", HELLO)
        await deny(served, await asked(served, run), reason="too dear")
        ended = await served.over(run)
        assert (ended.phase, ended.block_reason) == ("blocked", "too dear")


@pytest.mark.parametrize(("means", "phase"), [("block", "blocked"), ("continue", "success")])
async def test_silence_means_what_the_hook_says(world, means, phase):
    hook = (asks(timeout=0.1, on_timeout=means), POINT)
    async with world.opened({"chat": talk()}, hook) as served:
        run = await served.admit("chat", HELLO)
        assert (await served.over(run)).phase == phase
        assert statuses(await questions(served, run)) == ["expired"]


async def test_fields_of_the_value_can_be_edited_and_others_stay(world):
    async with world.opened({"chat": talk()}, (asks(), POINT)) as served:
        run = await served.admit("chat", HELLO)
        row = await asked(served, run)
        with pytest.raises(InvalidError, match="does not fit"):
            await approve(served, row, value={"messages": "none"})
        await approve(served, row, value={"messages": [{"role": "user", "content": "bye"}]})
        assert said(await served.over(run)) == "heard bye"


async def test_the_time_of_a_run_does_not_pass_while_it_asks(world):
    async with world.opened({"chat": talk()}, (asks(), POINT)) as served:
        run = await served.admit("chat", HELLO, timeout_seconds=3)
        row = await asked(served, run)
        await asyncio.sleep(3.2)  # longer than it may take
        await approve(served, row)
        assert (await served.over(run)).status == "success"


async def test_a_run_that_asks_can_be_cancelled(world):
    async with world.opened({"chat": talk()}, (asks(), POINT)) as served:
        run = await served.admit("chat", HELLO)
        row = await asked(served, run)
        await served.service.cancel(run.run_id, "interrupt")
        assert (await served.over(run)).phase == "cancelled"
        assert statuses(await questions(served, run)) == ["void"]
        with pytest.raises(ConflictError, match="not asked any more"):
            await approve(served, row)


async def test_an_answer_that_came_while_nobody_was_there_is_found_by_its_value(world):
    hook = (asks(), POINT)
    async with world.opened({"chat": talk()}, hook, stop_grace=0) as first:
        run = await first.admit("chat", HELLO, await first.thread())
        row = await asked(first, run)
    async with world.opened({"chat": talk()}, hook, capacity=0) as second:
        await approve(second, row)
    async with world.opened({"chat": talk()}, hook) as third:
        ended = await third.over(run)
        assert (ended.status, ended.attempt) == ("success", 2)
        [row] = await questions(third, run)
        assert row.used_at is not None


async def test_calls_that_are_alike_need_an_answer_each(world):
    both = StateGraph(MessagesState)
    for name in ("left", "right"):
        both.add_node(name, reply)
        both.add_edge(START, name)
    async with world.opened({"both": both.compile()}, (asks(), POINT)) as served:
        run = await served.admit("both", HELLO)
        await asked(served, run, 2)
        one, two = await questions(served, run)
        assert one.digest == two.digest
        await approve(served, one)
        await approve(served, two)
        assert (await served.over(run)).status == "success"


async def test_each_time_is_asked_anew(world):
    async with world.opened({"twice": talk(again)}, (asks(), POINT)) as served:
        run = await served.admit("twice", HELLO)
        await approve(served, await asked(served, run))
        await approve(served, await asked(served, run, 2))
        assert (await served.over(run)).status == "success"
        assert all(row.used_at for row in await questions(served, run))


async def again(state):
    return await reply({"messages": state["messages"][:1]})


async def test_an_answer_that_another_server_takes_wakes_the_run(postgres_world):
    here = await postgres_world.open({"chat": talk()}, (asks(), POINT))
    there = await postgres_world.open({"chat": talk()}, (asks(), POINT), capacity=0)
    run = await here.admit("chat", HELLO)
    await approve(there, await asked(there, run))
    assert said(await there.over(run)) == "heard hello"
