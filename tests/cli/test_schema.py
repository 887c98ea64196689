"""`checkrail schema`: the points, and what is sent to hooks outside the process."""

import json

import jsonschema_rs
import pytest

from checkrail.actions.wire import render_event
from checkrail.engine.points import ALIASES, CONTRACTS, FIRED_AS, HookPoint
from checkrail.testing import event

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def test_without_a_point_the_points_are_listed(checkrail):
    done = checkrail("schema")
    assert (done.code, done.err) == (0, "")
    head, *rows = done.rows
    assert head == ["point", "value", "a hook may"]
    assert [row[0] for row in rows] == list(HookPoint)
    told = {row[0]: row[1:] for row in rows}
    assert told["before_tool_call"] == ["ToolCall", "change it, ask, block, fail, replace"]
    assert told["before_run"] == ["JSON", "change it, block, fail"]
    assert told["query_end"] == ["AgentResponse", "change it"]
    assert told["after_run"] == ["RunResult", "only watch"]


def test_the_points_for_machines(invoke):
    told = invoke("schema", "--json").data
    assert [row["point"] for row in told] == list(HookPoint)
    for row, contract in zip(told, CONTRACTS.values(), strict=True):
        assert row.keys() == {"point", "value", "wire", "change", "decisions", "lanes"}
        assert (row["wire"], row["change"]) == (contract.wire, contract.change)
        assert row["decisions"] == sorted(contract.decisions)
        assert row["lanes"] == list(contract.lanes)


@pytest.mark.parametrize("point", HookPoint)
def test_every_point_has_two_schemas_that_are_valid(point, invoke):
    told = invoke("schema", point).data
    assert told.keys() == {"point", "request", "answer"}
    assert told["point"] == point
    for part in ("request", "answer"):
        assert told[part]["$schema"] == DRAFT
        jsonschema_rs.meta.validate(told[part])
    jsonschema_rs.validator_for(told["request"]).validate(json_request(point))
    answers = jsonschema_rs.validator_for(told["answer"])
    assert answers.is_valid({"action": "continue"})
    assert not answers.is_valid({"action": "explode"})
    for decision in ("block", "retry", "ask"):
        allowed = decision in CONTRACTS[point].decisions
        assert answers.is_valid({"action": decision, "reason": "so"}) is allowed


def json_request(point):
    return json.loads(json.dumps(render_event(event(point, run_id="r1", user="ann"))))


def test_the_real_command_prints_a_schema(checkrail):
    done = checkrail("schema", "before_tool_call")
    assert (done.code, done.err) == (0, "")
    assert "ToolCall" in done.data["request"]["$defs"]
    assert done.data["request"]["properties"]["point"]["const"] == "before_tool_call"


@pytest.mark.parametrize("alias", [name for name in ALIASES if name in FIRED_AS])
def test_other_names_of_points_are_known(alias, invoke):
    assert invoke("schema", alias).data["point"] == FIRED_AS[alias]


def test_a_point_that_does_not_exist_is_told_with_the_right_one(checkrail):
    done = checkrail("schema", "befor_run")
    assert (done.code, done.out) == (2, "")
    assert "there is no hook point 'befor_run' (did you mean 'before_run'?)" in done.err


@pytest.mark.parametrize("alias", [name for name in ALIASES if name not in FIRED_AS])
def test_a_name_that_stands_for_several_or_some_events_names_them(alias, invoke):
    done = invoke("schema", alias)
    assert (done.code, done.out) == (2, "")
    assert "on_run_error" in done.err


def test_a_file_has_a_schema_and_no_point(invoke):
    told = invoke("schema", "--file").data
    assert told["$schema"] == DRAFT
    assert {"hooks", "agents", "gateway"} <= told["properties"].keys()
    both = invoke("schema", "before_run", "--file")
    assert (both.code, both.out) == (2, "")
    assert "say POINT or --file, not both" in both.err
