"""Lives of subgraphs, from tasks as LangGraph streams them."""

import pytest

from checkrail.runs.graphs.execution import SubgraphLifecycle

CHILD = ("child:t1",)


@pytest.fixture
def told():
    return []


@pytest.fixture
def lives(told):
    return SubgraphLifecycle(lambda event, ns, data: told.append((ns, data)))


def start(id, name, **more):
    return {"id": id, "name": name, "input": {}, "triggers": [], **more}


def result(id, name, **more):
    return {"id": id, "name": name, "result": {}, "error": None, "interrupts": [], **more}


def test_a_subgraph_starts_with_its_first_task_and_ends_with_its_own(lives, told):
    lives.feed((), start("t1", "child"))
    assert told == []
    for task in ("t2", "t3"):
        lives.feed(CHILD, start(task, "inner"))
    lives.feed(CHILD, result("t2", "inner"))
    lives.feed((), result("t1", "child"))
    lives.end()
    assert told == [
        (CHILD, {"event": "started", "graph_name": "child"}),
        (CHILD, {"event": "completed"}),
    ]


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ({"error": "ValueError('no')"}, {"event": "failed", "error": "ValueError('no')"}),
        ({"interrupts": [{"value": "?"}], "error": "x"}, {"event": "interrupted"}),
    ],
)
def test_a_subgraph_ends_as_its_task_did(lives, told, how, ending):
    lives.feed(CHILD, start("t2", "inner"))
    lives.feed((), result("t1", "child", **how))
    assert told[-1] == (CHILD, ending)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, {"event": "completed"}),
        (ValueError("no"), {"event": "failed", "error": "no"}),
        (KeyboardInterrupt(), {"event": "failed", "error": "KeyboardInterrupt"}),
    ],
)
def test_what_is_open_at_the_end_is_closed_once(lives, told, error, ending):
    lives.feed(CHILD, start("t2", "inner"))
    lives.end(error)
    lives.end(error)
    assert told[1:] == [(CHILD, ending)]


@pytest.mark.parametrize("given", [{"tool_call": {"id": "call-1"}}, [{"id": "call-1"}]])
def test_an_agent_is_named_and_says_which_tool_call_started_it(lives, told, given):
    lives.feed((), start("t1", "tools", input=given))
    lives.feed(("tools:t1",), start("t2", "model", metadata={"lc_agent_name": "helper"}))
    cause = {"type": "toolCall", "tool_call_id": "call-1"}
    started = {"event": "started", "graph_name": "helper", "cause": cause}
    assert told == [(("tools:t1",), started)]
