"""A hook that will not end after its timeout is left behind, and touches nothing any more."""

import asyncio

import pytest

from checkrail.engine.outcomes import Block
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


@pytest.mark.parametrize(
    ("lane", "decision"),
    [("transform", "continue"), ("gate", "block"), ("observe", "continue")],
)
@pytest.mark.usefixtures("short_grace")
async def test_a_hook_that_swallows_its_cancellation_for_ever_is_left_behind(
    lane, decision, told, forever
):
    registry, seen = HookRegistry(told.append), []
    registry.register(forever, POINT, name="bad", lane=lane, timeout=0.02)
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    registry.register(lambda event: seen.append(2), POINT, name="obs", lane="observe")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, seen) == (decision, [1, 2])
    assert [record.kind for record in told[:2]] == ["hook_start", "hook_failed"]
    assert told[1].failure == "timeout"
    assert [record.record_id for record in verdict.records] == [r.record_id for r in told]


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.usefixtures("short_grace")
async def test_what_a_hook_that_was_left_behind_answers_in_the_end_is_discarded(raises, told):
    registry, calls, done = HookRegistry(told.append), [], asyncio.Event()

    async def hook(event):
        calls.append("h")
        end = asyncio.get_running_loop().time() + 0.2
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        done.set()
        if raises:
            raise ValueError("late")
        return Block("late")

    registry.register(hook, POINT, name="h", timeout=0.02)
    registry.register(lambda event: calls.append("next"), POINT, name="next")
    verdict = await registry.fire(POINT, {})
    told_then = list(told)
    await done.wait()
    await asyncio.sleep(0.01)
    assert (verdict.decision, calls, told) == ("continue", ["h", "next"], told_then)
    assert len(verdict.records) == 4


@pytest.mark.parametrize("waiting", [0, 0.3])
@pytest.mark.usefixtures("short_grace")
async def test_a_hook_that_was_left_behind_and_goes_on_at_last_calls_nobody(waiting, told):
    registry, calls, done = HookRegistry(told.append), [], asyncio.Event()

    async def hook(event):
        calls.append("h")
        end = asyncio.get_running_loop().time() + 0.2
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        done.set()

    async def slow(event):
        calls.append("next")
        await asyncio.sleep(waiting)

    registry.register(hook, POINT, name="h", timeout=0.02)
    registry.register(slow, POINT, name="next")
    registry.register(lambda event: calls.append("last"), POINT, name="last")
    verdict = await registry.fire(POINT, {})
    await done.wait()
    await asyncio.sleep(0.01)
    assert calls == ["h", "next", "last"]
    assert [record.hook for record in verdict.records] == ["h", "h", "next", "next", "last", "last"]
    assert [record.failure for record in told] == [None, "timeout", None, None, None, None]


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.usefixtures("short_grace")
async def test_a_condition_that_was_left_behind_starts_nothing_more(answer, told):
    registry, calls, done = HookRegistry(told.append), [], asyncio.Event()

    async def condition(event):
        end = asyncio.get_running_loop().time() + 0.2
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        asyncio.get_running_loop().call_later(0.02, done.set)
        return answer

    registry.register(
        lambda event: calls.append("h"), POINT, name="h", timeout=0.02, when=condition
    )
    registry.register(lambda event: calls.append("next"), POINT, name="next")
    verdict = await registry.fire(POINT, {})
    await done.wait()
    assert calls == ["next"]
    assert [record.failure for record in verdict.records] == [None, "timeout", None, None]
    assert len(told) == 4


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.usefixtures("short_grace")
async def test_a_condition_that_was_left_behind_leaves_the_hook_that_is_waited_for_alone(answer):
    registry, calls = HookRegistry(), []

    async def condition(event):
        end = asyncio.get_running_loop().time() + 0.2
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        return answer

    async def slow(event):
        await asyncio.sleep(0.3)
        calls.append("slow")

    registry.register(lambda event: calls.append("h"), POINT, timeout=0.02, when=condition)
    registry.register(slow, POINT, name="slow")
    verdict = await registry.fire(POINT, {})
    assert calls == ["slow"]
    assert [record.failure for record in verdict.records] == [None, "timeout", None, None]


@pytest.mark.usefixtures("short_grace")
async def test_a_timer_of_a_hook_that_was_left_behind_does_not_hit_the_caller(forever):
    registry = HookRegistry()

    async def hook(event):
        async with asyncio.timeout(0.15):
            await forever(event)

    registry.register(hook, POINT, name="h", timeout=0.02)
    await registry.fire(POINT, {})
    await asyncio.sleep(0.2)
