"""States of threads in the shape that the SDK's types promise."""

import uuid

import pytest
from langgraph_sdk.schema import Checkpoint, ThreadState, ThreadTask

from checkrail.runs.graphs.state import apply_supersteps, load_history, load_state, update_state

from .support_graphs import ask, chain, greet, part


@pytest.fixture
def graph(saver):
    return chain(greet, ("child", chain(ask)), part, checkpointer=saver)


async def test_a_state_has_every_field_of_the_sdk_s_type(graph, run, thread_id):
    await run(graph, {"said": ["me"]})
    state = await load_state(graph, thread_id)
    older = {"checkpoint_id", "parent_checkpoint_id"}  # read by LangChain's docs and front ends
    assert state.keys() == ThreadState.__annotations__.keys() | older
    assert state["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    assert state["parent_checkpoint_id"] == state["parent_checkpoint"]["checkpoint_id"]
    (task,) = state["tasks"]
    assert task.keys() >= ThreadTask.__annotations__.keys()
    assert state["checkpoint"].keys() == Checkpoint.__annotations__.keys() - {"checkpoint_map"}
    assert (state["next"], task["name"], task["error"]) == (["child"], "child", None)
    assert state["interrupts"] == task["interrupts"]
    assert state["interrupts"] == [{"value": "first?", "id": state["interrupts"][0]["id"]}]
    assert state["values"] == {"said": ["me", "hello"], "count": 1}
    assert state["metadata"]["source"] == "loop"
    assert state["parent_checkpoint"]["thread_id"] == thread_id


async def test_subgraphs_show_where_their_state_is_or_the_state_itself(graph, run, thread_id):
    await run(graph, {"said": ["me"]})
    (pointed,) = (await load_state(graph, thread_id))["tasks"]
    assert pointed["state"] is None
    assert pointed["checkpoint"]["checkpoint_ns"].startswith("child:")
    (shown,) = (await load_state(graph, thread_id, subgraphs=True))["tasks"]
    assert shown["state"]["next"] == ["ask"]
    assert shown["state"]["checkpoint"]["checkpoint_ns"] == pointed["checkpoint"]["checkpoint_ns"]
    inner = await load_state(graph, thread_id, pointed["checkpoint"])
    assert inner["next"] == ["ask"]


async def test_a_thread_without_a_run_has_an_empty_state(graph, thread_id):
    state = await load_state(graph, thread_id)
    assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
    assert (state["checkpoint"], state["checkpoint_id"]) == (None, None)
    assert state["parent_checkpoint"] is None
    assert state["metadata"] is None


async def test_a_failed_task_shows_its_error_as_text(saver, run, thread_id):
    async def fail(state):
        raise ValueError("no")

    graph = chain(fail, checkpointer=saver)
    with pytest.raises(ValueError, match="no"):
        await run(graph, {"said": []})
    (task,) = (await load_state(graph, thread_id))["tasks"]
    assert task["error"] == "ValueError('no')"


async def test_history_is_the_last_first_with_a_limit_and_a_place_to_start(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    ran = await run(graph, {"said": ["me"]})
    states = await load_history(graph, thread_id)
    assert [state["next"] for state in states] == [[], ["part"], ["greet"], ["__start__"]]
    assert len(await load_history(graph, thread_id, limit=2)) == 2
    place = states[1]["checkpoint"]
    for before in (place["checkpoint_id"], place, {"configurable": place}):
        assert await load_history(graph, thread_id, before=before) == states[2:]
    assert len(await load_history(graph, thread_id, metadata={"run_id": ran.run_id})) == 4
    assert await load_history(graph, thread_id, metadata={"run_id": "other"}) == []


async def test_history_of_a_subgraph_is_asked_for_by_its_namespace(graph, run, thread_id):
    await run(graph, {"said": ["me"]})
    (task,) = (await load_state(graph, thread_id))["tasks"]
    states = await load_history(graph, thread_id, checkpoint=task["checkpoint"])
    assert [state["next"] for state in states] == [["ask"], ["__start__"]]


async def test_a_state_is_updated_as_if_a_node_had_written(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    answer = await update_state(
        graph, thread_id, {"said": ["changed"]}, as_node="greet", metadata={"by": "ada"}
    )
    state = await load_state(graph, thread_id)
    place = state["checkpoint"]
    assert answer == {
        "checkpoint": place,
        "configurable": place,
        "checkpoint_id": place["checkpoint_id"],
    }
    assert state["values"]["said"] == ["me", "hello", "bye", "changed"]
    assert (state["next"], state["metadata"]["by"]) == (["part"], "ada")


async def test_an_update_at_an_earlier_checkpoint_forks_there(saver, run, thread_id):
    graph = chain(greet, part, checkpointer=saver)
    await run(graph, {"said": ["me"]})
    early = (await load_history(graph, thread_id))[1]["checkpoint"]
    await update_state(graph, thread_id, {"count": 9}, as_node="greet", checkpoint=early)
    state = await load_state(graph, thread_id)
    assert state["values"] == {"said": ["me", "hello"], "count": 9}
    assert state["parent_checkpoint"]["checkpoint_id"] == early["checkpoint_id"]
    assert (await load_state(graph, thread_id, early))["values"]["count"] == 1


async def test_supersteps_make_the_history_of_a_thread(saver):
    graph, thread_id = chain(greet, part, checkpointer=saver), str(uuid.uuid4())
    supersteps = [
        {"updates": [{"values": {}, "command": None, "as_node": "__input__"}]},
        {"updates": [{"values": {"said": ["me"]}, "as_node": "__start__"}]},
        {"updates": [{"values": {"said": ["hello"]}, "as_node": "greet"}]},
        {"updates": [{"values": None, "command": {"update": {"count": 4}}, "as_node": "part"}]},
    ]
    await apply_supersteps(graph, thread_id, supersteps)
    state = await load_state(graph, thread_id)
    assert state["values"] == {"said": ["me", "hello"], "count": 4}
    assert len(await load_history(graph, thread_id)) == 4
