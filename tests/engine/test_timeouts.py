"""Timeouts: what they cut off, what they leave alone, and what cannot be cut off."""

import asyncio
import time
from datetime import timedelta

import pytest

from checkrail.engine.outcomes import Continue
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


async def hangs(event):
    await asyncio.sleep(10)


def test_a_hook_has_five_seconds_unless_said():
    registry = HookRegistry()
    spec = registry.register(hangs, POINT)
    assert spec.timeout == 5
    assert registry.register(hangs, POINT, timeout=timedelta(minutes=1)).timeout == 60
    assert registry.register(hangs, POINT, timeout_seconds=7).timeout == 7
    assert registry.register(hangs, POINT, timeout=None).timeout == float("inf")


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_a_timeout_cancels_the_hook_and_nothing_else(lane):
    registry, seen = HookRegistry(), []

    async def hook(event):
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cleaned up")

    async def next_one(event):
        await asyncio.sleep(0)
        seen.append("next")

    registry.register(hook, POINT, name="h", lane=lane, timeout=0.02)
    registry.register(next_one, POINT, name="next", lane=lane)
    await registry.fire(POINT, {})
    assert seen == ["cleaned up", "next"]
    assert asyncio.current_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_several_hooks_can_time_out_one_after_the_other():
    registry = HookRegistry()
    for name in "abc":
        registry.register(hangs, POINT, name=name, timeout=0.01)
    verdict = await registry.fire(POINT, {})
    assert [record.failure for record in verdict.records[1::2]] == ["timeout"] * 3


async def test_each_hook_is_under_its_own_timeout():
    registry = HookRegistry()

    async def takes_a_moment(event):
        await asyncio.sleep(0.04)

    registry.register(takes_a_moment, POINT, name="patient", timeout=5)
    registry.register(hangs, POINT, name="hasty", timeout=0.02)
    registry.register(takes_a_moment, POINT, name="patient2", timeout=5)
    verdict = await registry.fire(POINT, {})
    failures = [record.failure for record in verdict.records[1::2]]
    assert failures == [None, "timeout", None]


async def test_a_late_answer_is_discarded():
    registry = HookRegistry()

    async def late(event):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return Continue("late")

    registry.register(late, POINT, name="late", timeout=0.01)
    verdict = await registry.fire(POINT, "value")
    assert (verdict.value, verdict.records[1].failure) == ("value", "timeout")


async def test_no_limit_means_no_limit():
    registry = HookRegistry()

    async def takes_a_moment(event):
        await asyncio.sleep(0.02)
        return Continue("done")

    registry.register(takes_a_moment, POINT, timeout=None)
    assert (await registry.fire(POINT, "value")).value == "done"


async def test_time_before_the_dispatch_is_awaited_does_not_count():
    registry = HookRegistry()

    async def quick(event):
        await asyncio.sleep(0.001)

    registry.register(quick, POINT, name="h", timeout=0.05)
    made = registry.fire(POINT, {})
    await asyncio.sleep(0.1)
    verdict = await made
    assert verdict.records[1].failure is None


async def quick(event):
    await asyncio.sleep(0.002)


async def test_time_that_a_sink_takes_does_not_count():
    registry = HookRegistry(lambda record: time.sleep(0.05))
    registry.register(lambda event: None, POINT, name="t")
    registry.register(quick, POINT, name="g", lane="gate", timeout=0.05)
    verdict = await registry.fire(POINT, {})
    assert [record.failure for record in verdict.records] == [None] * 4


async def test_time_that_another_hooks_condition_takes_does_not_count():
    registry = HookRegistry()

    def slowly_false(event):
        time.sleep(0.08)
        return False

    registry.register(quick, POINT, name="other", when=slowly_false)
    registry.register(quick, POINT, name="h", timeout=0.05)
    verdict = await registry.fire(POINT, {})
    assert [record.failure for record in verdict.records] == [None, None]


def blocks_the_loop():
    time.sleep(0.03)


def blocks_for_long(event):
    blocks_the_loop()
    return Continue("stands")


async def async_but_blocks_for_long(event):
    blocks_the_loop()
    return Continue("stands")


@pytest.mark.parametrize("fn", [blocks_for_long, async_but_blocks_for_long])
async def test_code_that_never_suspends_cannot_be_interrupted_and_its_answer_stands(fn):
    registry = HookRegistry()
    registry.register(fn, POINT, name="h", timeout=0.01)
    verdict = await registry.fire(POINT, {})
    assert verdict.value == "stands"
    assert verdict.records[1].failure is None
    assert verdict.records[1].overran


async def test_a_hook_that_overran_says_so_also_after_one_that_suspended():
    registry = HookRegistry()
    registry.register(quick, POINT, name="first")
    registry.register(blocks_for_long, POINT, name="h", timeout=0.01)
    verdict = await registry.fire(POINT, {})
    assert verdict.value == "stands"
    assert verdict.records[3].overran


async def test_a_hook_that_suspends_and_then_blocks_past_its_time_does_not_go_unnoticed():
    registry = HookRegistry()

    async def hook(event):
        await asyncio.sleep(0)
        blocks_the_loop()

    registry.register(hook, POINT, name="h", timeout=0.01)
    verdict = await registry.fire(POINT, {})
    ending = verdict.records[1]
    assert ending.failure == "timeout" or ending.overran


async def test_a_hook_that_overran_is_counted_and_logged_with_what_to_do(caplog):
    registry = HookRegistry()
    registry.register(lambda event: None, POINT, name="quick")
    registry.register(blocks_for_long, POINT, name="slow", timeout=0.01)
    for _ in range(3):
        await registry.fire(POINT, {})
    [told] = [each.getMessage() for each in caplog.records if "event loop" in each.getMessage()]
    assert told.startswith(f"hook 'slow' at {POINT} held the event loop for ")
    assert "timeout is 0.01 s" in told
    assert "thread: true" in told
    assert {name: each.count for name, each in registry.overruns.items()} == {"slow": 3}


async def test_an_observer_in_the_background_that_overran_is_logged(caplog):
    registry = HookRegistry()
    registry.register(
        blocks_the_loop_of, POINT, name="slow", timeout=0.01, lane="observe", background=True
    )
    await registry.fire(POINT, {})
    await registry.aclose()
    assert "hook 'slow' at " in caplog.text


def blocks_the_loop_of(event):
    blocks_the_loop()


async def test_hooks_that_are_waited_for_or_in_a_thread_hold_nobody_up(caplog):
    registry = HookRegistry()
    registry.register(blocks_the_loop_of, POINT, name="thread", timeout=5, thread=True)
    registry.register(lambda event: None, POINT, name="quick", timeout=0.01)
    registry.register(waits_for_ever, POINT, name="late", timeout=0.01)
    await registry.fire(POINT, {})
    assert registry.overruns == {}
    assert "event loop" not in caplog.text


async def waits_for_ever(event):
    await asyncio.sleep(60)


async def test_a_hook_in_time_did_not_overrun():
    registry = HookRegistry()
    registry.register(lambda event: None, POINT)
    registry.register(lambda event: Continue("x"), POINT)
    verdict = await registry.fire(POINT, {})
    assert not any(record.overran for record in verdict.records)


async def test_hooks_that_do_not_suspend_cost_no_timer_task_or_thread(monkeypatch):
    loop = asyncio.get_running_loop()

    def refuse(*_args, **_kwargs):
        raise AssertionError("something was scheduled")

    async def plain(event):
        return None

    async def condition(event):
        return True

    registry = HookRegistry()
    for lane in ("transform", "gate", "observe"):
        registry.register(plain, POINT, name=f"a-{lane}", lane=lane, when=condition)
        registry.register(lambda event: None, POINT, name=f"s-{lane}", lane=lane)
    for name in ("call_at", "call_later", "call_soon", "create_task", "run_in_executor"):
        monkeypatch.setattr(loop, name, refuse)
    verdict = await registry.fire(POINT, {})
    monkeypatch.undo()
    assert len(verdict.records) == 12


@pytest.mark.parametrize("answer", [False, True])
async def test_a_hook_whose_condition_used_up_its_time_is_not_called(answer):
    registry, calls = HookRegistry(), []

    async def condition(event):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return answer

    registry.register(
        lambda event: calls.append("h"), POINT, name="h", timeout=0.02, when=condition
    )
    verdict = await registry.fire(POINT, {})
    assert verdict.records[1].failure == "timeout"
    assert calls == []


async def test_a_hook_that_suspends_where_there_is_no_task_is_told_so():
    """As in a callback of the event loop, where nothing could ever wake it."""
    registry, caught = HookRegistry(), asyncio.get_running_loop().create_future()
    registry.register(quick, POINT, name="h")

    def callback():
        dispatch = registry.fire(POINT, {})
        try:
            dispatch.send(None)
        except RuntimeError as error:
            caught.set_result(str(error))

    asyncio.get_running_loop().call_soon(callback)
    assert "task" in await caught


async def test_a_registry_can_be_used_in_two_event_loops_at_once():
    registry = HookRegistry()

    async def hangs(event):
        await asyncio.sleep(10)

    registry.register(hangs, POINT, name="h", timeout=0.02)

    def elsewhere():
        return asyncio.run(registry.fire(POINT, {}))

    here = await registry.fire(POINT, {})
    there = await asyncio.to_thread(elsewhere)
    again = await registry.fire(POINT, {})
    assert [v.records[1].failure for v in (here, there, again)] == ["timeout"] * 3


def test_a_registry_can_be_used_in_one_event_loop_after_another():
    registry = HookRegistry()

    async def hangs(event):
        await asyncio.sleep(10)

    registry.register(hangs, POINT, name="h", timeout=0.02)
    verdicts = [asyncio.run(registry.fire(POINT, {})) for _ in range(2)]
    assert [verdict.records[1].failure for verdict in verdicts] == ["timeout"] * 2
