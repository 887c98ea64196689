"""Which hooks may change or refuse what passes a point."""

import pytest

from checkrail.engine.acting import acting
from checkrail.engine.registry import HookRegistry

AFTER = "after_llm_call"


def names(registry, *points, **ids):
    return [bound.spec.name for bound in acting(registry.scope(**ids), *points)]


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
