"""A hook that acts at one point and only looks on at another."""

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    HookRegistry,
    ModelRequest,
)
from checkrail.engine.errors import HookRefusedError

POINTS = ("before_llm_call", "after_llm_call")
LOOKS_ON = {"observes": frozenset({"after_llm_call"})}


class Watcher:
    """Notes where it was called and what was decided there."""

    def __init__(self, outcome=None):
        self.outcome = outcome
        self.seen = []

    def __call__(self, event):
        decision = None if event.verdict is None else event.verdict.decision
        self.seen.append((event.point, decision))
        return self.outcome if event.point == "before_llm_call" else None


def registered(watcher, **options):
    registry = HookRegistry()
    registry.register(watcher, *POINTS, **{"name": "w", "lane": "gate", **LOOKS_ON, **options})
    return registry


def test_its_lane_is_that_of_an_observer_there_and_its_own_elsewhere():
    registry = registered(Watcher())
    assert [registry.bound_hooks(point)[0].lane for point in POINTS] == ["gate", "observe"]
    registry = registered(Watcher(), lane=None)
    assert [registry.bound_hooks(point)[0].lane for point in POINTS] == ["transform", "observe"]


async def test_there_it_is_called_after_a_block_too_and_sees_the_verdict():
    watcher = Watcher()
    registry = registered(watcher)
    registry.register(lambda event: Block("no"), "after_llm_call", name="no")
    await registry.fire("before_llm_call", ModelRequest("m"))
    await registry.fire("after_llm_call", AssistantMessage("x"))
    assert watcher.seen == [("before_llm_call", None), ("after_llm_call", "block")]


async def test_its_conditions_are_for_where_it_acts():
    watcher = Watcher(Block("no"))
    registry = registered(watcher, models=["gpt-5"], when=lambda event: event.value.stream)
    verdict = await registry.fire("before_llm_call", ModelRequest("gpt-5"))
    assert verdict.decision == "continue"
    await registry.fire("after_llm_call", AssistantMessage("x", model="gpt-5-2026-01-01"))
    assert watcher.seen == [("after_llm_call", "continue")]
    verdict = await registry.fire("before_llm_call", ModelRequest("gpt-5", stream=True))
    assert verdict.decision == "block"


def test_a_failure_can_be_said_to_block_where_it_acts():
    registry = registered(Watcher(), on_error="block")
    policies = [registry.bound_hooks(point)[0].policy["error"] for point in POINTS]
    assert policies == ["block", "continue"]
    with pytest.raises(HookRefusedError, match="on_error: block cannot be honoured by observe"):
        registered(Watcher(), lane="observe", on_error="block", observes=frozenset())
