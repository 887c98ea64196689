"""The three lanes: who runs when, who sees what, and whose word counts."""

import asyncio
import itertools

import pytest

from checkrail.engine.outcomes import Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.points import Lane
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import AssistantMessage


def adds(registry, name, **options):
    """Register a transform hook that adds its name to the list that flows."""
    fn = options.pop("fn", lambda event, value: Continue([*value, name]))
    registry.register(fn, "before_run", name=name, **options)


def notes(registry, seen, name, answer=None, point="before_run", **options):
    """Register a hook that notes its name and what it saw, and answers."""

    def hook(event, value):
        seen.append(name)
        return answer

    registry.register(hook, point, name=name, **options)


async def test_lanes_run_one_after_the_other_whatever_the_priority():
    registry, seen = HookRegistry(), []
    notes(registry, seen, "o", lane="observe", priority=1)
    notes(registry, seen, "g", lane="gate", priority=2)
    notes(registry, seen, "t", lane="transform", priority=300)
    await registry.fire("before_run", {})
    assert seen == ["t", "g", "o"]


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_lower_priorities_first_then_by_registration(lane):
    registry, seen = HookRegistry(), []
    for name, priority in (("late", 200), ("first", -5), ("default", None), ("same", 100)):
        options = {} if priority is None else {"priority": priority}
        notes(registry, seen, name, lane=lane, **options)
    await registry.fire("before_run", {})
    assert seen == ["first", "default", "same", "late"]


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_outer_levels_come_first_whatever_the_priority(lane):
    server, run, agent, seen = HookRegistry(), HookRegistry(), HookRegistry(), []
    notes(agent, seen, "agent", lane=lane, priority=1)
    notes(run, seen, "run", lane=lane, priority=50)
    notes(server, seen, "server", lane=lane, priority=900)
    scope = agent.scope(parent=run.scope(parent=server.scope()))
    await scope.fire("before_run", {})
    assert seen == ["server", "run", "agent"]


async def test_hooks_of_an_outer_level_hold_beneath_it_and_not_the_other_way():
    server, agent, seen = HookRegistry(), HookRegistry(), []
    notes(server, seen, "server")
    notes(agent, seen, "agent")
    outer = server.scope(run_id="r")
    await agent.scope(parent=outer, agent_name="a").fire("before_run", {})
    assert seen == ["server", "agent"]
    await outer.fire("before_run", {})
    assert seen == ["server", "agent", "server"]


async def test_a_level_that_is_there_already_is_not_added_again():
    registry, seen = HookRegistry(), []
    notes(registry, seen, "h")
    scope = registry.scope(parent=registry.scope(run_id="r"), agent_name="a")
    verdict = await scope.fire("before_run", {})
    assert seen == ["h"]
    assert verdict.records[0].ids == {"run_id": "r", "agent_name": "a"}


async def test_the_same_name_can_be_used_at_two_levels():
    server, agent = HookRegistry(), HookRegistry()
    adds(server, "limit")
    adds(agent, "limit")
    assert (await agent.scope(parent=server.scope()).fire("before_run", [])).value == [
        "limit",
        "limit",
    ]


async def test_each_transform_hook_sees_the_value_as_left_and_the_original():
    registry, seen = HookRegistry(), []

    def hook(event, value):
        assert event.value is value
        seen.append((event.original, value))
        return Continue([*value, len(value)])

    for name in "abc":
        registry.register(hook, "before_run", name=name)
    verdict = await registry.fire("before_run", [])
    assert seen == [([], []), ([], [0]), ([], [0, 1])]
    assert verdict.value == [0, 1, 2]


ENDING = [Block("x"), Fail("x"), Retry("x"), Stop("x")]


@pytest.mark.parametrize("answer", ENDING)
async def test_the_first_other_decision_ends_the_transform_lane(answer, sample):
    registry, seen = HookRegistry(), []
    notes(registry, seen, "a", point="after_llm_call")
    notes(registry, seen, "b", answer, point="after_llm_call")
    notes(registry, seen, "c", Block("never"), point="after_llm_call")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert seen == ["a", "b"]
    assert (verdict.decision, verdict.hook) == (answer.decision, "b")


async def test_last_ends_the_lane_for_its_own_level_only():
    server, agent = HookRegistry(), HookRegistry()
    adds(server, "s1", fn=lambda event, value: Continue([*value, "s1"], last=True))
    adds(server, "s2")
    adds(agent, "a1")
    adds(agent, "a2", fn=lambda event: Continue(last=True))
    adds(agent, "a3")
    seen = []
    notes(server, seen, "gate", lane="gate")
    verdict = await agent.scope(parent=server.scope()).fire("before_run", [])
    assert verdict.value == ["s1", "a1"]
    assert seen == ["gate"]


@pytest.mark.parametrize("answer", [Retry("x"), Stop(AssistantMessage()), None])
async def test_gates_see_the_final_value_and_are_not_skipped(answer, sample):
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Continue("final"), "after_llm_call", name="t")
    registry.register(lambda event: answer, "after_llm_call", name="u")
    registry.register(
        lambda event, value: seen.append((value.content, event.original.content)),
        "after_llm_call",
        name="g",
        lane="gate",
    )
    await registry.fire("after_llm_call", sample("after_llm_call"))
    assert seen == [("final", "hello")]


async def test_gates_are_not_skipped_by_a_replacement(sample):
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Replace("cached"), "before_tool_call", name="cache")
    notes(registry, seen, "g", Block("no"), point="before_tool_call", lane="gate")
    verdict = await registry.fire("before_tool_call", sample("before_tool_call"))
    assert seen == ["g"]
    assert (verdict.decision, verdict.hook) == ("block", "g")


@pytest.mark.parametrize("answer", [Block("x"), Fail("x")])
async def test_gates_are_skipped_after_block_and_fail(answer):
    registry, seen = HookRegistry(), []
    notes(registry, seen, "t", answer)
    notes(registry, seen, "g", Fail("stricter"), lane="gate")
    verdict = await registry.fire("before_run", {})
    assert seen == ["t"]
    assert (verdict.decision, verdict.hook) == (answer.decision, "t")


@pytest.mark.parametrize("answer", [Continue({}), Continue(last=True), Continue({}, redacted=True)])
async def test_a_gate_cannot_change_anything(answer):
    registry = HookRegistry()
    registry.register(lambda event: answer, "before_run", name="g", lane="gate")
    verdict = await registry.fire("before_run", {"a": 1})
    assert (verdict.decision, verdict.value) == ("fail", {"a": 1})
    assert verdict.records[1].failure == "invalid"


# the strictest first
STRICT = {
    "fail": Fail("f"),
    "block": Block("b"),
    "retry": Retry("r"),
    "stop": Stop("s"),
    "continue": None,
}


@pytest.mark.parametrize("order", [*itertools.permutations(STRICT, 3)])
async def test_all_gates_run_and_the_strictest_wins(order, sample):
    registry, seen = HookRegistry(), []
    for name in order:
        notes(registry, seen, name, STRICT[name], point="after_llm_call", lane="gate")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert seen == list(order)
    assert verdict.decision == min(order, key=list(STRICT).index)


async def test_stop_is_stricter_than_replace(sample):
    for order in itertools.permutations([Stop("s"), Replace("r")]):
        registry = HookRegistry()
        for number, answer in enumerate(order):
            registry.register(
                lambda event, *, answer=answer: answer,
                "before_llm_call",
                name=f"g{number}",
                lane="gate",
            )
        verdict = await registry.fire("before_llm_call", sample("before_llm_call"))
        assert (verdict.decision, verdict.value.content) == ("stop", "s")


@pytest.mark.parametrize("transform", [Retry("t"), Stop("t"), None])
@pytest.mark.parametrize("gate", [Fail("g"), Block("g"), Retry("g"), Stop("g"), None])
async def test_the_strictest_wins_over_the_transform_lane_too(transform, gate, sample):
    registry = HookRegistry()
    registry.register(lambda event: transform, "after_llm_call", name="t")
    registry.register(lambda event: gate, "after_llm_call", name="g", lane="gate")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    ranks = [str(answer.decision if answer else "continue") for answer in (transform, gate)]
    winner = min(ranks, key=list(STRICT).index)
    assert verdict.decision == winner
    first = None if winner == "continue" else "tg"[ranks.index(winner)]
    assert verdict.hook == first


async def test_on_a_tie_the_first_wins():
    registry = HookRegistry()
    for name in ("one", "two"):
        registry.register(
            lambda event, *, name=name: Block(name, status=400),
            "before_run",
            name=name,
            lane="gate",
        )
    verdict = await registry.fire("before_run", {})
    assert (verdict.reason, verdict.hook) == ("one", "one")


@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize("answer", [*ENDING, None])
async def test_observers_always_run_and_see_the_verdict(lane, answer, sample):
    registry, seen = HookRegistry(), []
    registry.register(lambda event: answer, "after_llm_call", name="h", lane=lane)
    for name in ("o1", "o2"):
        registry.register(
            lambda event: seen.append(event.verdict), "after_llm_call", name=name, lane="observe"
        )
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert [told.decision for told in seen] == [verdict.decision] * 2
    assert [told.hook for told in seen] == [verdict.hook] * 2
    assert verdict.decision == (answer.decision if answer else "continue")


async def test_only_observers_see_a_verdict():
    registry, seen = HookRegistry(), []
    for lane in ("transform", "gate"):
        registry.register(
            lambda event: seen.append(event.verdict), "before_run", name=lane, lane=lane
        )
    await registry.fire("before_run", {})
    assert seen == [None, None]


async def test_an_error_of_an_observer_touches_nothing():
    registry, seen = HookRegistry(), []

    def bad(event):
        raise ValueError("boom")

    registry.register(bad, "before_run", name="bad", lane="observe")
    notes(registry, seen, "other", lane="observe")
    verdict = await registry.fire("before_run", {})
    assert (verdict.decision, seen) == ("continue", ["other"])
    assert verdict.records[1].failure == "error"


async def test_the_caller_waits_for_observers_one_after_the_other():
    registry, seen = HookRegistry(), []

    async def slow(event):
        seen.append("start")
        await asyncio.sleep(0.01)
        seen.append("end")

    registry.register(slow, "before_run", name="one", lane="observe")
    registry.register(slow, "before_run", name="two", lane="observe")
    await registry.fire("before_run", {})
    assert seen == ["start", "end", "start", "end"]


async def test_lanes_can_be_fired_one_after_the_other_and_what_the_first_said_stands(sample):
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Replace("cached"), "before_tool_call", name="t")
    registry.register(lambda event: seen.append("g"), "before_tool_call", name="g", lane="gate")
    registry.register(
        lambda event: seen.append(event.verdict.decision),
        "before_tool_call",
        name="o",
        lane="observe",
    )
    call = sample("before_tool_call")
    first = await registry.fire("before_tool_call", call, lanes=[Lane.TRANSFORM])
    assert (first.decision, seen) == ("replace", [])
    second = await registry.fire(
        "before_tool_call", call, lanes=[Lane.GATE, Lane.OBSERVE], after=first
    )
    assert (second.decision, second.value.content, second.hook) == ("replace", "cached", "t")
    assert seen == ["g", "replace"]
    assert [record.hook for record in second.records] == ["g", "g", "o", "o"]


async def test_a_refusal_of_lanes_that_were_fired_before_keeps_gates_out(sample):
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Block("no"), "before_tool_call", name="t")
    registry.register(lambda event: seen.append("g"), "before_tool_call", name="g", lane="gate")
    call = sample("before_tool_call")
    first = await registry.fire("before_tool_call", call, lanes=[Lane.TRANSFORM])
    second = await registry.fire("before_tool_call", call, lanes=[Lane.GATE], after=first)
    assert (second.decision, second.reason, seen) == ("block", "no", [])


async def test_without_observers_in_its_lanes_nobody_looks_on_in_the_background():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: seen.append(1), "on_result", name="b", background=True)
    await registry.fire("on_result", {}, lanes=[Lane.TRANSFORM, Lane.GATE])
    await registry.aclose()
    assert seen == []
