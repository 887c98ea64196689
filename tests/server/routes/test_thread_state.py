"""The routes of a thread's state: read at any checkpoint, written by hand, and its history."""

import dataclasses
import time

import orjson
import pytest
from langgraph.graph import START, MessagesState, StateGraph

from checkrail.runs.graphs.factories import GraphFactory
from checkrail.runs.graphs.loader import Graphs
from checkrail.runs.retention import Retention
from checkrail.store import runs, state_updates, threads

from .thread_support import FOUND, threads_of, unknown

FIELDS = {
    "values",
    "next",
    "tasks",
    "checkpoint",
    "parent_checkpoint",
    "metadata",
    "created_at",
    "interrupts",
}


@pytest.fixture
async def api(served):
    return await threads_of(served)


@pytest.fixture
async def walked(api):
    return await api.walked()


async def state_of(api, thread_id, query=""):
    return await api.get(f"/threads/{thread_id}/state{query}")


async def history_of(api, thread_id, **body):
    return await api.post(f"/threads/{thread_id}/history", {"limit": 10, **body})


async def write(api, thread_id, status=200, **body):
    return await api.post(f"/threads/{thread_id}/state", body, status)


async def test_a_thread_that_never_ran_has_an_empty_state(api):
    for metadata in ({}, {"graph_id": "steps"}):
        made = await api.new(metadata=metadata)
        state = await state_of(api, made)
        assert state.keys() == FIELDS | {f"{each}checkpoint_id" for each in ("", "parent_")}
        assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
        assert (state["checkpoint"], state["metadata"], state["created_at"]) == (None, None, None)
        assert await history_of(api, made) == []
        await api.get(f"/threads/{made}/state/{unknown()}", 404)


async def test_the_state_is_that_of_the_newest_run_s_graph(api, walked):
    await api.served.services.database.write(
        lambda tx: threads.update_thread(tx, walked, metadata={"graph_id": 5})
    )
    state = await state_of(api, walked)
    assert state["values"] == {"log": ["one", "two", "three"]}
    assert (state["next"], state["metadata"]["step"]) == ([], 3)


async def test_history_can_be_read_by_get(api, walked):
    states = await history_of(api, walked)
    path = f"/threads/{walked}/history"
    assert await api.get(path) == await api.post(path, {}) == states[:1]
    assert await api.get(f"{path}?limit=2&before={states[0]['checkpoint_id']}") == states[1:3]
    for wrong in ("x", "0", "1001"):
        await api.get(f"{path}?limit={wrong}", 422)


async def test_history_tells_every_step_and_the_newest_first(api, walked):
    states = await history_of(api, walked)
    assert [state["next"] for state in states] == [[], ["three"], ["two"], ["one"], ["__start__"]]
    assert await history_of(api, walked, limit=2) == states[:2]
    place = states[1]["checkpoint"]
    for before in (place["checkpoint_id"], place, {"configurable": place}):
        assert await history_of(api, walked, before=before) == states[2:]
    (run_id,) = await api.served.services.database.read(
        lambda reads: runs.of_threads(reads, [walked])
    )
    assert await history_of(api, walked, metadata={"run_id": run_id}) == states
    assert await history_of(api, walked, metadata={"run_id": "other"}) == []
    assert await history_of(api, walked, limit=1, select=["next"]) == [{"next": []}]


async def test_an_earlier_state_is_read_by_its_checkpoint(api, walked):
    earlier = (await history_of(api, walked))[2]
    place = earlier["checkpoint"]
    assert await state_of(api, walked, f"/{place['checkpoint_id']}") == earlier
    body = {"checkpoint": place}
    assert await api.post(f"/threads/{walked}/state/checkpoint", body) == earlier
    body["select"] = ["values.log", "next"]
    shown = await api.post(f"/threads/{walked}/state/checkpoint", body)
    assert shown == {"values": {"log": ["one"]}, "next": ["two"]}
    assert await state_of(api, walked, "?select=next&select=values.log") == {
        "next": [],
        "values": {"log": ["one", "two", "three"]},
    }


async def test_an_unknown_checkpoint_is_not_found(api, walked):
    for place in (
        {"checkpoint_id": unknown()},
        {"checkpoint_id": "no uuid"},
        {"checkpoint_ns": f"child:{unknown()}"},
    ):
        await api.post(f"/threads/{walked}/state/checkpoint", {"checkpoint": place}, 404)
        await write(api, walked, 404, values={"note": "x"}, checkpoint=place)
    await write(api, walked, 404, values={"note": "x"}, checkpoint_id=unknown())
    await api.get(f"/threads/{walked}/state/{unknown()}", 404)
    assert len(await history_of(api, walked)) == 5


async def test_a_state_is_written_as_if_a_node_had(api, walked):
    answer = await write(api, walked, values={"log": ["by hand"]}, as_node="one")
    state = await state_of(api, walked)
    place = state["checkpoint"]
    assert answer == {
        "checkpoint": place,
        "configurable": place,
        "checkpoint_id": place["checkpoint_id"],
    }
    assert (state["next"], state["metadata"]["source"]) == (["two"], "update")
    thread = await api.get(f"/threads/{walked}")
    assert thread["values"] == state["values"] == {"log": ["one", "two", "three", "by hand"]}
    assert thread["status"] == "interrupted"
    await write(api, walked, values=None, as_node="__end__")
    assert (await api.get(f"/threads/{walked}"))["status"] == "idle"


async def test_a_write_to_an_earlier_state_is_a_branch(api, walked):
    earlier = (await history_of(api, walked))[2]["checkpoint"]
    await write(api, walked, values={"note": "new"}, checkpoint=earlier)
    state = await state_of(api, walked)
    assert state["values"] == {"log": ["one"], "note": "new"}
    assert state["parent_checkpoint"]["checkpoint_id"] == earlier["checkpoint_id"]
    await write(api, walked, values=None, checkpoint_id=earlier["checkpoint_id"])
    assert (await api.get(f"/threads/{walked}"))["values"] == {"log": ["one"]}


async def test_a_thread_that_names_its_graph_is_written_to_before_it_ran(api):
    made = await api.new(metadata={"graph_id": "steps"})
    await write(api, made, values={"log": ["zero"]}, as_node="__start__")
    thread = await api.get(f"/threads/{made}")
    assert (thread["values"], thread["status"]) == ({"log": ["zero"]}, "interrupted")
    assert (await api.run(made, "steps", input=None)).output["log"][0] == "zero"


async def test_a_thread_without_a_graph_cannot_be_written_to(api):
    refused = await write(api, await api.new(), 422, values={"log": ["x"]})
    assert "graph_id" in refused["message"]


UNFIT = [
    ({"values": {"log": ["x"]}, "as_node": "nobody"}, "nobody"),
    ({"values": [{"log": ["a"]}], "as_node": "three"}, "InvalidUpdateError"),
    ({"values": {"log": 5}, "as_node": "three"}, "TypeError"),
    ({"values": "text"}, "values"),
    ({"values": {}, "as_node": "a\0b"}, "NUL"),
    ({"values": {}, "checkpoint": {"checkpoint_id": 5}}, "checkpoint_id"),
    ({"values": {}, "checkpoint": {"checkpoint_map": {"a": 5}}}, "checkpoint_map"),
]


async def test_what_does_not_fit_the_graph_is_refused_and_changes_nothing(api, walked):
    before = await api.get(f"/threads/{walked}")
    for body, told in UNFIT:
        refused = await write(api, walked, 422, **body)
        assert told in refused["message"]
    assert len(await history_of(api, walked)) == 5
    assert await api.get(f"/threads/{walked}") == before


async def test_messages_are_read_by_the_graph_s_own_rules(api):
    graph = StateGraph(MessagesState).add_node("say", lambda state: {}).add_edge(START, "say")
    services = api.served.services
    found = {"chat": graph.compile()}
    services.graphs.update_from(Graphs(found, services.checkpointer, services.store))
    made = await api.new(metadata={"graph_id": "chat"})
    for wrong in ([{"role": "nobody", "content": "x"}], [{"nothing": 1}], [[]], {"a": {}}):
        await write(api, made, 422, values={"messages": wrong}, as_node="say")
    await write(api, made, values={"messages": [{"role": "user", "content": "hi"}]}, as_node="say")
    (message,) = (await api.get(f"/threads/{made}"))["values"]["messages"]
    assert (message["type"], message["content"]) == ("human", "hi")


async def test_odd_values_are_kept_or_refused(api, walked):
    deep = value = {}
    for _ in range(300):
        value["k"] = value = {}
    headers = {"content-type": "application/json"}
    bodies = [{"note": "a\0b"}, {"note": 2**80}, {"note": deep}, {"log": ["a\0b"]}]
    for body in bodies:
        answer = await api.client.post(f"/threads/{walked}/state", json={"values": body})
        assert answer.status_code in (200, 422), answer.text
        await api.get(f"/threads/{walked}/state")
    for raw in (rb'{"values": {"note": "\ud800"}}', b'{"values": {"note": NaN}}', b"[" * 5000):
        answer = await api.client.post(f"/threads/{walked}/state", content=raw, headers=headers)
        assert answer.status_code in (200, 400, 422), answer.text
        await api.get(f"/threads/{walked}")


async def test_a_state_is_not_written_while_a_run_is_under_way(api):
    made, run_id = await api.underway()
    refused = await write(api, made, 409, values={"note": "x"})
    assert run_id in refused["message"]
    await api.runs.cancel(run_id, "interrupt")
    await api.runs.ended(run_id)
    scheduled = await api.start(made, "steps", input={}, after_seconds=3600)
    await write(api, made, 409, values={"note": "x"})
    await api.runs.cancel(scheduled, "interrupt")
    await write(api, made, values={"note": "x"})


async def test_the_state_can_be_read_while_a_run_is_under_way(api):
    made, run_id = await api.underway()
    assert (await state_of(api, made))["next"] == ["wait"]
    await api.runs.cancel(run_id, "interrupt")
    await api.runs.ended(run_id)


async def test_a_paused_thread_stays_paused_when_written_to(api):
    made = await api.walked("ask")
    before = await api.get(f"/threads/{made}")
    await write(api, made, values={"note": "seen"}, as_node="one")
    after = await api.get(f"/threads/{made}")
    assert (after["status"], after["values"]["note"]) == ("interrupted", "seen")
    assert before["interrupts"] != {}
    assert after["interrupts"] == {}


async def test_the_task_of_a_failed_thread_holds_its_error(api):
    made = await api.walked("failing")
    (task,) = (await state_of(api, made))["tasks"]
    assert (task["name"], "no way" in task["error"]) == ("fail", True)
    await write(api, made, values={"note": "mended"}, as_node="fail")
    thread = await api.get(f"/threads/{made}")
    assert (thread["status"], thread["error"]) == ("idle", None)


async def test_a_paused_subgraph_is_read_written_and_has_its_history(api):
    made = await api.walked("nested")
    (task,) = (await state_of(api, made))["tasks"]
    place = task["checkpoint"]
    assert (task["state"], place["checkpoint_ns"][:6]) == (None, "child:")
    (shown,) = (await state_of(api, made, "?subgraphs=true"))["tasks"]
    assert shown["state"]["next"] == ["ask"]
    body = {"checkpoint": place}
    inner = await api.post(f"/threads/{made}/state/checkpoint", body)
    assert inner["next"] == ["ask"]
    await write(api, made, values={"note": "inside"}, checkpoint=place, as_node="inner")
    states = await history_of(api, made, checkpoint=place)
    assert states[0]["values"]["note"] == "inside"
    assert states[-1]["next"] == ["__start__"]
    assert (await api.get(f"/threads/{made}"))["status"] == "interrupted"


async def test_a_graph_that_is_gone_is_a_conflict_that_names_it(api, walked):
    services = api.served.services
    services.graphs.update_from(Graphs({}, services.checkpointer, services.store))
    for method, below, body in (
        ("GET", "/state", None),
        ("POST", "/state", {"values": {}}),
        ("POST", "/history", {}),
    ):
        refused = await api.call(method, f"/threads/{walked}{below}", body, 409)
        assert "steps" in refused["message"]
    await api.call("DELETE", f"/threads/{walked}", status=204)


async def test_factories_are_told_what_a_graph_is_opened_for(api):
    opened = []

    services = api.served.services

    def factory(config, runtime):
        opened.append((config.get("tags"), runtime.access_context, runtime.user.identity))
        return FOUND["steps"]

    made_by = Graphs(
        {"steps": GraphFactory.from_function(factory, "steps")},
        services.checkpointer,
        services.store,
    )
    services.graphs.update_from(made_by)
    made = await api.new()
    await api.run(made, "steps", config={"tags": ["mine"]})
    opened.clear()
    await state_of(api, made)
    await write(api, made, values={"note": "x"})
    assert opened[:2] == [
        (["mine"], "threads.read", "anonymous"),
        (["mine"], "threads.update", "anonymous"),
    ]


WRONG_HISTORIES = [
    {"limit": 0},
    {"limit": 10**20},
    {"before": {"checkpoint_id": 5}},
    {"before": {}},
    {"before": "a\0b"},
    {"metadata": {"a\0": 1}},
    {"metadata": {"a'b": 1}},
    {"metadata": {"a..b": 1}},
    {"metadata": {"n": 2**80}},
    {"checkpoint": {"checkpoint_ns": "a\0b"}},
    {"select": ["colour"]},
    {"select": ["next.first"]},
]


async def test_what_is_no_history_is_refused(api, walked):
    for wrong in WRONG_HISTORIES:
        await api.post(f"/threads/{walked}/history", wrong, 422)


async def test_unknown_fields_and_odd_ids_are_refused(api, walked):
    await api.get(f"/threads/{walked}/state?select=colour", 422)
    await api.get(f"/threads/{walked}/state/%00", 422)
    await api.get("/threads/not-a-uuid/state", 422)


async def test_a_change_of_state_is_told_by_the_thread(api, walked):
    before, now = await api.get(f"/threads/{walked}"), time.time()
    await write(api, walked, values={"note": "x"})
    row = await api.served.services.database.read(lambda reads: threads.get(reads, walked))
    assert row.state_updated_at >= now
    assert (await api.get(f"/threads/{walked}"))["updated_at"] > before["updated_at"]


async def test_history_may_begin_at_a_checkpoint(api, walked):
    states = await history_of(api, walked)
    place = {"checkpoint_id": states[2]["checkpoint_id"]}
    assert await history_of(api, walked, checkpoint=place) == states[2:]
    assert await history_of(api, walked, checkpoint=place, limit=1) == states[2:3]


async def kept_updates(api, thread_id):
    read = api.served.services.database.read
    return await read(lambda reads: state_updates.after(reads, thread_id, 0, 0))


async def test_a_state_that_was_written_is_kept_until_the_thread_is_pruned_or_gone(api, walked):
    await write(api, walked, values={"note": "x"})
    (update,) = await kept_updates(api, walked)
    told = {"state": await state_of(api, walked), "thread_id": walked}
    assert orjson.loads(update.payload) == told
    await api.post("/threads/prune", {"thread_ids": [walked], "strategy": "keep_latest"})
    assert await kept_updates(api, walked) == []
    await write(api, walked, values={"note": "y"})
    assert [each.number for each in await kept_updates(api, walked)] == [2]
    assert (await api.served.client.delete(f"/threads/{walked}")).is_success
    assert await kept_updates(api, walked) == []


async def test_old_states_that_were_written_are_forgotten_as_events_are(api, walked):
    parts = api.served.services.runs.parts
    await write(api, walked, values={"note": "x"})
    parts.settings = dataclasses.replace(parts.settings, keep_events=3600.0)
    await Retention(parts).clean()
    assert len(await kept_updates(api, walked)) == 1
    parts.settings = dataclasses.replace(parts.settings, keep_events=0.0)
    await Retention(parts).clean()
    assert await kept_updates(api, walked) == []
