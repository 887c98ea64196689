"""The event protocol: stored events as envelopes."""

import pytest
from langgraph.types import Command

from checkrail.server.streams.protocol import SLOTS, ProtocolView, cursor_of, thread_seq_of
from checkrail.store.events import RunEvent

from .support import agent, asking_look, failing_look, of, parent, read, stored


def started(run_id="r1", seq=1, attempt=1):
    return RunEvent(seq, "metadata", (), {"run_id": run_id, "attempt": attempt})


def told(*events):
    """Number events, put a beginning before them, and read them."""
    given = [RunEvent(n, name, ns, data) for n, (name, ns, data) in enumerate(events, 2)]
    return read(ProtocolView("r1"), [started(), *given])


def ended(status, **more):
    return "end", (), {"status": status, "phase": status, **more}


async def test_an_envelope_has_the_shape_that_clients_know():
    view = ProtocolView("r1", base_seq=10, timestamp=5)
    view.feed(started())
    (envelope,) = view.feed(RunEvent(2, "values", (), {"a": 1}), timestamp=7)
    assert envelope == {
        "type": "event",
        "event_id": "r1:2:0",
        "seq": 12 * SLOTS,
        "method": "values",
        "params": {"namespace": [], "timestamp": 7, "data": {"a": 1}},
    }


async def test_numbers_increase_over_the_runs_of_a_thread_and_ids_are_unique():
    graph = parent()
    first, second = await stored(graph), await stored(graph)
    envelopes = read(ProtocolView("r1"), first)
    envelopes += read(ProtocolView("r2", base_seq=len(first)), second)
    numbers = [one["seq"] for one in envelopes]
    assert numbers == sorted(set(numbers))
    assert len({one["event_id"] for one in envelopes}) == len(envelopes)


async def test_the_same_events_always_give_the_same_envelopes():
    events = await stored(parent(asking_look))
    assert read(ProtocolView("r1"), events) == read(ProtocolView("r1"), events)


def test_a_cursor_stands_between_two_stored_events():
    view = ProtocolView("r1", base_seq=3)
    envelopes = read(view, [started(), RunEvent(2, "values", (), {})])
    assert [thread_seq_of(one["seq"]) for one in envelopes] == [4, 4, 5]
    assert envelopes[1]["seq"] <= cursor_of(4) < envelopes[2]["seq"]


def test_more_envelopes_than_an_event_has_numbers_for_never_reach_into_the_next_event():
    update = {f"node-{n}": {"n": n} for n in range(SLOTS + 10)}
    envelopes = told(("updates", (), update), ("values", (), {}))
    numbers = [one["seq"] for one in envelopes]
    assert numbers == sorted(numbers)
    assert numbers[-1] > numbers[-2]
    assert len({one["event_id"] for one in envelopes}) == len(envelopes)


async def test_a_run_that_goes_well_starts_runs_and_completes():
    envelopes = read(ProtocolView("r1", graph_name="main"), await stored(agent()))
    first, second, last = of(envelopes, "lifecycle", [])
    assert (first, second) == (
        {"event": "started", "graph_name": "main"},
        {"event": "running", "graph_name": "main"},
    )
    assert last["event"] == "completed"
    assert last["checkpoint"]["id"] == of(envelopes, "checkpoints", [])[-1]["id"]
    assert envelopes[-1]["params"]["data"] is last


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (ended("error", error="boom"), "boom"),
        (ended("error"), "the run failed"),
        (ended("timeout"), "the run timed out"),
        (("end", (), {"status": "interrupted", "phase": "cancelled"}), "the run was cancelled"),
        (("end", (), {"status": "error", "phase": "blocked", "error": "not paid"}), "not paid"),
    ],
)
def test_every_bad_end_is_failed_with_an_error(end, error):
    assert of(told(end), "lifecycle")[-1] == {"event": "failed", "error": error}


def test_an_error_that_was_told_before_the_end_is_what_failed_says():
    envelopes = told(("error", (), {"error": "KeyError", "message": "no"}), ended("error"))
    assert of(envelopes, "lifecycle")[-1] == {"event": "failed", "error": "no"}
    assert len(envelopes) == 3


def test_a_run_that_was_refused_before_it_began_fails_all_the_same():
    view = ProtocolView("r1")
    envelopes = view.feed(RunEvent(1, "end", (), {"status": "error", "error": "not paid"}))
    assert of(envelopes, "lifecycle") == [{"event": "failed", "error": "not paid"}]


async def test_a_graph_that_raises_fails_with_its_message_and_so_does_its_subgraph():
    envelopes = read(ProtocolView("r1"), await stored(parent(failing_look)))
    inner, outer = of(envelopes, "lifecycle")[-2:]
    assert inner["event"] == outer["event"] == "failed"
    assert "nothing about x" in inner["error"]
    assert outer["error"] == "nothing about x"
    assert of(envelopes, "tools")[-1]["event"] == "tool-error"


async def test_a_subgraph_starts_before_what_it_tells_and_completes_after_it():
    envelopes = read(ProtocolView("r1"), await stored(parent()))
    (start,) = [
        at
        for at, one in enumerate(envelopes)
        if one["method"] == "lifecycle" and one["params"]["data"]["event"] == "started"
        and one["params"]["namespace"]
    ]  # fmt: skip
    namespace = envelopes[start]["params"]["namespace"]
    heard = [at for at, one in enumerate(envelopes) if one["params"]["namespace"] == namespace]
    after = [at for at in heard if envelopes[at]["method"] not in ("values", "checkpoints")]
    assert after[0] == start
    life = of(envelopes, "lifecycle", namespace)
    assert [one["event"] for one in life] == ["started", "completed"]
    assert life[0]["graph_name"] == "helper"
    assert envelopes[heard[-1]]["params"]["data"] == life[1]


def test_a_subgraph_that_a_tool_started_says_which_call_it_was():
    call = {"tool_call": {"id": "call-7", "name": "ask", "args": {}}}
    envelopes = told(
        ("tasks", (), {"id": "t1", "name": "tools", "input": call, "triggers": []}),
        ("tasks", ("tools:t1",), {"id": "t2", "name": "model", "input": {}, "triggers": []}),
        ("tasks", (), {"id": "t1", "name": "tools", "result": {}, "error": None, "interrupts": []}),
    )
    begun, over = of(envelopes, "lifecycle", ["tools:t1"])
    assert begun["cause"] == {"type": "toolCall", "tool_call_id": "call-7"}
    assert over["event"] == "completed"


def test_a_subgraph_is_known_from_where_events_come_from_if_there_are_no_tasks():
    envelopes = told(("updates", ("a:1", "b:2"), {"n": {}}), ended("success"))
    lives = [
        (one["params"]["namespace"], one["params"]["data"]["event"])
        for one in envelopes
        if one["method"] == "lifecycle" and one["params"]["namespace"]
    ]
    assert lives == [
        (["a:1"], "started"),
        (["a:1", "b:2"], "started"),
        (["a:1", "b:2"], "completed"),
        (["a:1"], "completed"),
    ]


def test_what_an_executor_says_about_a_subgraph_is_told_once():
    life = {"event": "started", "namespace": ["a:1"], "graph_name": "inner"}
    envelopes = told(
        ("lifecycle", (), life),
        ("tasks", ("a:1",), {"id": "t2", "name": "n", "input": {}, "triggers": []}),
        ("lifecycle", (), {"event": "completed", "namespace": ["a:1"]}),
        ("tasks", (), {"id": "1", "name": "a", "result": {}, "error": None, "interrupts": []}),
    )
    assert of(envelopes, "lifecycle", ["a:1"]) == [
        {"event": "started", "graph_name": "inner"},
        {"event": "completed", "graph_name": "inner"},
    ]


async def test_the_tree_shows_the_run_and_its_subgraphs():
    view = ProtocolView("r1", graph_name="main")
    read(view, await stored(parent()))
    tree = view.tree()
    assert (tree["graph_name"], tree["status"]) == ("main", "completed")
    (child,) = tree["children"]
    assert (child["graph_name"], child["status"]) == ("helper", "completed")


async def test_an_interrupt_is_asked_once_from_where_it_was_raised_when_the_run_has_paused():
    events = await stored(parent(asking_look))
    envelopes = read(ProtocolView("r1"), events)
    (request,) = [one for one in envelopes if one["method"] == "input.requested"]
    data = request["params"]["data"]
    assert data == {
        "interrupt_id": events[-1].data["interrupts"][0]["id"],
        "payload": {"ask": "x"},
        "value": {"ask": "x"},
    }
    assert request["params"]["namespace"][0].startswith("child:")
    assert [one["method"] for one in envelopes[-2:]] == ["input.requested", "lifecycle"]
    assert envelopes[-1]["params"]["data"]["event"] == "interrupted"
    inner = of(envelopes, "lifecycle", request["params"]["namespace"])
    assert [one["event"] for one in inner] == ["started", "interrupted"]


async def test_interrupts_are_in_no_other_envelope():
    envelopes = read(ProtocolView("r1"), await stored(parent(asking_look)))
    assert not [one for one in of(envelopes, "values") if "__interrupt__" in one]
    assert not [one for one in of(envelopes, "updates") if one.get("node") == "__interrupt__"]


async def test_a_resumed_run_does_not_ask_what_was_answered():
    graph = parent(asking_look)
    await stored(graph)
    envelopes = read(ProtocolView("r2", base_seq=40), await stored(graph, Command(resume="yes")))
    assert of(envelopes, "input.requested") == []
    assert of(envelopes, "lifecycle", [])[-1]["event"] == "completed"
    assert of(envelopes, "values", [])[-1]["messages"][2]["content"] == "saw yes"


def test_a_run_that_fails_after_an_interrupt_was_raised_asks_nobody():
    interrupt = {"__interrupt__": [{"id": "i1", "value": "sure?"}]}
    assert of(told(("updates", (), interrupt), ended("error")), "input.requested") == []


def test_the_end_of_a_run_knows_which_interrupts_are_open():
    both = {"__interrupt__": [{"id": "i1", "value": 1}, {"id": "i2", "value": 2}]}
    end = ended("interrupted", interrupts=[{"id": "i2", "value": 2}])
    requests = of(told(("updates", (), both), end), "input.requested")
    assert [one["interrupt_id"] for one in requests] == ["i2"]


async def test_updates_name_their_node():
    envelopes = read(ProtocolView("r1"), await stored(agent()))
    updates = of(envelopes, "updates", [])
    assert [one["node"] for one in updates] == ["model", "tools", "model"]
    assert updates[1]["values"]["messages"][0]["content"] == "saw x"


def test_a_node_that_returned_nothing_updated_nothing():
    assert of(told(("updates", (), {"n": None})), "updates") == [{"node": "n", "values": {}}]


async def test_checkpoints_say_their_ids_step_and_source():
    found = of(read(ProtocolView("r1"), await stored(agent())), "checkpoints", [])
    assert [(one["step"], one["source"]) for one in found[:2]] == [(-1, "input"), (0, "loop")]
    assert "parent_id" not in found[0]
    assert found[1]["parent_id"] == found[0]["id"]


def test_checkpoints_are_read_as_the_api_writes_them_too():
    given = {
        "checkpoint": {"checkpoint_id": "c2"},
        "parent_checkpoint": {"checkpoint_id": "c1"},
        "metadata": {"step": 1, "source": "loop"},
    }
    (found,) = of(told(("checkpoints", (), given)), "checkpoints")
    assert found == {"id": "c2", "step": 1, "source": "loop", "parent_id": "c1"}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("half way", {"payload": "half way"}),
        ({"n": 1}, {"payload": {"n": 1}}),
        ({"name": "p", "payload": [1]}, {"name": "p", "payload": [1]}),
        ({"name": "p", "n": 1}, {"name": "p", "payload": {"name": "p", "n": 1}}),
    ],
)
def test_what_a_node_writes_is_a_payload_with_a_name_if_it_gives_one(written, sent):
    assert of(told(("custom", (), written)), "custom") == [sent]


def test_what_a_tool_says_on_the_way_is_text():
    delta = {"event": "tool-output-delta", "tool_call_id": "c", "delta": {"n": 1}}
    assert of(told(("tools", (), delta)), "tools")[0]["delta"] == '{"n":1}'


def test_a_further_attempt_goes_on_and_closes_what_the_lost_one_left_open():
    chunk = {"type": "AIMessageChunk", "id": "m", "content": "He"}
    envelopes = told(
        ("messages", ("a:1",), [chunk, {}]),
        ("metadata", (), {"run_id": "r1", "attempt": 2}),
        ended("success"),
    )
    assert of(envelopes, "messages")[-1]["event"] == "error"
    assert [one["event"] for one in of(envelopes, "lifecycle", ["a:1"])] == ["started", "failed"]
    root = [one["event"] for one in of(envelopes, "lifecycle", [])]
    assert root == ["started", "running", "running", "completed"]


def test_modes_that_the_protocol_does_not_know_are_left_out():
    assert told(("debug", (), {}), ("events", (), {})) == read(ProtocolView("r1"), [started()])
