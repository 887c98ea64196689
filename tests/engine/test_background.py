"""Observers in the background: held by their registry, and awaited when it closes."""

import asyncio

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Block
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


def slow(seen):
    async def observer(event):
        await asyncio.sleep(0.02)
        seen.append(event.verdict.decision)

    return observer


async def test_the_caller_does_not_wait_and_closing_does():
    registry, seen = HookRegistry(), []
    registry.register(slow(seen), POINT, background=True)
    await registry.fire(POINT, {})
    assert seen == []
    await registry.aclose()
    assert seen == ["continue"]


async def test_they_are_observers_without_being_told():
    registry = HookRegistry()
    registry.register(slow([]), POINT, name="h", background=True)
    assert [bound.lane for bound in registry.bound_hooks(POINT)] == ["observe"]


@pytest.mark.parametrize("lane", ["transform", "gate"])
def test_only_observers_can_run_in_the_background(lane):
    with pytest.raises(HookRefusedError, match=r"'h'.*background"):
        HookRegistry().register(print, POINT, name="h", lane=lane, background=True)


async def test_they_run_after_a_block_too():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Block("no"), POINT, name="b")
    registry.register(slow(seen), POINT, name="h", background=True)
    await registry.fire(POINT, {})
    await registry.aclose()
    assert seen == ["block"]


async def test_they_survive_the_callers_cancellation():
    registry, seen = HookRegistry(), []
    started = asyncio.Event()

    async def waits(event):
        started.set()
        await asyncio.sleep(10)

    registry.register(slow(seen), POINT, name="h", background=True)
    registry.register(waits, POINT, name="w", lane="observe")
    task = asyncio.create_task(registry.fire(POINT, {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await registry.aclose()
    assert seen == ["continue"]


async def test_they_are_under_their_timeout_and_recorded(told):
    registry = HookRegistry(told.append)

    async def hangs(event):
        await asyncio.sleep(10)

    def fails(event):
        raise ValueError("boom")

    registry.register(hangs, POINT, name="hangs", background=True, timeout=0.02)
    registry.register(fails, POINT, name="fails", background=True)
    verdict = await registry.fire(POINT, {})
    assert verdict.decision == "continue"
    await registry.aclose()
    ends = {record.hook: record.failure for record in told if record.kind == "hook_failed"}
    assert ends == {"hangs": "timeout", "fails": "error"}
    assert len(told) == 4


async def test_they_may_start_others_and_closing_waits_for_those_too():
    registry, seen = HookRegistry(), []

    async def fires(event):
        await asyncio.sleep(0)
        await registry.fire("before_run", {})

    registry.register(fires, POINT, name="h", background=True)
    registry.register(slow(seen), "before_run", name="inner", background=True)
    await registry.fire(POINT, {})
    await registry.aclose()
    assert seen == ["continue"]


async def test_conditions_hold_for_them():
    registry, seen = HookRegistry(), []
    for name, met in (("yes", True), ("no", False)):
        registry.register(
            lambda event, *, name=name: seen.append(name),
            POINT,
            name=name,
            background=True,
            when=lambda event, *, met=met: met,
        )
    await registry.fire(POINT, {})
    await registry.aclose()
    assert seen == ["yes"]


async def test_the_registry_of_an_inner_level_waits_for_its_own():
    server, agent, seen = HookRegistry(), HookRegistry(), []
    agent.register(slow(seen), POINT, name="h", background=True)
    await agent.scope(parent=server.scope()).fire(POINT, {})
    await agent.aclose()
    assert seen == ["continue"]


async def test_the_registry_of_an_outer_level_waits_for_its_own():
    server, agent, seen = HookRegistry(), HookRegistry(), []
    server.register(slow(seen), POINT, name="h", background=True)
    agent.register(lambda event: None, POINT, name="other", background=True)
    await agent.scope(parent=server.scope()).fire(POINT, {})
    await server.aclose()
    assert seen == ["continue"]
    await agent.aclose()


async def test_an_observer_that_will_not_end_does_not_keep_a_registry_from_closing(
    short_grace, forever, told
):
    registry = HookRegistry(told.append)
    registry.register(forever, POINT, name="h", background=True, timeout=0.02)
    await registry.fire(POINT, {})
    await registry.aclose()
    assert [record.failure for record in told] == [None, "timeout"]
    assert "has not ended" in told[-1].error


async def test_closing_twice_or_without_anything_to_wait_for_is_fine():
    registry = HookRegistry()
    await registry.aclose()
    await registry.aclose()
    assert not registry.has(POINT)
