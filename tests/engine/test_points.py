"""The table of points, line by line: what flows there, and what a hook may do."""

import pytest

from checkrail.engine.asks import Approval
from checkrail.engine.errors import HookRefusedError, UnknownPointError
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.points import CONTRACTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
)

JSON = object

# point: value, wire name, what a hook may do besides going on, type of a replacement, of a stop
TABLE = {
    "on_session_start": (Session, "session", "block", None, None),
    "before_inbound": (InboundMessage, "content", "change block ask", None, str),
    "before_run": (JSON, "parameters", "change block", None, None),
    "on_run_start": (JSON, "parameters", "change block ask", JSON, None),
    "before_llm_call": (
        ModelRequest,
        "request",
        "change block ask",
        AssistantMessage,
        AssistantMessage,
    ),
    "after_llm_call": (
        AssistantMessage,
        "message",
        "change block ask retry",
        None,
        AssistantMessage,
    ),
    "before_tool_call": (ToolCall, "tool_call", "change block ask", ToolResult, None),
    "after_tool_call": (ToolResult, "tool_result", "change block", None, None),
    "on_tool_error": (ToolResult, "tool_result", "change block", None, None),
    "before_final_response": (
        AssistantMessage,
        "message",
        "change block ask retry",
        None,
        AssistantMessage,
    ),
    "query_end": (AgentResponse, "response", "change", None, None),
    "on_result": (JSON, "output", "change block ask", None, None),
    "before_outbound": (OutboundMessage, "content", "change block ask", None, None),
    "after_run": (RunResult, "result", "", None, None),
    "on_run_error": (RunError, "error", "", None, None),
    "on_session_end": (Session, "session", "", None, None),
}

RESULTS = {
    None: "not here",
    str: "a reply",
    JSON: {"any": "data"},
    AssistantMessage: AssistantMessage(content="instead"),
    ToolResult: ToolResult(content="instead"),
}


def allowed_at(point):
    _, _, may, replace, stop = TABLE[point]
    words = {"continue", *may.split()} - {"change"}
    words |= {"fail"} if "block" in words else set()
    words |= {"replace"} if replace else set()
    return words | ({"stop"} if stop else set())


def lanes_at(point):
    may = TABLE[point][2].split()
    lanes = ["transform"] if "change" in may else []
    lanes += ["gate"] if "block" in may else []
    return [*lanes, "observe"]


def outcome_at(point, decision):
    _, _, _, replace, stop = TABLE[point]
    return {
        "continue": Continue(),
        "block": Block("no"),
        "ask": Ask("may it?"),
        "retry": Retry("again"),
        "replace": Replace(RESULTS[replace]),
        "stop": Stop(RESULTS[stop]),
        "fail": Fail("broken"),
    }[decision]


def may_block(point, lane):
    return lane != "observe" and "block" in allowed_at(point)


LANES = ["transform", "gate", "observe"]
HONOURED = [(point, lane) for point in TABLE for lane in lanes_at(point)]
REFUSED = [(point, lane) for point in TABLE for lane in LANES if lane not in lanes_at(point)]
CELLS = [
    (point, lane, str(decision))
    for point in TABLE
    for lane in lanes_at(point)
    for decision in Decision
]
GOOD = [
    (point, lane, decision)
    for point, lane, decision in CELLS
    if decision == "continue" or (lane != "observe" and decision in allowed_at(point))
]
BAD = [cell for cell in CELLS if cell not in GOOD]


def test_there_are_these_sixteen_points_in_this_order():
    assert [str(point) for point in HookPoint] == list(TABLE)
    assert list(CONTRACTS) == list(HookPoint)


@pytest.mark.parametrize("point", TABLE)
def test_the_contract_of_a_point_is_its_line_of_the_table(point):
    value, wire, may, replace, stop = TABLE[point]
    contract = CONTRACTS[HookPoint(point)]
    said = {word for word in ("change", "block", "ask", "retry") if getattr(contract, word)}
    assert said == set(may.split())
    assert (contract.value, contract.wire) == (value, wire)
    assert (contract.replace, contract.stop) == (replace, stop)
    assert {str(decision) for decision in contract.decisions} == allowed_at(point)


@pytest.mark.parametrize("point", TABLE)
def test_the_lanes_of_a_point_default_first(point):
    assert list(CONTRACTS[HookPoint(point)].lanes) == lanes_at(point)


@pytest.mark.parametrize("point", TABLE)
async def test_a_hook_that_says_no_lane_gets_the_default_one(point, sample):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="plain")
    verdict = await registry.fire(point, sample(point))
    assert {record.lane for record in verdict.records} == {lanes_at(point)[0]}


@pytest.mark.parametrize(("point", "lane"), HONOURED)
def test_a_lane_that_the_point_has_is_accepted(point, lane):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="h", lane=lane)
    assert [bound.lane for bound in registry.bound_hooks(point)] == [lane]


@pytest.mark.parametrize(("point", "lane"), REFUSED)
def test_a_lane_that_the_point_does_not_have_is_refused(point, lane):
    with pytest.raises(HookRefusedError, match=rf"'h'.*{point}.*{lane}"):
        HookRegistry().register(lambda event: None, point, name="h", lane=lane)


@pytest.mark.parametrize(("point", "lane", "decision"), GOOD)
async def test_an_allowed_decision_is_taken(point, lane, decision, sample):
    asked = []

    async def approve(question):
        asked.append(question)
        return Approval(approved=True)

    registry = HookRegistry(ask=approve)
    registry.register(lambda event: outcome_at(point, decision), point, name="h", lane=lane)
    verdict = await registry.fire(point, sample(point))
    assert verdict.records[1].decision == decision
    assert verdict.records[1].failure is None
    assert verdict.decision == ("continue" if decision == "ask" else decision)
    assert len(asked) == (decision == "ask")


@pytest.mark.parametrize(("point", "lane", "decision"), BAD)
async def test_a_decision_that_is_not_allowed_is_a_breach_that_names_everything(
    point, lane, decision, sample
):
    registry = HookRegistry()
    registry.register(lambda event: outcome_at(point, decision), point, name="culprit", lane=lane)
    verdict = await registry.fire(point, sample(point))
    ending = verdict.records[1]
    assert (ending.kind, ending.failure) == ("hook_failed", "invalid")
    assert verdict.decision == ("continue" if lane == "observe" else "fail")
    assert "culprit" in ending.error
    assert point in ending.error
    assert decision in ending.error.lower()
    if lane != "observe":
        assert all(word in ending.error.lower() for word in allowed_at(point)), ending.error


async def test_an_observer_that_decides_is_told_that_it_may_only_continue(sample):
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "before_run", name="culprit", lane="observe")
    verdict = await registry.fire("before_run", {})
    assert "continue" in verdict.records[1].error.lower()


@pytest.mark.parametrize(("point", "lane", "decision"), BAD)
def test_a_decision_that_can_be_seen_is_refused_at_registration(point, lane, decision):
    registry = HookRegistry()
    with pytest.raises(HookRefusedError) as refusal:
        registry.register(
            lambda event: None,
            point,
            name="culprit",
            lane=lane,
            decisions=frozenset({Decision(decision)}),
        )
    message = str(refusal.value)
    allowed = {"continue"} if lane == "observe" else allowed_at(point)
    assert all(word in message for word in {"culprit", point, decision, *allowed})
    assert registry.list() == []


@pytest.mark.parametrize(("point", "lane"), [at for at in HONOURED if may_block(*at)])
def test_on_error_block_is_accepted_where_a_hook_may_block(point, lane):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="h", lane=lane, on_error="block")
    assert registry.has(point)


@pytest.mark.parametrize(("point", "lane"), [at for at in HONOURED if not may_block(*at)])
@pytest.mark.parametrize("said", ["block", {"timeout": "block"}])
def test_on_error_block_is_refused_where_it_cannot_be_honoured(point, lane, said):
    with pytest.raises(HookRefusedError, match=r"'h'.*block"):
        HookRegistry().register(lambda event: None, point, name="h", lane=lane, on_error=said)


@pytest.mark.parametrize("filled", [False, True])
async def test_firing_a_point_that_does_not_exist_raises(filled):
    registry = HookRegistry()
    if filled:
        registry.register(print, "before_run")
    inner = HookRegistry().scope(parent=registry.scope())
    for fires in (registry, registry.scope(), inner):
        with pytest.raises(UnknownPointError, match=r"before_lunch.*before_run"):
            await fires.fire("before_lunch", {})


def test_a_point_that_does_not_exist_cannot_be_asked_about_or_registered_for():
    registry = HookRegistry()
    for attempt in (
        lambda: registry.has("before_lunch"),
        lambda: registry.scope().has("before_lunch"),
        lambda: registry.list("before_lunch"),
        lambda: registry.register(print, "before_lunch"),
    ):
        with pytest.raises(UnknownPointError, match=r"before_lunch.*before_run"):
            attempt()


def test_a_misspelt_point_is_met_with_the_right_spelling():
    with pytest.raises(UnknownPointError, match="did you mean 'before_tool_call'"):
        HookRegistry().has("before_tool_cal")


@pytest.mark.parametrize("point", [point for point in TABLE if TABLE[point][0] is not JSON])
async def test_a_value_of_another_type_is_refused_when_fired(point):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="h")
    with pytest.raises(TypeError, match=rf"{point}.*{TABLE[point][0].__name__}.*dict"):
        await registry.fire(point, {})


@pytest.mark.parametrize("point", ["before_run", "on_run_start", "on_result"])
@pytest.mark.parametrize("value", [None, True, 1.5, "text", [1, {"two": None}], {}])
async def test_run_input_and_output_are_any_json_data(point, value):
    registry = HookRegistry()
    registry.register(lambda event: None, point, name="h")
    assert (await registry.fire(point, value)).value == value


async def test_only_query_end_may_carry_nothing(sample):
    registry = HookRegistry()
    seen = []
    registry.register(lambda event: seen.append(event.value), "query_end", "before_tool_call")
    await registry.fire("query_end", None)
    assert seen == [None]
    with pytest.raises(TypeError):
        await registry.fire("before_tool_call", None)
