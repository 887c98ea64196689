"""The steps of a run, built from what it left."""

import time
from dataclasses import replace

import pytest

from checkrail import Block, Continue
from checkrail.runs.steps import RunStory, build_steps, filter_steps, fold_passed
from checkrail.store.approvals import Approval
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run

TIMES = {"created_at": 100.0, "started_at": 101.0, "ended_at": 111.0}
RUN = Run("r", "t", "a", "desk", {}, {}, phase="success", **TIMES)


def mark(at, event, **data):
    return RunEvent(0, event, (), data, at=at)


def called(at, hook, point, took=0.1, **more):
    """The two records of a call."""
    same = {"call_id": f"{hook}-{at}", "dispatch": f"{point}-{at}", "attempt": 1, **more}
    same |= {"point": point, "hook": hook}
    return [
        {**same, "record_id": "s", "event_type": "hook_start", "time": at},
        {"event_type": "hook_complete", "decision": "continue", "changed": False, **same}
        | {"record_id": "e", "time": at + took, "duration_ms": took * 1000},
    ]


def tree(found):
    """Names of steps by their depth."""
    return [(step.depth, step.kind, step.name) for step in found.steps]


def test_models_and_tools_have_the_hooks_that_belong_to_them():
    marks = [
        mark(101.0, "attempt_started", attempt=1),
        mark(102.0, "model_started", call="c", model="gpt", agent_name="desk", iteration=1),
        mark(104.0, "model_finished", call="c", model="gpt", usage={"total_tokens": 5}),
        mark(104.2, "tool_started", tool_call_id="x", tool_name="pay"),
        mark(104.2, "tool_started", tool_call_id="y", tool_name="look"),
        mark(105.0, "tool_finished", tool_call_id="y", tool_name="look", is_error=True),
        mark(106.0, "tool_finished", tool_call_id="x", tool_name="pay", is_error=False),
        mark(111.0, "end"),
    ]
    at = {"agent_name": "desk", "iteration": 1}
    records = [
        *called(99.5, "door", "before_run"),
        *called(101.0, "begin", "on_run_start", changed=True),
        *called(101.9, "ask_less", "before_llm_call", **at),
        *called(104.05, "limit", "before_tool_call", tool_call_id="x", **at),
        *called(105.0, "look_at", "after_tool_call", tool_call_id="y", **at),
        *called(112.0, "bill", "after_run"),
    ]
    found = build_steps(RunStory(RUN, records, marks))
    assert tree(found) == [
        (0, "admission", "admission"),
        (1, "point", "before_run"),
        (2, "hook", "door"),
        (0, "queue", "queue"),
        (0, "point", "on_run_start"),
        (1, "hook", "begin"),
        (0, "agent", "agent code, not measured"),
        (0, "model", "gpt"),
        (1, "point", "before_llm_call"),
        (2, "hook", "ask_less"),
        (0, "tool", "pay"),
        (1, "point", "before_tool_call"),
        (2, "hook", "limit"),
        (0, "tool", "look"),
        (1, "point", "after_tool_call"),
        (2, "hook", "look_at"),
        (0, "agent", "agent code, not measured"),
        (0, "finish", "finish hooks"),
        (1, "point", "after_run"),
        (2, "hook", "bill"),
    ]
    by_id = {step.id: step for step in found.steps}
    pay, look = by_id["t-1-x"], by_id["t-1-y"]
    assert (pay.began, pay.ended, pay.result) == (104.05, 106.0, "done")
    assert (look.ended, look.result) == (pytest.approx(105.1), "failed")
    assert by_id["m-1-1"].details["usage"] == {"total_tokens": 5}
    assert found.totals["queue_ms"] == 1000
    assert found.totals["hooks_ms"] == pytest.approx(600)


def test_a_second_attempt_says_what_became_of_the_first():
    marks = [
        mark(101.0, "attempt_started", attempt=1, worker_id="w1"),
        mark(102.0, "model_started", call="c", model="gpt", iteration=1, agent_name="desk"),
        mark(105.0, "attempt_started", attempt=2, worker_id="w2"),
        mark(111.0, "end"),
    ]
    found = build_steps(RunStory(RUN, [], marks))
    first, second = (step for step in found.steps if step.kind == "attempt")
    assert (first.ended, first.result) == (105.0, "lost")
    assert (second.ended, second.result, second.details["worker_id"]) == (111.0, "success", "w2")
    [model] = [step for step in found.steps if step.kind == "model"]
    assert (model.parent, model.result) == (first.id, "cut off")


def test_a_person_stands_in_the_call_that_asked_and_is_not_the_hooks_time():
    asks = called(102.0, "sign", "on_run_start", took=5.0, decision="ask", answer="approved")
    asked = Approval(
        approval_id="q",
        point="on_run_start",
        hook="server/sign",
        question="May I?",
        digest="d",
        status="approved",
        on_timeout="block",
        created_at=102.1,
        answered_at=106.9,
    )
    found = build_steps(RunStory(RUN, asks, [], [asked]))
    [person] = [step for step in found.steps if step.kind == "person"]
    assert (person.parent, person.result) == ("sign-102.0", "approved")
    assert found.totals["people_ms"] == pytest.approx(4800)
    assert found.totals["hooks_ms"] == 0


def test_hooks_that_passed_are_folded_where_they_follow_each_other():
    records = [
        *called(102.0, "a", "before_llm_call"),
        *called(102.1, "b", "before_llm_call"),
        *called(102.2, "c", "before_llm_call", decision="block", event_type="hook_blocked"),
        *called(102.3, "zed", "before_llm_call"),
    ]
    run = replace(RUN, blocked_by="c")
    found = build_steps(RunStory(run, records, []))
    folded = [step for step in fold_passed(found.steps) if step.kind not in ("queue", "agent")]
    assert [(step.kind, step.name) for step in folded] == [
        ("folded", "2 hooks passed"),
        ("point", "before_llm_call"),
        ("hook", "c"),
        ("folded", "1 hook passed"),
    ]
    assert found.block == "c-102.2"
    assert [s.name for s in filter_steps(found.steps, "decisions")] == ["before_llm_call", "c"]
    assert [s.name for s in filter_steps(found.steps, "all", "ZED")][-1] == "zed"


def test_a_hook_that_is_still_called_has_no_end():
    [start, _] = called(110.0, "slow", "on_result")
    run = replace(RUN, ended_at=None, phase="running")
    found = build_steps(RunStory(run, [start], [], now=120.0))
    [hook] = [step for step in found.steps if step.kind == "hook"]
    assert (hook.ended, hook.result) == (None, "running")
    assert found.ended == 120.0


def test_two_thousand_steps_are_built_in_one_pass():
    records, marks = [], [mark(101.0, "attempt_started", attempt=1)]
    for n in range(500):
        at = 101 + n / 100
        marks.append(mark(at, "model_started", call=n, model="m", iteration=n, agent_name="desk"))
        marks.append(mark(at + 0.005, "model_finished", call=n, model="m"))
        records += called(at, f"h{n}", "before_llm_call", 0.001, iteration=n, agent_name="desk")
    began = time.process_time()
    found = build_steps(RunStory(RUN, records, marks))
    assert len(found.steps) > 1500
    assert time.process_time() - began < 5  # not a bar: only that it is no matter of squares


async def test_the_steps_of_a_real_run_and_one_of_them_over_http(client, services):
    registry = services.runs.parts.registry
    registry.register(
        lambda event: Continue({**event.value, "text": "CHANGED"}), "on_run_start", name="louder"
    )
    registry.register(lambda _: Block("shut", 451), "on_result", name="shut", lane="gate")
    answer = await client.post("/runs/wait", json={"assistant_id": "echo", "input": {"text": "x"}})
    assert answer.status_code == 200
    [run] = (await client.get("/runs")).json()
    path = f"/runs/{run['run_id']}/steps"
    found = (await client.get(path)).json()
    by_name = {step["name"]: step for step in found["steps"]}
    assert found["block"] == by_name["shut"]["id"]
    assert by_name["shut"]["details"]["status"] == 451
    assert by_name["louder"]["result"] == "changed"
    assert by_name["say"]["kind"] == "node"
    assert [step["index"] for step in found["steps"]] == [*range(found["total"])]
    page = (await client.get(path, params={"around": found["block"], "limit": 2})).json()
    assert found["block"] in [step["id"] for step in page["steps"]]
    assert page["first"] % 2 == 0
    whole = (await client.get(f"{path}/{by_name['louder']['id']}")).json()
    [record] = whole["records"]
    assert (record["before"], record["after"]) == ({"text": "x"}, {"text": "CHANGED"})
    assert (await client.get(f"{path}/nothing")).status_code == 404
    assert (await client.get(path, params={"show": "nothing"})).status_code == 422
