"""What the savers lack, done on their real tables."""

import asyncio
import uuid
from typing import Annotated, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command

from checkrail.runs.graphs.checkpoints import (
    copy_thread,
    delete_run,
    delete_thread,
    latest_of_run,
    open_own_checkpointer,
    prune_threads,
)
from checkrail.runs.graphs.thread_rows import _open_transaction, hold_head, restore_head

from .support_graphs import ask, at, chain, greet, part


async def states(graph, thread_id):
    return [state async for state in graph.aget_state_history(at(thread_id))]


async def standing(graph, thread_id):
    state = await graph.aget_state(at(thread_id), subgraphs=True)
    return state.values, state.next, state.interrupts, [task.state for task in state.tasks]


async def rows(saver, table, thread_id):
    async with _open_transaction(saver) as (execute, _):
        counted = f"SELECT count(*) FROM {table} WHERE thread_id = :thread"
        return (await execute(counted, {"thread": thread_id}))[0][0]


async def left(saver, thread_id):
    async with _open_transaction(saver) as (_, tables):
        names = tables.names
    return [await rows(saver, name, thread_id) for name in names]


@pytest.fixture
def asking(saver):
    """A graph whose subgraph asks two questions."""
    return chain(greet, ("child", chain(ask)), part, checkpointer=saver)


async def test_a_copied_thread_has_the_history_and_goes_on_by_itself(saver, run, thread_id):
    graph, copy = chain(greet, part, checkpointer=saver), str(uuid.uuid4())
    await run(graph, {"said": ["me"]})
    await copy_thread(saver, thread_id, copy)
    assert await standing(graph, copy) == await standing(graph, thread_id)
    assert len(await states(graph, copy)) == len(await states(graph, thread_id))
    await run(graph, {"said": ["again"]}, thread_id=copy)
    assert (await graph.aget_state(at(copy))).values["count"] == 2
    assert (await graph.aget_state(at(thread_id))).values["count"] == 1


async def test_a_copied_thread_that_waits_can_be_answered_in_both(asking, saver, run, thread_id):
    await run(asking, {"said": ["me"]})
    copy = str(uuid.uuid4())
    await copy_thread(saver, thread_id, copy)
    for thread in (copy, thread_id):
        await run(asking, command={"resume": "one"}, thread_id=thread)
        ended = await run(asking, command={"resume": "two"}, thread_id=thread)
        assert ended.outcome.values["said"][-3:] == ["one", "two", "bye"]


async def test_a_deleted_thread_leaves_nothing_behind(asking, saver, run, thread_id):
    await run(asking, {"said": ["me"]})
    await run(asking, command={"resume": "one"})
    await delete_thread(saver, thread_id)
    assert not any(await left(saver, thread_id))
    assert not any(await left(saver, f"before:{thread_id}"))


async def test_taking_back_a_first_run_leaves_an_empty_thread(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    ran = await run(graph, {"said": ["me"]})
    await delete_run(saver, thread_id, ran.run_id)
    assert (await graph.aget_state(at(thread_id))).values == {}
    assert not any(await left(saver, thread_id))


async def test_taking_back_a_later_run_gives_the_state_before_it(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    before, counted = await standing(graph, thread_id), await left(saver, thread_id)
    ran = await run(graph, {"said": ["me again"]})
    await delete_run(saver, thread_id, ran.run_id)
    assert await standing(graph, thread_id) == before
    assert await left(saver, thread_id) == counted


@pytest.mark.parametrize("answered", [0, 1])
async def test_taking_back_an_answer_asks_the_same_question_again(
    asking, saver, run, thread_id, answered
):
    await run(asking, {"said": ["me"]})
    for answer in ["one"][:answered]:
        await run(asking, command={"resume": answer})
    before = await standing(asking, thread_id)
    wrong = await run(asking, command={"resume": "wrong"})
    await delete_run(saver, thread_id, wrong.run_id)
    assert await standing(asking, thread_id) == before
    for answer in ["one", "two"][answered:]:
        ended = await run(asking, command={"resume": answer})
    assert ended.outcome.values["said"][-3:] == ["one", "two", "bye"]


async def test_taking_back_a_run_that_went_on_after_a_breakpoint_stops_there_again(
    saver, run, thread_id
):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]}, interrupt_before=["part"])
    before = await standing(graph, thread_id)
    ran = await run(graph)
    assert ran.outcome.next == []
    await delete_run(saver, thread_id, ran.run_id)
    assert await standing(graph, thread_id) == before
    assert before[1] == ("part",)


async def test_taking_back_a_cancelled_run_removes_what_it_had_written(saver, run, thread_id):
    reached = asyncio.Event()

    async def hang(state):
        reached.set()
        await asyncio.Event().wait()

    graph = chain(greet, hang, checkpointer=saver)
    run_id = str(uuid.uuid4())
    task = asyncio.create_task(run(graph, {"said": ["me"]}, run_id=run_id))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await latest_of_run(saver, thread_id, run_id)
    await delete_run(saver, thread_id, run_id)
    assert not any(await left(saver, thread_id))


async def test_taking_back_one_run_leaves_other_threads_alone(saver, run, thread_id):
    graph, other = chain(greet, checkpointer=saver), str(uuid.uuid4())
    await run(graph, {"said": ["me"]}, thread_id=other)
    counted = await left(saver, other)
    ran = await run(graph, {"said": ["me"]})
    await delete_run(saver, other, ran.run_id)
    await delete_run(saver, thread_id, ran.run_id)
    assert await left(saver, other) == counted


async def test_the_last_checkpoint_of_a_run_is_found_by_its_id(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    first = await run(graph, {"said": ["me"]})
    found = await latest_of_run(saver, thread_id, first.run_id)
    state = await graph.aget_state(at(thread_id))
    assert found["checkpoint_id"] == state.config["configurable"]["checkpoint_id"]
    await run(graph, {"said": ["again"]})
    assert await latest_of_run(saver, thread_id, first.run_id) == found
    assert await latest_of_run(saver, thread_id, str(uuid.uuid4())) is None


async def test_pruning_keeps_the_latest_state_only(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    await run(graph, {"said": ["me"]})
    before = (await graph.aget_state(at(thread_id))).values
    await prune_threads(saver, [thread_id])
    (only,) = await states(graph, thread_id)
    assert only.values == before
    assert only.parent_config is None
    again = await run(graph, {"said": ["me"]})
    assert again.outcome.values["count"] == 3


async def test_a_pruned_thread_that_waits_can_still_be_answered(asking, saver, run, thread_id):
    await run(asking, {"said": ["me"]})
    await run(asking, command={"resume": "one"})
    await run(asking, command={"resume": "two"})
    await run(asking, {"said": ["me"]})
    await run(asking, command={"resume": "one"})
    before = await standing(asking, thread_id)
    await prune_threads(saver, [thread_id])
    after = await standing(asking, thread_id)
    assert after[:3] == before[:3]
    ended = await run(asking, command={"resume": "two"})
    assert ended.outcome.values["said"][-3:] == ["one", "two", "bye"]


async def test_pruning_can_delete_everything(saver, run, thread_id):
    graph = chain(greet, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    await prune_threads(saver, [thread_id], keep_latest=False)
    assert not any(await left(saver, thread_id))


async def test_an_answer_given_in_the_library_is_no_run_of_ours(asking, saver, run, thread_id):
    await run(asking, {"said": ["me"]})
    await asking.ainvoke(Command(resume="one"), at(thread_id))
    before = await standing(asking, thread_id)
    await delete_run(saver, thread_id, str(uuid.uuid4()))
    assert await standing(asking, thread_id) == before


class Deltas(TypedDict):
    said: Annotated[list, DeltaChannel(lambda said, more: [*said, *(w for x in more for w in x)])]


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_a_thread_that_is_kept_as_changes_is_taken_back_too(
    saver, run, thread_id, durability
):
    graph = chain(part, state=Deltas, checkpointer=saver)
    await run(graph, {"said": ["me"]}, durability=durability)
    before, counted = await standing(graph, thread_id), await left(saver, thread_id)
    ran = await run(graph, {"said": ["wrong"]}, durability=durability)
    await delete_run(saver, thread_id, ran.run_id)
    assert await standing(graph, thread_id) == before
    assert await left(saver, thread_id) == counted
    await run(graph, {"said": ["right"]}, durability=durability)
    kept = (await graph.aget_state(at(thread_id))).values["said"]
    assert kept == ["me", "bye", "right", "bye"]


async def test_a_thread_that_is_kept_as_changes_cannot_be_pruned(saver, run, thread_id):
    graph = chain(part, state=Deltas, checkpointer=saver)
    before = (await run(graph, {"said": ["me"]})).outcome.values
    with pytest.raises(NotImplementedError, match="DeltaChannel"):
        await prune_threads(saver, [thread_id])
    assert (await graph.aget_state(at(thread_id))).values == before


async def test_what_fails_half_way_changes_nothing(saver, run, thread_id):
    graph = chain(greet, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    before = await left(saver, thread_id)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await copy_thread(saver, thread_id, thread_id)
    assert await left(saver, thread_id) == before
    assert (await run(graph, {"said": ["me"]})).outcome.values["count"] == 2


@pytest.fixture(params=["in memory", "one connection"])
async def own_saver(request):
    """A saver that a project brings, which has no pool of connections, or no tables at all."""
    if request.param == "in memory":
        async with open_own_checkpointer(InMemorySaver) as saver:
            yield saver
        return
    postgres = request.getfixturevalue("postgres")
    url = postgres.fresh()
    async with open_own_checkpointer(AsyncPostgresSaver.from_conn_string(url)) as saver:
        await saver.setup()
        yield saver
    postgres.drop(url)


async def test_a_run_is_found_and_a_thread_deleted_in_a_saver_of_the_projects_own(
    own_saver, run, thread_id
):
    graph = chain(greet, part, checkpointer=own_saver)
    first = await run(graph, {"said": ["me"]})
    ran = await run(graph, {"said": ["again"]})
    found = await latest_of_run(own_saver, thread_id, ran.run_id)
    [newest, *_] = await states(graph, thread_id)
    assert found["checkpoint_id"] == newest.config["configurable"]["checkpoint_id"]
    older = await latest_of_run(own_saver, thread_id, first.run_id)
    assert older["checkpoint_id"] < found["checkpoint_id"]
    assert await latest_of_run(own_saver, thread_id, "another") is None
    await hold_head(own_saver, thread_id, "another")
    await restore_head(own_saver, thread_id, "another")
    await delete_thread(own_saver, thread_id)
    assert await states(graph, thread_id) == []


@pytest.mark.parametrize("change", [copy_thread, delete_run, prune_threads])
async def test_what_a_saver_of_the_projects_own_lacks_is_said(change):
    async with open_own_checkpointer(InMemorySaver) as saver:
        with pytest.raises(NotImplementedError, match="InMemorySaver, has no `a"):
            await (change(saver, ["t"]) if change is prune_threads else change(saver, "t", "u"))
