import asyncio
import inspect

import pytest

from checkrail import AssistantMessage, HookRegistry, ModelRequest, ToolCall, ToolResult
from checkrail.engine.asks import Approval
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.points import CONTRACTS, Decision, HookPoint, find_places
from checkrail.engine.values import AgentResponse
from checkrail.styles import LIVE, AgentEvent, HookDecision, Live, on

ANSWER = AssistantMessage("hello")
CALL = ToolCall(id="1", name="sql", args={"q": "select 1"})
RESULT = ToolResult(id="1", name="sql", content="ORA-00904", is_error=True, error="bad identifier")
REQUEST = ModelRequest(messages=[{"role": "user", "content": "hi"}])
VALUES = {
    AgentEvent.BEFORE_LLM_CALL: REQUEST,
    AgentEvent.AFTER_LLM_CALL: ANSWER,
    AgentEvent.BEFORE_TOOL_EXECUTION: CALL,
    AgentEvent.AFTER_TOOL_EXECUTION: RESULT,
    AgentEvent.ON_TOOL_ERROR: RESULT,
    AgentEvent.BEFORE_FINAL_RESPONSE: ANSWER,
    AgentEvent.QUERY_END: AgentResponse("bye"),
}
NOTE = {"role": "user", "content": "note"}


@pytest.fixture
def registry():
    return HookRegistry()


def test_the_events_are_the_seven_moments_of_a_loop_and_each_is_a_point():
    assert {str(event): find_places(event)[0].point for event in AgentEvent} == {
        "before_llm_call": "before_llm_call",
        "after_llm_call": "after_llm_call",
        "before_tool_execution": "before_tool_call",
        "after_tool_execution": "after_tool_call",
        "on_tool_error": "on_tool_error",
        "before_final_response": "before_final_response",
        "query_end": "query_end",
    }


def test_the_decisions_are_those_of_the_engine():
    assert {decision.name for decision in HookDecision} == {
        "CONTINUE",
        "RETRY",
        "FAIL",
        "STOP",
        "BLOCK",
        "REPLACE",
        "ASK",
    }


async def test_without_a_condition_it_always_acts(registry):
    seen = []
    on(registry, AgentEvent.AFTER_LLM_CALL).handle(effects=[lambda status: seen.append(1)])
    await registry.fire("after_llm_call", ANSWER)
    await registry.fire("after_llm_call", ANSWER)
    assert seen == [1, 1]


async def test_a_condition_that_does_not_hold_leaves_no_trace(registry):
    on(registry, "after_llm_call").when(lambda status: False).handle(HookDecision.BLOCK)
    verdict = await registry.fire("after_llm_call", ANSWER)
    assert (verdict.decision, verdict.records) == ("continue", ())


@pytest.mark.parametrize("kind", ["sync", "async", "suspending"])
async def test_condition_value_and_effects_are_sync_or_async(registry, kind):
    seen = []

    def condition(status):
        seen.append("condition")
        return True

    def effect(status):
        seen.append("effect")
        return "ignored"

    def value(status, current):
        seen.append("value")
        return AssistantMessage(current.content + "!")

    def styled(fn):
        if kind == "sync":
            return fn

        async def wrapped(*given):
            if kind == "suspending":
                await asyncio.sleep(0)
            return fn(*given)

        return wrapped

    on(registry, "after_llm_call").when(styled(condition)).handle(
        value=styled(value),
        effects=[styled(effect), styled(effect)],
    )
    verdict = await registry.fire("after_llm_call", ANSWER)
    assert verdict.value.content == "hello!"
    assert seen == ["condition", "effect", "effect", "value"]


async def test_conditions_said_one_after_the_other_all_have_to_hold(registry):
    asked = []

    def said(answer):
        async def condition(status):
            asked.append(answer)
            return answer

        return condition

    base = on(registry, "after_llm_call").when(said(True))
    base.when(said(False)).handle(HookDecision.BLOCK, reason="both")
    assert (await registry.fire("after_llm_call", ANSWER)).decision == "continue"
    base.handle(HookDecision.BLOCK, reason="one")
    assert (await registry.fire("after_llm_call", ANSWER)).reason == "one"
    assert asked == [True, False, True, False, True]


async def test_a_value_is_given_as_it_is_or_made(registry):
    on(registry, "after_llm_call").handle(value=AssistantMessage("given"))
    on(registry, "after_llm_call").handle(
        value=lambda status, current: AssistantMessage(current.content + ", made"),
    )
    assert (await registry.fire("after_llm_call", ANSWER)).value.content == "given, made"


async def test_a_text_stands_for_the_values_text(registry):
    on(registry, "after_llm_call").handle(value="shorter")
    assert (await registry.fire("after_llm_call", ANSWER)).value == AssistantMessage("shorter")


async def test_none_is_a_value_where_the_point_has_it(registry):
    on(registry, "query_end").handle(value=lambda status, current: None)
    assert (await registry.fire("query_end", AgentResponse("bye"))).value is None


async def test_effects_can_prepare_what_the_value_reads(registry):
    def look_up(status):
        status.flags["docs"] = "see the manual"

    def enrich(status, current):
        return ToolResult(id=current.id, name=current.name, content=status.flags["docs"])

    on(registry, "after_tool_execution").handle(value=enrich, effects=[look_up])
    assert (await registry.fire("after_tool_call", RESULT)).value.content == "see the manual"


async def test_retry_gives_its_reason_or_a_default_as_feedback(registry):
    on(registry, "before_final_response").when(lambda s: s.iteration == 1).handle(
        HookDecision.RETRY,
        reason="Put your plan into <plan>",
    )
    on(registry, "before_final_response").handle(HookDecision.RETRY)
    first = await registry.fire("before_final_response", ANSWER, iteration=1)
    assert (first.decision, first.reason) == ("retry", "Put your plan into <plan>")
    second = await registry.fire("before_final_response", ANSWER, iteration=2)
    assert second.reason == "Your answer was not accepted. Please answer again."


async def test_stop_ends_with_its_value(registry):
    on(registry, AgentEvent.BEFORE_LLM_CALL).handle(
        decision=HookDecision.STOP,
        value=lambda status, current: AssistantMessage("from the cache"),
    )
    verdict = await registry.fire("before_llm_call", REQUEST)
    assert (verdict.decision, verdict.value) == ("stop", AssistantMessage("from the cache"))


async def test_replace_stands_for_the_step(registry):
    on(registry, "before_tool_execution").handle(HookDecision.REPLACE, value="42")
    verdict = await registry.fire("before_tool_call", CALL)
    assert (verdict.decision, verdict.value.content) == ("replace", "42")


@pytest.mark.parametrize("decision", [HookDecision.FAIL, HookDecision.BLOCK])
async def test_fail_and_block_give_their_reason(registry, decision):
    on(registry, "before_tool_execution").handle(decision, reason="not today", name="closed")
    on(registry, "after_tool_execution").handle(decision, name="silent")
    verdict = await registry.fire("before_tool_call", CALL)
    assert (verdict.decision, verdict.reason, verdict.hook) == (decision, "not today", "closed")
    assert (
        "hook 'silent' at after_tool_call"
        in (await registry.fire("after_tool_call", RESULT)).reason
    )


async def test_ask_puts_its_reason_to_a_person():
    asked = []

    async def approve(question):
        asked.append(question.reason)
        return Approval(approved=True)

    registry = HookRegistry(ask=approve)
    on(registry, "before_tool_execution").handle(HookDecision.ASK, reason="May it?")
    assert (await registry.fire("before_tool_call", CALL)).decision == "continue"
    assert asked == ["May it?"]


@pytest.mark.parametrize("point", HookPoint)
@pytest.mark.parametrize("decision", Decision)
def test_a_decision_that_the_event_does_not_allow_is_refused_at_once(registry, point, decision):
    given = {"value": None} if decision in ("stop", "replace") else {}
    if decision in CONTRACTS[point].decisions:
        assert on(registry, point).handle(decision, **given).decisions == {decision}
    else:
        with pytest.raises(HookRefusedError, match=f"{point} does not allow {decision}"):
            on(registry, point).handle(decision, **given)
        assert registry.list() == []


@pytest.mark.parametrize("decision", [HookDecision.STOP, HookDecision.REPLACE])
def test_a_decision_without_its_value_is_refused_at_once(registry, decision):
    with pytest.raises(HookRefusedError, match=f"{decision} has no value"):
        on(registry, "before_llm_call").handle(decision)


@pytest.mark.parametrize(
    "decision",
    [HookDecision.RETRY, HookDecision.FAIL, HookDecision.BLOCK, HookDecision.ASK],
)
def test_a_value_that_nobody_would_read_is_refused(registry, decision):
    with pytest.raises(HookRefusedError, match=f"{decision} takes no value.*`reason`"):
        on(registry, "after_llm_call").handle(decision, value="x")


def test_other_mistakes_are_refused_where_they_are_made(registry):
    begun = on(registry, "after_llm_call")
    with pytest.raises(HookRefusedError, match="did you mean 'retry'"):
        begun.handle("retyr")
    with pytest.raises(HookRefusedError, match="effect is str, which cannot be called"):
        begun.handle(effects=["append"])
    with pytest.raises(HookRefusedError, match="condition or effect is bool"):
        begun.when(True).handle()
    with pytest.raises(HookRefusedError, match=r"Say it with .when\(condition\)"):
        begun.handle(when=lambda event: True)


@pytest.mark.parametrize("event", [event for event in AgentEvent if event != "query_end"])
async def test_a_wrong_type_from_a_value_ends_the_work_as_fail(registry, event):
    on(registry, event).handle(value=lambda status, current: 42, name="wrong")
    verdict = await registry.fire(event, VALUES[event])
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    assert "not int" in verdict.reason
    assert "'wrong'" in verdict.reason


@pytest.mark.parametrize("given", [{"value": 42}, {"value": lambda status, current: None}])
async def test_stop_with_a_wrong_value_ends_the_work_as_fail(registry, given):
    on(registry, "before_llm_call").handle(HookDecision.STOP, **given)
    verdict = await registry.fire("before_llm_call", REQUEST)
    assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")


async def test_an_error_in_any_of_the_functions_is_a_failure_of_the_hook(registry):
    def boom(*given):
        raise RuntimeError("boom")

    on(registry, "after_llm_call").when(boom).handle(name="condition")
    on(registry, "after_llm_call").handle(effects=[boom], name="effect")
    on(registry, "after_llm_call").handle(value=boom, name="value")
    verdict = await registry.fire("after_llm_call", ANSWER)
    assert verdict.decision == "continue"
    failed = [(r.hook, r.failure) for r in verdict.records if r.kind == "hook_failed"]
    assert failed == [("condition", "error"), ("effect", "error"), ("value", "error")]


async def test_a_slow_effect_is_under_the_hooks_timeout(registry):
    async def hang(status):
        await asyncio.sleep(10)

    on(registry, "after_llm_call").handle(effects=[hang], timeout=0.05, on_error="block")
    assert (await registry.fire("after_llm_call", ANSWER)).status == 504


def test_a_hook_is_named_after_its_condition_value_or_effect(registry):
    def missing_plan(status): ...

    def _enrich(status, current): ...

    def note(status): ...

    event = AgentEvent.BEFORE_FINAL_RESPONSE
    names = [
        on(registry, event).when(missing_plan).handle(value=_enrich).name,
        on(registry, event).when(lambda status: True).handle(value=_enrich, effects=[note]).name,
        on(registry, event).handle(effects=[note]).name,
        on(registry, event).handle(effects=[note]).name,
        on(registry, event).handle(HookDecision.RETRY).name,
        on(registry, event).handle(name="mine").name,
    ]
    assert names == [
        "missing_plan",
        "enrich",
        "note",
        "note_2",
        "retry_before_final_response",
        "mine",
    ]


def test_a_name_that_is_taken_is_refused(registry):
    on(registry, "query_end").handle(name="mine")
    with pytest.raises(HookRefusedError, match="there is a hook of that name"):
        on(registry, "query_end").handle(name="mine")


def test_the_source_is_the_line_that_says_handle(registry):
    line = inspect.currentframe().f_lineno + 1
    spec = on(registry, "query_end").handle()
    assert spec.source == f"{__file__}:{line}"
    assert on(registry, "query_end").handle(source="agents.yaml:3").source == "agents.yaml:3"


async def test_the_options_of_every_hook_are_there(registry):
    spec = on(registry, "before_tool_execution").handle(
        HookDecision.BLOCK,
        lane="gate",
        tools=["sql"],
        priority=7,
    )
    assert (spec.lane, spec.priority) == ("gate", 7)
    assert (await registry.fire("before_tool_call", CALL)).decision == "block"
    assert (await registry.fire("before_tool_call", ToolCall(name="web"))).decision == "continue"


async def test_in_shadow_mode_effects_are_left_out(registry):
    live = Live()

    def mark(status):
        status.flags["seen"] = True
        status.conversation_history.append(NOTE)

    on(registry, "after_llm_call").handle(HookDecision.RETRY, effects=[mark], mode="shadow")
    verdict = await registry.fire("after_llm_call", ANSWER, metadata={LIVE: live})
    assert (verdict.decision, verdict.inject, live.flags) == ("continue", (), {})
    assert [(r.decision, r.shadow) for r in verdict.records[1:]] == [("retry", True)]


async def test_what_effects_append_to_the_conversation_is_injected(registry):
    def guide(status):
        status.conversation_history.append(NOTE)

    on(registry, "on_tool_error").handle(effects=[guide, guide])
    on(registry, "before_final_response").handle(HookDecision.RETRY, effects=[guide])
    assert (await registry.fire("on_tool_error", RESULT)).inject == (NOTE, NOTE)
    verdict = await registry.fire("before_final_response", ANSWER)
    assert (verdict.decision, verdict.inject) == ("retry", (NOTE,))


async def test_a_change_and_an_injection_go_together(registry):
    on(registry, "after_tool_execution").handle(
        value="better",
        effects=[lambda status: status.conversation_history.append(NOTE)],
    )
    verdict = await registry.fire("after_tool_call", RESULT)
    assert (verdict.value.content, verdict.inject) == ("better", (NOTE,))


@pytest.mark.parametrize("decision", ["block", "fail", "stop"])
async def test_what_was_appended_is_dropped_when_the_work_ends(registry, decision):
    given = {"value": "bye"} if decision == "stop" else {}
    effects = [lambda status: status.conversation_history.append(NOTE)]
    on(registry, "after_llm_call").handle(decision, effects=effects, **given)
    assert (await registry.fire("after_llm_call", ANSWER)).inject == ()


async def test_nothing_said_and_nothing_changed_is_a_plain_go_on(registry):
    on(registry, "after_llm_call").handle(effects=[lambda status: None])
    verdict = await registry.fire("after_llm_call", ANSWER)
    assert verdict.value is ANSWER
    assert [record.changed for record in verdict.records] == [False, False]


def explode(status):
    raise KeyError("plan")


@pytest.mark.parametrize("decision", ["block", "fail", "ask", "retry"])
async def test_a_hook_that_refuses_fails_closed(registry, decision):
    on(registry, "after_llm_call").when(explode).handle(decision)
    verdict = await registry.fire("after_llm_call", ANSWER)
    assert (verdict.decision, verdict.code) == ("block", "hook_error")


@pytest.mark.parametrize("decision", ["block", "retry"])
async def test_a_hook_whose_effects_fail_lets_nothing_pass_either(registry, decision):
    on(registry, "after_llm_call").handle(decision, effects=[explode])
    assert (await registry.fire("after_llm_call", ANSWER)).decision == "block"


@pytest.mark.parametrize("options", [{"on_error": "continue"}, {"failure_mode": "FailOpen"}])
async def test_a_hook_that_refuses_may_say_that_it_fails_open(registry, options):
    on(registry, "after_llm_call").when(explode).handle("fail", **options)
    assert (await registry.fire("after_llm_call", ANSWER)).decision == "continue"


@pytest.mark.parametrize(
    "act", [{"decision": "stop", "value": "x"}, {"value": ANSWER}, {"effects": [print]}]
)
async def test_a_hook_that_refuses_nothing_is_passed_over(registry, act):
    on(registry, "after_llm_call").when(explode).handle(**act)
    assert (await registry.fire("after_llm_call", ANSWER)).decision == "continue"


@pytest.mark.parametrize("event", ["before_tool_execution", "after_tool_call", "on_tool_error"])
def test_a_decision_that_is_not_allowed_is_told_before_what_else_is_wrong(registry, event):
    with pytest.raises(HookRefusedError, match=f"{event} does not allow stop. Allowed are: "):
        on(registry, event).when(explode).handle("stop")
