"""Retries are counted: for each hook, and for the run."""

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Block, Retry
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage

POINT = "after_llm_call"
VALUE = AssistantMessage(content="hello")


def retries(registry, name, point=POINT, **options):
    registry.register(lambda event: Retry(f"{name} says no"), point, name=name, **options)


async def decisions(scope, times, point=POINT):
    return [str((await scope.fire(point, VALUE)).decision) for _ in range(times)]


@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_hook_has_three_retries_in_a_run(lane):
    registry = HookRegistry()
    retries(registry, "h", lane=lane)
    assert await decisions(registry.scope(run_id="r"), 5) == ["retry"] * 3 + ["fail"] * 2


@pytest.mark.parametrize("granted", [0, 1, 5])
async def test_a_hook_can_be_given_another_number(granted):
    registry = HookRegistry()
    retries(registry, "h", max_retries=granted)
    assert await decisions(registry.scope(), granted + 1) == ["retry"] * granted + ["fail"]


async def test_a_run_has_ten_retries():
    registry = HookRegistry()
    retries(registry, "h", max_retries=99)
    assert await decisions(registry.scope(), 11) == ["retry"] * 10 + ["fail"]


async def test_a_run_can_be_given_another_number():
    registry = HookRegistry(max_retries=2)
    retries(registry, "h")
    assert await decisions(registry.scope(), 3) == ["retry", "retry", "fail"]


async def test_used_up_retries_fail_and_say_so():
    registry = HookRegistry(max_retries=2)
    retries(registry, "few", max_retries=1)
    scope = registry.scope()
    await scope.fire(POINT, VALUE)
    verdict = await scope.fire(POINT, VALUE)
    assert (verdict.decision, verdict.hook, verdict.code) == ("fail", "few", "retries_exhausted")
    assert "'few'" in verdict.reason
    assert "used up" in verdict.reason
    assert "few says no" in verdict.reason
    registry.replace(lambda event: Retry(), POINT, name="few", max_retries=5)
    verdicts = [await scope.fire(POINT, VALUE) for _ in range(2)]
    assert verdicts[0].decision == "retry"
    assert verdicts[1].decision == "fail"
    assert "the run" in verdicts[1].reason
    assert "2 retries" in verdicts[1].reason


async def test_each_gate_that_retried_is_charged():
    registry = HookRegistry(max_retries=4)
    retries(registry, "a", lane="gate")
    retries(registry, "b", lane="gate")
    assert await decisions(registry.scope(), 3) == ["retry", "retry", "fail"]


async def test_a_transform_hook_and_a_gate_are_both_charged():
    registry = HookRegistry(max_retries=2)
    retries(registry, "t")
    retries(registry, "g", lane="gate")
    assert await decisions(registry.scope(), 2) == ["retry", "fail"]


async def test_a_retry_that_something_stricter_overrules_is_still_charged():
    registry = HookRegistry(max_retries=1)
    retries(registry, "a", lane="gate")
    registry.register(lambda event: Block("no"), POINT, name="b", lane="gate")
    scope = registry.scope()
    assert await decisions(scope, 1) == ["block"]
    registry.unregister("b")
    assert await decisions(scope, 1) == ["fail"]


async def test_a_hook_has_one_budget_for_all_its_points():
    registry = HookRegistry()
    registry.register(lambda event: Retry("x"), POINT, "before_final_response", name="h")
    scope = registry.scope()
    assert await decisions(scope, 2) == ["retry"] * 2
    assert await decisions(scope, 2, "before_final_response") == ["retry", "fail"]


async def test_hooks_of_the_same_name_at_two_levels_have_budgets_of_their_own():
    server, agent = HookRegistry(), HookRegistry()
    retries(server, "h", lane="gate", max_retries=1)
    retries(agent, "h", lane="gate", max_retries=2)
    verdicts = await decisions(agent.scope(parent=server.scope()), 2)
    assert verdicts == ["retry", "fail"]


async def test_scopes_beneath_one_run_share_its_budget():
    server, agent = HookRegistry(), HookRegistry()
    retries(server, "h")
    run = server.scope(run_id="r")
    child = agent.scope(parent=run, agent_name="a")
    grandchild = agent.scope(parent=child, tool_call_id="t")
    assert await decisions(run, 1) == ["retry"]
    assert await decisions(child, 1) == ["retry"]
    assert await decisions(grandchild.bind(iteration=2), 2) == ["retry", "fail"]


async def test_another_run_has_a_budget_of_its_own():
    server = HookRegistry(max_retries=2)
    retries(server, "h")
    run = server.scope(run_id="r1")
    other = HookRegistry().scope(parent=run, run_id="r2", parent_run_id="r1")
    assert await decisions(run, 3) == ["retry", "retry", "fail"]
    assert await decisions(other, 3) == ["retry", "retry", "fail"]
    assert await decisions(server.scope(run_id="r3"), 1) == ["retry"]


@pytest.mark.parametrize("number", [-1, "3", 1.5, None])
def test_a_number_of_retries_that_is_none_is_refused(number):
    with pytest.raises(HookRefusedError, match=r"'h'.*max_retries"):
        HookRegistry().register(print, POINT, name="h", max_retries=number)


async def test_all_who_name_a_run_share_its_retries():
    registry = HookRegistry()
    retries(registry, "h")
    fired = [await registry.fire(POINT, VALUE, run_id="r") for _ in range(2)]
    fired += [await registry.scope(run_id="r").fire(POINT, VALUE) for _ in range(2)]
    fired += [await registry.fire(POINT, VALUE, run_id="other"), await registry.fire(POINT, VALUE)]
    assert [verdict.decision for verdict in fired] == ["retry"] * 3 + ["fail"] + ["retry"] * 2


async def test_runs_of_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr("checkrail.engine.registry.MAX_BUDGETS", 2)
    registry = HookRegistry()
    retries(registry, "h", max_retries=1)
    for run in ("a", "b", "c"):
        await registry.fire(POINT, VALUE, run_id=run)
    verdicts = [await registry.fire(POINT, VALUE, run_id=run) for run in ("c", "b", "a")]
    assert [verdict.decision for verdict in verdicts] == ["fail", "fail", "retry"]


async def test_the_record_says_that_retries_are_used_up():
    registry = HookRegistry()
    retries(registry, "h", max_retries=0)
    verdict = await registry.fire(POINT, VALUE)
    assert verdict.records[1].decision == "retry"
    assert verdict.records[1].reason == verdict.reason


async def test_a_run_that_goes_on_elsewhere_goes_on_with_its_retries():
    registry = HookRegistry(label="server")
    retries(registry, "h")
    scope = registry.scope(run_id="r")
    assert await decisions(scope, 2) == ["retry", "retry"]
    taken = scope.budget.used_by_hook()
    assert taken == {"server/h": 2}
    again = registry.scope(run_id="r")
    again.budget.resume(taken)
    assert again.budget.used_by_hook() == taken
    assert await decisions(again, 2) == ["retry", "fail"]
    assert again.budget.used_by_hook() == {"server/h": 3}


async def test_the_retries_of_a_whole_run_go_on_too():
    registry = HookRegistry(max_retries=3)
    retries(registry, "h", max_retries=99)
    scope = registry.scope()
    scope.budget.resume({"elsewhere/other": 2})
    assert await decisions(scope, 2) == ["retry", "fail"]
