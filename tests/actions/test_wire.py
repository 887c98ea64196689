import json
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from checkrail.actions import ActionError, schemas, wire
from checkrail.engine.errors import InvalidOutcomeError, UnknownPointError
from checkrail.engine.event import Context
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.points import CONTRACTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    RunError,
    RunResult,
    ToolCall,
    ToolResult,
    User,
)

CALL = ToolCall("c1", "transfer", {"amount": 5}, "run-1")
EVERYTHING = {
    "session_id": "s",
    "thread_id": "t",
    "run_id": "r",
    "parent_run_id": "p",
    "agent_name": "support",
    "assistant_id": "a",
    "request_id": "q",
    "tool_call_id": "c",
    "user": User("ann", permissions=["pay"]),
    "model": "gpt",
    "provider": "openai",
    "attempt": 2,
    "iteration": 3,
    "metadata": {"tier": "gold"},
}


def validator(schema):
    jsonschema_rs.meta.validate(schema)
    return schemas.compile_schema(schema)


def refused(point, data, current=CALL) -> str:
    with pytest.raises(InvalidOutcomeError) as caught:
        wire.parse_answer(point, data, current)
    return str(caught.value)


async def test_a_request_tells_the_event(event_at):
    event = await event_at("before_tool_call", CALL, config={"most": 5}, **EVERYTHING)
    told = wire.render_event(event)
    call = {"id": "c1", "name": "transfer", "args": {"amount": 5}, "context": "run-1"}
    when = datetime.fromisoformat(told.pop("timestamp"))
    assert told.pop("time") == event.timestamp == pytest.approx(when.timestamp(), abs=0.001)
    assert when.tzinfo == UTC
    assert told == {
        **EVERYTHING,
        "point": "before_tool_call",
        "tool_call": call,
        "config": {"most": 5},
        "user": {
            "identity": "ann",
            "email": None,
            "org_id": None,
            "permissions": ["pay"],
            "extras": {},
        },
    }


async def test_a_request_leaves_out_what_is_absent(event_at):
    told = wire.render_event(await event_at("before_run"))
    assert told.keys() == {
        "point",
        "parameters",
        "config",
        "time",
        "timestamp",
        "attempt",
        "metadata",
    }


async def test_the_original_is_sent_where_a_hook_before_has_changed_the_value():
    told = []
    registry = HookRegistry()
    registry.register(lambda _: Continue({"q": 2}), "before_run", name="change")
    registry.register(
        lambda event: told.append(wire.render_event(event)), "before_run", name="next"
    )
    await registry.fire("before_run", {"q": 1})
    assert (told[0]["parameters"], told[0]["original"]) == ({"q": 2}, {"q": 1})
    schema = validator(wire.point_schema("before_run")["request"])
    assert schema.is_valid(told[0])


FINISH = {
    *("parameters", "result_text", "result_data", "status", "error"),
    *("session_id", "run_id", "agent_name"),
}


@pytest.mark.parametrize(
    ("point", "value", "keys"),
    [
        (
            "after_run",
            RunResult(output="done", input={"q": 2}),
            {"result_text": "done", "result_data": None, "status": "completed", "error": None},
        ),
        (
            "after_run",
            RunResult(output=["done"], input={"q": 2}),
            {"result_text": None, "result_data": ["done"], "status": "completed"},
        ),
        (
            "on_run_error",
            RunError(error="boom", error_type="ValueError", input={"q": 2}),
            {"result_text": None, "result_data": None, "status": "failed", "error": "boom"},
        ),
        (
            "on_run_error",
            RunError(status="interrupted", error_type="CancelledError", input={"q": 2}),
            {"status": "stopped", "error": None},
        ),
    ],
)
async def test_at_the_end_of_a_run_the_eight_keys_are_there(event_at, point, value, keys):
    for context in ({}, EVERYTHING):
        told = wire.render_event(await event_at(point, value, **context))
        assert told.keys() >= FINISH
        assert {"parameters": {"q": 2}, **keys}.items() <= told.items()
        assert told["result"]["input"] == {"q": 2}
        assert "original_parameters" not in told
        validator(wire.point_schema(point)["request"]).validate(told)


async def test_at_the_end_of_a_run_changed_parameters_come_with_the_original_ones(event_at):
    asked = {"original_parameters": {"q": 1}, "tier": "gold"}
    for point in ("after_run", "on_run_error"):
        told = wire.render_event(await event_at(point, metadata=asked))
        assert told["original_parameters"] == {"q": 1}
        assert told["parameters"] == {"question": "?"}
        assert told["metadata"] == {"tier": "gold"}
        validator(wire.point_schema(point)["request"]).validate(told)
        same = {"original_parameters": {"question": "?"}}
        told = wire.render_event(await event_at(point, metadata=same))
        assert "original_parameters" not in told


async def test_a_message_travels_as_its_text_with_its_fields_beside_it(event_at):
    told = wire.render_event(
        await event_at("before_inbound", metadata={"tier": "gold"}, thread_id="t1")
    )
    assert told["content"] == "hello"
    assert (told["user_id"], told["channel"], told["thread_id"]) == ("ann", "web", "t9")
    assert told["attachments"] == [{"kind": "image"}]
    assert told["metadata"] == {"tier": "gold", "lang": "en"}


async def test_an_observer_is_told_the_verdict():
    told = []
    registry = HookRegistry()
    registry.register(lambda _: Block("no", 429, "slow"), "before_run", name="gate", lane="gate")
    registry.register(
        lambda event: told.append(wire.render_event(event)),
        "before_run",
        name="watch",
        lane="observe",
    )
    await registry.fire("before_run", {})
    assert told[0]["verdict"] == {
        "decision": "block",
        "reason": "no",
        "hook": "gate",
        "status": 429,
        "code": "slow",
    }


async def test_a_request_shows_nothing_of_what_was_redacted():
    told = []
    registry = HookRegistry()
    registry.register(
        lambda _: Continue({"key": "-"}, redacted=True),
        "before_run",
        name="hide",
        priority=1,
    )
    registry.register(
        lambda event: told.append(wire.render_event(event)), "before_run", name="next"
    )
    await registry.fire("before_run", {"key": "sk-1"})
    assert "sk-1" not in json.dumps(told)


@pytest.mark.parametrize("point", HookPoint)
async def test_every_request_fits_its_schema(point, event_at):
    schema = validator(wire.point_schema(point)["request"])
    for context in ({}, EVERYTHING):
        for lane in (None, "observe"):
            told = json.loads(
                json.dumps(wire.render_event(await event_at(point, lane=lane, **context)))
            )
            schema.validate(told)
            assert not schema.is_valid(told | {"more": 1})
            assert not schema.is_valid({key: told[key] for key in told if key != "config"})


async def test_the_schema_of_query_end_knows_that_there_may_be_no_response(event_at):
    told = wire.render_event(await event_at("query_end", None))
    assert told["response"] is None
    assert validator(wire.point_schema("query_end")["request"]).is_valid(told)


@pytest.mark.parametrize("point", HookPoint)
def test_the_schemas_are_generated_from_the_contracts(point):
    made = wire.point_schema(point)
    contract = CONTRACTS[point]
    assert made["point"] == point
    request = made["request"]
    assert request["$schema"] == made["answer"]["$schema"] == schemas.DIALECT
    assert {contract.wire, "point", "config", "time", "timestamp"} <= set(request["required"])
    assert "original" in request["properties"]
    assert set(Context.__slots__) <= request["properties"].keys()
    answers = validator(made["answer"])
    for decision in Decision:
        allowed = decision in contract.decisions
        value = {
            Decision.REPLACE: contract.replace,
            Decision.STOP: contract.stop,
        }.get(decision)
        brought = {} if value is None else {schemas.RESULT_NAMES[value]: "text"}
        assert answers.is_valid({"action": str(decision), **brought}) is allowed, decision
    assert answers.is_valid({}) is (contract.decisions == {Decision.CONTINUE})
    assert answers.is_valid({"action": "continue", contract.wire: "{}"}) is (
        contract.change and contract.wire != "request"
    )


def test_a_schema_by_another_name():
    assert wire.point_schema("on_tool_call") == wire.point_schema("before_tool_call")
    with pytest.raises(UnknownPointError):
        wire.point_schema("before_tool")


@pytest.mark.parametrize(
    ("point", "data", "current", "outcome"),
    [
        ("before_tool_call", {"action": "continue"}, CALL, Continue()),
        ("before_tool_call", {"action": "block"}, CALL, Block()),
        ("before_tool_call", {"action": "block", "reason": "no"}, CALL, Block("no")),
        ("before_tool_call", {"action": "block", "block_reason": "no"}, CALL, Block("no")),
        (
            "on_run_start",
            {"action": "block", "parameters": {}, "reason": None, "block_reason": "no"},
            {},
            Block("no"),
        ),
        (
            "before_run",
            {"action": "block", "reason": "no", "status": 429, "code": "slow"},
            {},
            Block("no", 429, "slow"),
        ),
        ("before_tool_call", {"action": "block", "status": None}, CALL, Block()),
        (
            "before_tool_call",
            {"action": "ask", "reason": "ok?", "timeout": 60, "on_deny": "fail"},
            CALL,
            Ask("ok?", 60, "fail"),
        ),
        ("before_run", {"action": "fail", "reason": "x", "code": "y"}, {}, Fail("x", "y")),
        (
            "after_llm_call",
            {"action": "retry", "reason": "again", "inject": [{"role": "user", "content": "x"}]},
            AssistantMessage(),
            Retry("again", [{"role": "user", "content": "x"}]),
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": {"name": "pay", "args": {}}, "last": True},
            CALL,
            Continue(ToolCall("c1", "pay", {}, "run-1"), last=True),
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": {"tool_name": "pay", "parameters": {"a": 1}}},
            CALL,
            Continue(ToolCall("c1", "pay", {"a": 1}, "run-1")),
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": '{"amount": 7}'},
            CALL,
            Continue(ToolCall("c1", "transfer", {"amount": 7}, "run-1")),
        ),
        (
            "before_tool_call",
            {"action": "replace", "tool_result": "cached", "reason": "known"},
            CALL,
            Replace(ToolResult("c1", "transfer", "cached"), "known"),
        ),
        (
            "before_tool_call",
            {"action": "replace", "tool_result": {"id": "c2", "content": [1], "is_error": True}},
            CALL,
            Replace(ToolResult("c2", "transfer", [1], is_error=True)),
        ),
        (
            "before_llm_call",
            {"action": "continue", "request": {"messages": [{"role": "user"}]}},
            ModelRequest("gpt", tools=[{"name": "t"}]),
            Continue(ModelRequest("gpt", messages=[{"role": "user"}], tools=[{"name": "t"}])),
        ),
        (
            "before_llm_call",
            {"action": "stop", "message": {"content": "x", "usage": {"tokens": 1}}},
            ModelRequest(),
            Stop(AssistantMessage("x", usage={"tokens": 1})),
        ),
        (
            "after_llm_call",
            {"action": "continue", "message": {"tool_calls": [{"tool_name": "t", "id": "1"}]}},
            AssistantMessage("hi", model="gpt"),
            Continue(AssistantMessage("hi", [ToolCall("1", "t")], "gpt")),
        ),
        (
            "before_final_response",
            {"action": "continue", "message": "clean", "redacted": True},
            AssistantMessage("dirty", model="gpt"),
            Continue(AssistantMessage("clean", model="gpt"), redacted=True),
        ),
        (
            "after_tool_call",
            {"action": "continue", "tool_result": {"duration_ms": 3}},
            ToolResult("c1", "t", "x"),
            Continue(ToolResult("c1", "t", "x", duration_ms=3)),
        ),
        ("before_run", {"action": "continue", "parameters": [1]}, {}, Continue([1])),
        ("before_run", {"action": "continue", "parameters": None}, {}, Continue(None)),
        ("before_run", {"action": "continue", "parameters": "text"}, {}, Continue("text")),
        ("on_run_start", {"action": "replace", "output": {"a": 1}}, {}, Replace({"a": 1})),
        ("on_result", {"action": "continue", "output": 5}, {}, Continue(5)),
        (
            "before_inbound",
            {"action": "continue", "content": "new"},
            InboundMessage("u", "c", "old", metadata={"a": 1}),
            Continue(InboundMessage("u", "c", "new", metadata={"a": 1})),
        ),
        (
            "before_inbound",
            {"action": "stop", "content": "bye"},
            InboundMessage("u", "c", "old"),
            Stop("bye"),
        ),
        ("query_end", {"response": "x"}, AgentResponse("y", 1), Continue(AgentResponse("x", 1))),
        ("query_end", {"response": "x"}, None, Continue(AgentResponse("x"))),
        ("query_end", {"response": None}, AgentResponse("y"), Continue(None)),
        ("query_end", {"action": "continue"}, None, Continue()),
        ("query_end", {}, None, None),
        ("after_run", {}, RunResult(), None),
        ("after_run", {"action": "continue"}, RunResult(), Continue()),
        ("pre_tool_call", {"action": "block"}, CALL, Block()),
    ],
)
def test_what_an_answer_means(point, data, current, outcome):
    assert wire.parse_answer(point, data, current) == outcome


@pytest.mark.parametrize(
    ("point", "data", "told"),
    [
        (
            "before_tool_call",
            {},
            "at $.action: found nothing, expected one of ask, block, continue",
        ),
        ("before_tool_call", {"action": "retry"}, "at $.action: found 'retry', expected one of"),
        ("before_tool_call", {"action": ["block"]}, "at $.action: found a list"),
        ("before_tool_call", [], "at $: found a list, expected an object"),
        ("before_tool_call", None, "at $: found null, expected an object"),
        ("before_tool_call", "block", "at $: found a text, expected an object"),
        (
            "before_tool_call",
            {"action": "block", "status": "403"},
            "at $.status: found a text, expec",
        ),
        ("before_tool_call", {"action": "block", "status": True}, "at $.status: found True"),
        ("before_tool_call", {"action": "block", "status": 200}, "at $.status: found 200"),
        ("before_tool_call", {"action": "block", "reason": b"x"}, "at $.reason: found bytes"),
        ("before_tool_call", {"action": "block", "reason": ["x"]}, "at $.reason: found a list"),
        ("before_tool_call", {"action": "block", "resaon": "x"}, "did you mean 'reason'?"),
        (
            "before_tool_call",
            {"action": "continue", "status": 403},
            "at $.status: found a key that",
        ),
        ("before_tool_call", {"action": "continue", "tool_cal": {}}, "did you mean 'tool_call'?"),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": 5},
            "expected an object or a text",
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": {"args": "x"}},
            "at $.tool_call.args: found a text, expected an object",
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": {"argz": {}}},
            "at $.tool_call.argz: found a key that is not known here",
        ),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": {"args": {}, "parameters": {}}},
            "expected args or parameters, not both",
        ),
        ("before_tool_call", {"action": "continue", "tool_call": "{"}, "is not JSON"),
        (
            "before_tool_call",
            {"action": "continue", "tool_call": "[]"},
            "are a JSON object, not list",
        ),
        (
            "before_tool_call",
            {"action": "replace"},
            "at $.tool_result: found nothing, expected a val",
        ),
        ("before_tool_call", {"action": "ask", "timeout": 0}, "at $.timeout: found 0"),
        ("before_tool_call", {"action": "ask", "on_deny": "allow"}, "at $.on_deny: found a text"),
        (
            "before_tool_call",
            {"action": "continue", "inject": ["x"]},
            "at $.inject[0]: found a text",
        ),
        (
            "before_run",
            {"action": "continue", "inject": []},
            "at $.inject: found a key that is not",
        ),
        (
            "before_llm_call",
            {"action": "continue", "request": "x"},
            "found a text, expected an object",
        ),
        ("before_llm_call", {"action": "stop", "message": 1}, "at $.message: found 1"),
        (
            "after_llm_call",
            {"action": "continue", "message": {"tool_calls": [{"name": "a"}, {"name": 5}]}},
            "at $.message.tool_calls[1].name: found 5, expected a text",
        ),
        ("before_inbound", {"action": "continue", "content": {}}, "at $.content: found an object"),
        ("on_session_start", {"action": "continue", "session": {}}, "at $.session: found a key"),
        ("after_run", {"action": "block"}, "at $.action: found a text, expected 'continue'"),
        ("after_run", {"result": {}}, "at $.result: found a key"),
    ],
)
def test_what_does_not_fit_is_told_with_path_found_and_expected(point, data, told):
    message = refused(point, data)
    assert told in message
    assert point in message


def test_without_jsonschema_the_same_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    schemas._validator.cache_clear()
    try:
        assert wire.parse_answer("before_tool_call", {"action": "block"}, CALL) == Block()
        assert "found a text" in refused("before_tool_call", {"action": "block", "status": "403"})
        assert "found True" in refused("before_tool_call", {"action": "block", "status": True})
    finally:
        schemas._validator.cache_clear()


def test_the_published_schema_has_the_last_word(monkeypatch):
    stricter = {"not": {"required": ["code"]}}
    monkeypatch.setattr(schemas, "_validator", lambda _: schemas.compile_schema(stricter))
    assert wire.parse_answer("before_run", {"action": "block"}, {}) == Block()
    assert "does not fit" in refused("before_run", {"action": "block", "code": "x"}, {})


KEYS = [
    *("action", "reason", "block_reason", "status", "code", "inject", "last", "redacted"),
    *("timeout", "on_deny", "on_timeout", "more"),
    *(contract.wire for contract in CONTRACTS.values()),
]
PIECES = st.sampled_from(
    [
        *(None, True, 0, 1.5, 403, "", "text", "block", [], {}, [{}], {"content": "x"}),
        *({"name": "x", "args": {}}, {"tool_name": "x", "name": "y"}, {"args": []}),
        *({"tool_calls": [{"parameters": {}}]}, {"messages": [{}]}, {"tool_calls": ["x"]}),
    ],
)


@given(
    point=st.sampled_from(list(HookPoint)),
    action=st.sampled_from([None, *map(str, Decision)]),
    data=st.dictionaries(st.sampled_from(KEYS), PIECES, max_size=4),
)
def test_the_schema_and_the_reading_of_an_answer_agree(point, action, data):
    if action is not None:
        data["action"] = action
    published = schemas._validator(point).is_valid(data)
    try:
        schemas._answer_adapter(point).validate_python(data)
    except ValidationError:
        assert not published
        refused(point, data)
    else:
        assert published


def test_a_text_that_may_be_secret_is_not_repeated():
    assert "hunter2" not in refused("before_tool_call", {"action": "block", "status": "hunter2"})


def test_an_observer_need_not_say_anything():
    assert wire.parse_answer("before_tool_call", {}, CALL, observing=True) is None
    assert (
        wire.parse_answer("before_tool_call", {"action": "continue"}, CALL, observing=True)
        == Continue()
    )
    with pytest.raises(InvalidOutcomeError):
        wire.parse_answer("before_tool_call", {"more": 1}, CALL, observing=True)


def test_a_remote_reference_is_refused_and_not_fetched():
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            with pytest.raises(ValueError, match="is not fetched"):
                schemas.compile_schema(
                    {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}
                )
        finally:
            server.shutdown()
            serving.join()
    assert asked == []


async def test_an_agent_at_the_start_gets_exactly_these_keys(event_at):
    for point in ("before_run", "on_run_start"):
        assert wire.agent_start_request(await event_at(point, **EVERYTHING)) == {
            "parameters": {"question": "why", "depth": {"n": 1}},
            "agent_name": "support",
            "session_id": "s",
            "run_id": "r",
        }


@pytest.mark.parametrize(
    ("point", "value", "told"),
    [
        ("after_run", RunResult("success", "done", {"q": 1}), ("done", None, "completed", None)),
        (
            "after_run",
            RunResult("success", {"a": 1}, {"q": 1}),
            (None, {"a": 1}, "completed", None),
        ),
        ("after_run", RunResult("interrupted", None, {"q": 1}), (None, None, "stopped", None)),
        ("on_run_error", RunError("error", "boom", "E", {"q": 1}), (None, None, "failed", "boom")),
        (
            "on_run_error",
            RunError("timeout", "late", "E", {"q": 1}),
            (None, None, "failed", "late"),
        ),
        ("on_run_error", RunError("blocked", "no", None, {"q": 1}), (None, None, "failed", "no")),
        (
            "on_run_error",
            RunError("cancelled", None, None, {"q": 1}),
            (None, None, "stopped", None),
        ),
        (
            "on_run_error",
            RunError("error", "gone", "CancelledError", {"q": 1}),
            (None, None, "stopped", "gone"),
        ),
    ],
)
async def test_an_agent_at_the_finish_gets_exactly_these_keys(point, value, told, event_at):
    text, data, status, error = told
    assert wire.agent_finish_request(await event_at(point, value, **EVERYTHING)) == {
        "parameters": {"q": 1},
        "result_text": text,
        "result_data": data,
        "status": status,
        "error": error,
        "session_id": "s",
        "run_id": "r",
        "agent_name": "support",
    }


async def test_agent_requests_belong_to_their_points(event_at):
    with pytest.raises(ActionError, match="Use before_run or on_run_start"):
        wire.agent_start_request(await event_at("after_run"))
    with pytest.raises(ActionError, match="Use after_run or on_run_error"):
        wire.agent_finish_request(await event_at("before_run"))
