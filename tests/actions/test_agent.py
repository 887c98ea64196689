"""Hooks that are agents: what they are told, and how their output is read."""

import asyncio

import pytest

from checkrail.actions import ACTION_TYPES
from checkrail.actions.outside import Outside
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunError, RunResult, ToolCall, ToolResult

START = {"question": "why"}


class Agents:
    """Stands where the run server stands: it keeps what it was asked, and answers."""

    def __init__(self, answer=None):
        self.answer = answer
        self.asked = []

    async def __call__(self, agent_name, parameters, event, timeout):
        self.asked.append((agent_name, parameters, str(event.point), timeout))
        await asyncio.sleep(0)
        return self.answer


def hook_of(answer, timeout=None, **fields):
    agents = Agents(answer)
    fields = {"agent_name": "validator", "on_error": "block"} | fields
    hook, decisions = ACTION_TYPES["agent"].build(
        fields, ("on_run_start",), outside=Outside(agents=agents), timeout=timeout
    )
    assert decisions is None
    return hook, agents


@pytest.mark.parametrize("point", ["before_run", "on_run_start"])
async def test_at_the_start_it_is_told_exactly_this(event_at, point):
    hook, agents = hook_of({"action": "block", "block_reason": "No"})
    ids = {"agent_name": "support", "session_id": "s1", "run_id": "r1", "user": "ann"}
    assert await hook(await event_at(point, START, **ids)) == Block("No")
    told = {"parameters": START, "agent_name": "support", "session_id": "s1", "run_id": "r1"}
    assert agents.asked == [("validator", told, point, 300)]


@pytest.mark.parametrize(
    ("point", "value", "told"),
    [
        (
            "after_run",
            RunResult("success", "Done.", START),
            {"result_text": "Done.", "result_data": None, "status": "completed", "error": None},
        ),
        (
            "after_run",
            RunResult("success", {"n": 1}, START),
            {"result_text": None, "result_data": {"n": 1}, "status": "completed", "error": None},
        ),
        (
            "on_run_error",
            RunError("error", "boom", "ValueError", START),
            {"result_text": None, "result_data": None, "status": "failed", "error": "boom"},
        ),
        (
            "on_run_error",
            RunError("interrupted", "stopped", "CancelledError", START),
            {"result_text": None, "result_data": None, "status": "stopped", "error": "stopped"},
        ),
    ],
)
async def test_at_the_end_it_is_told_exactly_this(event_at, point, value, told):
    hook, agents = hook_of({})
    assert await hook(await event_at(point, value, agent_name="support", run_id="r1")) is None
    ids = {"session_id": None, "run_id": "r1", "agent_name": "support"}
    assert agents.asked[0][1] == {"parameters": START, **told, **ids}


async def test_elsewhere_it_is_told_what_any_hook_outside_is(event_at):
    hook, agents = hook_of({"action": "replace", "tool_result": "no need"})
    call = ToolCall("c1", "search", {"q": "x"})
    answer = await hook(await event_at("before_tool_call", call, run_id="r1"))
    assert answer.value == ToolResult("c1", "search", "no need")
    (asked,) = agents.asked
    assert asked[1]["point"] == "before_tool_call"
    assert asked[1]["tool_call"]["args"] == {"q": "x"}
    assert asked[1]["run_id"] == "r1"


async def test_it_may_change_the_parameters(event_at):
    hook, _ = hook_of({"action": "continue", "parameters": {"question": "how"}})
    assert await hook(await event_at("on_run_start", START)) == Continue({"question": "how"})


async def test_parameters_that_come_back_the_same_are_no_change(event_at):
    hook, _ = hook_of({"action": "continue", "parameters": dict(START)})
    assert await hook(await event_at("on_run_start", START)) == Continue()


async def test_so_a_gate_can_send_them_back_too():
    hook, agents = hook_of({"action": "continue", "parameters": START})
    registry = HookRegistry()
    registry.register(hook, "on_run_start", name="gate", lane="gate")
    assert (await registry.fire("on_run_start", START)).decision == "continue"
    agents.answer = {"action": "continue", "parameters": {"question": "how"}}
    assert (await registry.fire("on_run_start", START)).code == "hook_invalid"


async def test_a_text_that_is_json_is_read(event_at):
    hook, _ = hook_of(' {"action": "continue", "parameters": {"a": 1}}\n')
    assert await hook(await event_at("on_run_start", START)) == Continue({"a": 1})
    hook, _ = hook_of("{}")
    assert await hook(await event_at("after_run")) is None


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"action": "continue"}, "the agent 'validator' continues without `parameters`: send"),
        ({"parameters": START}, "found nothing, expected one of"),
        ({"action": "retry"}, "expected one of"),
        ("All is well.", "the agent 'validator' answered 12 bytes that are no JSON"),
        ("", "the agent 'validator' answered nothing"),
        (None, "answered no object: answer with one, such as"),
        ([], "answered no object"),
        ("[]", "answered no object"),
        (5, "answered no object"),
    ],
)
async def test_what_is_no_answer_is_invalid(event_at, output, told):
    hook, _ = hook_of(output)
    with pytest.raises(InvalidOutcomeError) as caught:
        await hook(await event_at("on_run_start", START))
    assert told in str(caught.value)


@pytest.mark.parametrize("output", [None, "Logged.", [], {"logged": True}, "5"])
async def test_what_follows_on_a_run_may_come_to_anything(event_at, output):
    hook, _ = hook_of(output)
    assert await hook(await event_at("after_run")) is None


@pytest.mark.parametrize("output", [None, "Logged.", [], "5"])
async def test_an_observer_answers_with_an_object_and_no_decision(event_at, output):
    hook, _ = hook_of(output)
    with pytest.raises(InvalidOutcomeError):
        await hook(await event_at("on_run_start", START, lane="observe"))


EXPLAINED = {"explanation": "All is well", "confidence": 0.9}


@pytest.mark.parametrize(
    ("point", "lane", "output", "answer"),
    [
        ("on_run_start", None, {"action": "continue", "parameters": {"a": 1}}, Continue({"a": 1})),
        ("on_run_start", None, {"action": "block", "block_reason": "no"}, Block("no")),
        ("on_result", None, {"action": "continue"}, Continue()),
        ("on_run_start", "observe", {}, None),
    ],
)
async def test_extra_keys_are_ignored_with_a_warning(event_at, caplog, point, lane, output, answer):  # noqa: PLR0917
    hook, _ = hook_of(output | EXPLAINED)
    assert await hook(await event_at(point, lane=lane)) == answer
    told = f"the agent 'validator' answered at {point} with keys that are ignored"
    assert f"{told}: 'explanation', 'confidence'" in caplog.text


async def test_of_extra_keys_only_the_beginning_is_logged(event_at, caplog):
    hook, _ = hook_of({"action": "block", "reason": "no", "x" * 5000: 1})
    assert await hook(await event_at("on_run_start")) == Block("no")
    assert len(caplog.text) < 1000


@pytest.mark.parametrize("action", ["maybe", None, ["block"], {"block": 1}])
async def test_extra_keys_do_not_make_an_answer_of_what_is_none(event_at, action):
    hook, _ = hook_of({"action": action, **EXPLAINED})
    with pytest.raises(InvalidOutcomeError, match="action"):
        await hook(await event_at("on_run_start"))


async def test_an_observer_at_the_start_need_not_send_parameters(event_at):
    for output in ({}, {"action": "continue"}):
        hook, _ = hook_of(output)
        assert await hook(await event_at("on_run_start", START, lane="observe")) in (
            None,
            Continue(),
        )


async def test_its_time_is_that_of_the_hook(event_at):
    hook, agents = hook_of({}, timeout_seconds=30)
    await hook(await event_at("after_run"))
    hook, others = hook_of({}, timeout=7.0, timeout_seconds=30)
    await hook(await event_at("after_run"))
    assert (agents.asked[0][3], others.asked[0][3]) == (30, 7.0)


async def test_where_nobody_runs_agents_it_cannot_be_reached(event_at):
    outside = Outside()
    fields = {"agent_name": "validator", "on_error": "block"}
    hook, _ = ACTION_TYPES["agent"].build(fields, ("on_run_start",), outside=outside)
    with pytest.raises(UnreachableError, match="agent hooks need the run server, which is not run"):
        await hook(await event_at("on_run_start", START))
    outside.agents = Agents({"action": "continue", "parameters": START})  # the server is up
    assert await hook(await event_at("on_run_start", START)) == Continue()


async def test_what_the_run_raises_is_the_failure_of_the_hook():
    async def fails(agent_name, parameters, event, timeout):
        raise ValueError("the run ended in error")

    fields = {"agent_name": "validator", "on_error": "block"}
    hook, _ = ACTION_TYPES["agent"].build(fields, ("on_run_start",), outside=Outside(agents=fails))
    registry = HookRegistry()
    registry.register(hook, "on_run_start", name="agent", on_error="block")
    verdict = await registry.fire("on_run_start", START)
    assert (verdict.decision, verdict.code) == ("block", "hook_error")


@pytest.mark.parametrize(
    "on_error", ["block", "continue", "ignore", {"timeout": "continue", "invalid": "block"}]
)
def test_what_happens_on_failure_may_be_said_for_each_kind(on_error):
    read = ACTION_TYPES["agent"].fields.model_validate({"agent_name": "a", "on_error": on_error})
    assert read.on_error == on_error
