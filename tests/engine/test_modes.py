"""Shadow and off: trying a policy before it is enforced."""

import asyncio

import pytest

from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Reject, Retry, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage

POINT = "after_llm_call"
VALUE = AssistantMessage(content="hello")


def rejects(event):
    raise Reject("no")


SAYS = {
    "block": lambda event: Block("no"),
    "fail": lambda event: Fail("no"),
    "ask": lambda event: Ask("may it?"),
    "retry": lambda event: Retry("again"),
    "stop": lambda event: Stop("enough"),
    "continue": lambda event: Continue(),
    "reject": rejects,
}


async def watched(fn, lane="transform", **options):
    """Fire with one shadow hook, followed by hooks that note what they saw."""
    asked, seen = [], []

    async def ask(question):
        asked.append(question)
        return Approval(approved=True)

    registry = HookRegistry(ask=ask)
    registry.register(fn, POINT, name="s", lane=lane, mode="shadow", **options)
    for later in ("transform", "gate", "observe"):
        registry.register(
            lambda event, value: seen.append((value, event.original)),
            POINT,
            name=later,
            lane=later,
            priority=200,
        )
    scope = registry.scope(run_id="r")
    verdict = await scope.fire(POINT, VALUE)
    assert (verdict.decision, verdict.value, verdict.hook) == ("continue", VALUE, None)
    assert seen == [(VALUE, VALUE)] * 3
    assert (asked, list(verdict.inject)) == ([], [])
    shadow = [record for record in verdict.records if record.hook == "s"]
    assert [record.shadow for record in shadow] == [True, True]
    assert [record.mode for record in shadow] == ["shadow", "shadow"]
    others = [record for record in verdict.records if record.hook != "s"]
    assert not any(record.shadow for record in others)
    return shadow[1], scope


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("decision", SAYS)
async def test_a_shadow_hooks_decision_is_recorded_and_has_no_effect(lane, decision):
    ending, _ = await watched(SAYS[decision], lane)
    said = "block" if decision == "reject" else decision
    assert ending.decision == said
    assert ending.kind == ("hook_blocked" if said in ("block", "fail") else "hook_complete")


async def test_a_shadow_change_is_recorded_and_later_hooks_see_the_value_unchanged():
    ending, _ = await watched(lambda event: Continue("changed", last=True, inject=[{"n": 1}]))
    assert ending.changed
    assert (ending.before, ending.after.content) == (VALUE, "changed")


async def test_a_shadow_redaction_keeps_no_values_and_redacts_nothing():
    ending, _ = await watched(lambda event: Continue("changed", redacted=True))
    assert ending.redacted
    assert (ending.before, ending.after) == (None, None)


async def raises(event):
    raise ValueError("boom")


async def hangs(event):
    await asyncio.sleep(10)


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize(
    ("fn", "failure"),
    [(raises, "error"), (hangs, "timeout"), (lambda event: 5, "invalid")],
)
async def test_a_shadow_failure_is_recorded_and_has_no_effect(lane, fn, failure):
    ending, _ = await watched(fn, lane, timeout=0.01, on_error="block")
    assert (ending.kind, ending.failure) == ("hook_failed", failure)


async def test_a_shadow_failure_does_not_even_block_before_a_run():
    registry = HookRegistry()
    registry.register(raises, "before_run", name="s", mode="shadow")
    assert (await registry.fire("before_run", {})).decision == "continue"


async def test_a_shadow_hook_uses_no_budget():
    registry = HookRegistry(max_retries=1)
    registry.register(lambda event: Retry("x"), POINT, name="s", mode="shadow", max_retries=1)
    registry.register(lambda event: Retry("y"), POINT, name="h", lane="gate")
    scope = registry.scope(run_id="r")
    verdicts = [await scope.fire(POINT, VALUE) for _ in range(2)]
    assert [verdict.decision for verdict in verdicts] == ["retry", "fail"]
    assert {verdict.records[1].decision for verdict in verdicts} == {"retry"}


async def test_a_shadow_observer_is_marked():
    registry = HookRegistry()
    registry.register(lambda event: None, POINT, name="s", lane="observe", mode="shadow")
    verdict = await registry.fire(POINT, VALUE)
    assert [record.shadow for record in verdict.records] == [True, True]


@pytest.mark.parametrize("options", [{"mode": "off"}, {"enabled": False}])
async def test_a_hook_that_is_off_is_not_called_and_not_there(options):
    registry, calls = HookRegistry(), []
    spec = registry.register(lambda event: calls.append(1), POINT, name="h", **options)
    assert spec.mode == "off"
    assert not registry.has(POINT)
    assert [known.name for known in registry.list()] == ["h"]
    verdict = await registry.fire(POINT, VALUE)
    assert (calls, verdict.records) == ([], ())
