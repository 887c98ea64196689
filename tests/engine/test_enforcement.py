"""Which hooks may change or refuse what passes a point."""

import pytest

from checkrail.engine.enforcement import enforcing_hooks, has_enforcing_hooks
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.registry import HookRegistry

AFTER = "after_llm_call"


def names(registry, *points, **ids):
    return [bound.spec.name for bound in enforcing_hooks(registry.scope(**ids), *points)]


def registered(**hooks):
    registry = HookRegistry()
    for name, options in hooks.items():
        registry.register(lambda event: None, AFTER, name=name, **options)
    return registry


def test_those_that_only_look_on_are_none():
    registry = registered(
        gate={"lane": "gate"},
        change={},
        watch={"lane": "observe"},
        trial={"mode": "shadow"},
    )
    assert sorted(names(registry, AFTER)) == ["change", "gate"]


def test_a_point_without_hooks_has_none():
    assert names(registered(), AFTER, "before_tool_call") == []


@pytest.mark.parametrize(("agent", "found"), [("support", ["own"]), ("other", [])])
def test_those_of_other_agents_are_none(agent, found):
    registry = registered(own={"agents": ["support"]})
    assert names(registry, AFTER, agent_name=agent) == found


def test_those_of_a_model_may_be_for_nobody_knows_which_one_answers():
    registry = registered(own={"models": ["gpt-*"]})
    assert names(registry, AFTER, model="claude") == ["own"]


def test_whether_there_is_one_in_some_lanes():
    registry = HookRegistry()
    registry.register(lambda event: None, "on_result", lane="gate")
    scope = registry.scope()
    assert has_enforcing_hooks(scope, HookPoint.ON_RESULT, Lane.GATE)
    assert has_enforcing_hooks(scope, HookPoint.ON_RESULT, Lane.TRANSFORM, Lane.GATE)
    assert not has_enforcing_hooks(scope, HookPoint.ON_RESULT, Lane.TRANSFORM)
    assert not has_enforcing_hooks(scope, HookPoint.BEFORE_RUN, Lane.GATE)
