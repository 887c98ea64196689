"""What hooks decide on a server has the same effect on a runner, whatever it was."""

import dataclasses
import json

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    Continue,
    Fail,
    HookRegistry,
    ModelRequest,
    Replace,
    Retry,
    Stop,
    ToolCall,
    ToolResult,
)
from checkrail.engine.points import HookPoint
from checkrail.runner.hooks import RemoteHooks
from checkrail.runs.remote.claims import _lanes_at
from checkrail.runs.remote.verdicts import parse_value, render_verdict

CALL = ToolCall(id="1", name="look", args={"place": "attic", "secret": "x"})
MESSAGE = AssistantMessage(content="hello 42", tool_calls=[CALL], usage={"total_tokens": 3})
REQUEST = ModelRequest(model="m", messages=[{"role": "user", "content": "42"}], raw={"a": 1})


def remote(server):
    """Hooks on a runner that ask a registry, in words that went through JSON."""

    async def ask(asked):
        point = HookPoint(asked["point"])
        value = parse_value(point, json.loads(json.dumps(asked["value"])))
        verdict = await server.scope(run_id="r").fire(point, value)
        return json.loads(json.dumps(render_verdict(verdict, value)))

    def broken(reason):
        raise AssertionError(reason)

    scope = server.scope()
    lanes = {point: _lanes_at(scope, point) for point in HookPoint if scope.has(point)}
    order = ("transform", "gate", "observe")
    points = {str(point): min(found, key=order.index) for point, found in lanes.items()}
    return RemoteHooks(points, ask, broken)


def change_and_block(registry):
    registry.register(
        lambda event: Continue(ToolCall(id="1", name="look", args={"place": "cellar"})),
        "before_tool_call",
    )
    registry.register(lambda event: Block("no", 402, "pay"), "before_tool_call", lane="gate")


def redact_and_change(registry):
    def hide(event):
        messages = [{"role": "user", "content": "**"}]
        return Continue(ModelRequest(model="m", messages=messages, raw={"a": 1}), redacted=True)

    def more(event):
        messages = [*event.value.messages, {"role": "user", "content": "more"}]
        return Continue(ModelRequest(model="m", messages=messages, raw={"a": 1}))

    registry.register(hide, "before_llm_call")
    registry.register(more, "before_llm_call")


def says(outcome, point, **options):
    return lambda registry: registry.register(lambda event: outcome, point, **options)


INJECT = Continue(inject=[{"role": "system", "content": "mind"}])
REPLY = AssistantMessage(content="instead")
CASES = [
    ("before_tool_call", CALL, change_and_block),
    ("before_tool_call", CALL, says(Block("no"), "before_tool_call", lane="gate")),
    ("before_tool_call", CALL, says(Fail("bad", "code"), "before_tool_call")),
    ("before_tool_call", CALL, says(Replace(ToolResult(content="made")), "before_tool_call")),
    ("before_tool_call", CALL, says(None, "before_tool_call", lane="observe")),
    ("before_llm_call", REQUEST, redact_and_change),
    ("before_llm_call", REQUEST, says(Stop(REPLY, "enough"), "before_llm_call")),
    ("before_llm_call", REQUEST, says(Replace(REPLY), "before_llm_call")),
    ("before_llm_call", REQUEST, says(INJECT, "before_llm_call")),
    ("after_llm_call", MESSAGE, says(Retry("again"), "after_llm_call")),
    ("after_llm_call", MESSAGE, says(Continue("text alone"), "after_llm_call")),
    ("after_llm_call", MESSAGE, says(None, "after_llm_call")),
    ("after_tool_call", ToolResult(id="1", content=[1]), says(Continue("less"), "after_tool_call")),
]


@pytest.mark.parametrize(("point", "value", "hooks"), CASES)
async def test_a_verdict_is_the_same_on_both_sides(point, value, hooks):
    server = HookRegistry()
    hooks(server)
    expected = await server.scope(run_id="r").fire(point, value)
    found = await remote(server).registry.scope(run_id="r").fire(point, value)
    for name in (
        "decision",
        "value",
        "subject",
        "given",
        "redacted",
        "reason",
        "status",
        "code",
        "inject",
    ):
        assert getattr(found, name) == getattr(expected, name), name


async def test_the_hook_that_ended_a_run_is_known_whatever_its_reason():
    server = HookRegistry()
    server.register(lambda event: Block("no"), "before_tool_call", name="price")
    server.register(lambda event: Block("no"), "before_llm_call", name="hours")
    server.register(lambda event: Fail("no"), "after_tool_call", name="audit")
    hooks = remote(server)
    scope = hooks.registry.scope(run_id="r")
    for point, value, name in (
        ("before_tool_call", CALL, "price"),
        ("after_tool_call", ToolResult(id="1"), "audit"),
        ("before_llm_call", REQUEST, "hours"),
    ):
        verdict = await scope.fire(point, value)
        failed = verdict.decision == "fail"
        assert hooks.find_server_hook(verdict.hook, failed=failed) == name


async def test_what_no_json_can_say_stays_as_it_is_on_the_runner():
    server = HookRegistry()
    server.register(
        lambda event: Continue(dataclasses.replace(event.value, model="other")),
        "before_llm_call",
    )
    odd = object()
    request = ModelRequest(model="m", messages=[], params={"odd": odd})
    found = await remote(server).registry.scope(run_id="r").fire("before_llm_call", request)
    assert found.value.model == "other"
    assert found.value.params["odd"] is odd
