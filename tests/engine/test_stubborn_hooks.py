"""A hook that swallows its cancellation holds up its own dispatch, and nobody who is detached."""

import asyncio

import pytest

from checkrail.engine.asks import AnswerLater, Approval
from checkrail.engine.outcomes import Ask, Block, Continue
from checkrail.engine.registry import HookRegistry

POINT = "on_result"

lanes = pytest.mark.parametrize(
    ("lane", "decision"),
    [("transform", "continue"), ("gate", "block"), ("observe", "continue")],
)


def stubborn(swallows, *, answer=None, raises=None):
    """Make a hook that swallows so many cancellations, and ends with the next one."""

    async def hook(event):
        left = swallows
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                left -= 1
                if left < 0:
                    break
        if raises is not None:
            raise raises
        return answer

    return hook


@lanes
@pytest.mark.parametrize("raises", [None, ValueError("late")])
@pytest.mark.usefixtures("short_grace")
async def test_it_is_cancelled_again_until_it_ends_and_then_its_dispatch_goes_on(
    lane, decision, raises, told, caplog
):
    registry, seen = HookRegistry(told.append), []
    registry.register(stubborn(2, raises=raises), POINT, name="bad", lane=lane, timeout=0.02)
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    registry.register(lambda event: seen.append(2), POINT, name="obs", lane="observe")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, seen) == (decision, [1, 2])
    assert [record.failure for record in told[:2]] == [None, "timeout"]
    assert "had been cancelled 3 times" in told[1].error
    assert [record.record_id for record in verdict.records] == [r.record_id for r in told]
    named = [each.getMessage() for each in caplog.records if "has not ended" in each.getMessage()]
    assert len(named) == 1
    assert named[0].startswith(f"hook 'bad' at {POINT} was cancelled 2 times")
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.usefixtures("short_grace")
async def test_it_is_logged_again_while_it_stays(monkeypatch, caplog):
    monkeypatch.setattr("checkrail.engine.timeouts.LOG_EVERY", 3)
    registry = HookRegistry()
    registry.register(stubborn(5), POINT, name="bad", timeout=0.02)
    await registry.fire(POINT, {})
    named = [each.getMessage() for each in caplog.records if "has not ended" in each.getMessage()]
    assert [text.partition(" was cancelled ")[2].split()[0] for text in named] == ["2", "3", "6"]


@pytest.mark.usefixtures("short_grace")
async def test_it_holds_up_no_other_dispatch(forever):
    registry, seen = HookRegistry(), []
    registry.register(forever, POINT, name="bad", timeout=0.02)
    registry.register(lambda event: seen.append(1), "before_run", name="other")
    held = asyncio.create_task(registry.fire(POINT, {}))
    await asyncio.sleep(0.1)
    await registry.fire("before_run", {})
    assert (seen, held.done()) == ([1], False)


@pytest.mark.usefixtures("short_grace")
async def test_what_it_answers_in_the_end_is_discarded(told):
    registry, calls = HookRegistry(told.append), []
    registry.register(stubborn(1, answer=Block("late")), POINT, name="h", timeout=0.02)
    registry.register(lambda event: calls.append("next"), POINT, name="next")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, calls) == ("continue", ["next"])
    assert [record.failure for record in told] == [None, "timeout", None, None]


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.usefixtures("short_grace")
async def test_a_condition_that_swallows_its_cancellation_starts_nothing_more(answer, told):
    registry, calls = HookRegistry(told.append), []
    registry.register(
        lambda event: calls.append("h"),
        POINT,
        name="h",
        timeout=0.02,
        when=stubborn(1, answer=answer),
    )
    registry.register(lambda event: calls.append("next"), POINT, name="next")
    verdict = await registry.fire(POINT, {})
    assert calls == ["next"]
    assert [record.failure for record in verdict.records] == [None, "timeout", None, None]
    assert len(told) == 4


@pytest.mark.parametrize(
    ("lane", "decision", "status"),
    [("transform", "block", 504), ("gate", "block", 504), ("observe", "continue", None)],
)
@pytest.mark.usefixtures("short_grace")
async def test_whoever_fires_detached_stops_waiting(lane, decision, status, told, forever):
    registry, seen = HookRegistry(told.append), []
    registry.register(lambda event: seen.append(0), POINT, name="before", lane=lane)
    registry.register(forever, POINT, name="bad", lane=lane, timeout=0.02)
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    verdict = await registry.scope().fire_detached(POINT, {"a": 1}, run_id="r")
    assert (verdict.decision, verdict.status, verdict.value) == (decision, status, {"a": 1})
    assert (verdict.hook, verdict.code) == (("bad", "hook_timeout") if status else (None, None))
    assert [record.kind for record in told] == [
        "hook_start",
        "hook_complete",
        "hook_start",
        "hook_failed",
    ]
    assert (told[-1].failure, told[-1].ids) == ("timeout", {"run_id": "r"})
    assert "has not ended" in told[-1].error
    assert [record.record_id for record in verdict.records] == [r.record_id for r in told]
    assert seen == [0]


@pytest.mark.parametrize("raises", [None, ValueError("late")])
@pytest.mark.usefixtures("short_grace")
async def test_of_what_was_left_nothing_is_heard_any_more(raises, told):
    registry, seen, ended = HookRegistry(told.append), [], asyncio.Event()

    async def hook(event):
        try:
            await stubborn(3, answer=Block("late"), raises=raises)(event)
        finally:
            ended.set()

    registry.register(hook, POINT, name="h", timeout=0.02)
    registry.register(lambda event: seen.append("next"), POINT, name="next")
    verdict = await registry.scope().fire_detached(POINT, {})
    told_then = [*told]
    await ended.wait()
    await asyncio.sleep(0.01)
    assert (seen, told) == ([], told_then)
    assert [record.failure for record in verdict.records] == [None, "timeout"]


@pytest.mark.usefixtures("short_grace")
async def test_no_value_is_told_that_a_hook_which_was_left_might_have_redacted(told, forever):
    registry = HookRegistry(told.append)
    registry.register(lambda event: Continue({"text": "changed"}), POINT, name="change")
    registry.register(forever, POINT, name="bad", timeout=0.02)
    await registry.scope().fire_detached(POINT, {"text": "secret"})
    assert [record.redacted for record in told] == [False, True, False, False]
    assert all(record.before is None and record.after is None for record in told)


@pytest.mark.usefixtures("short_grace")
async def test_a_stricter_decision_stands_where_a_later_gate_was_left(forever):
    registry = HookRegistry()
    registry.register(lambda event: 5, POINT, name="broken", lane="gate")
    registry.register(forever, POINT, name="bad", lane="gate", timeout=0.02)
    verdict = await registry.scope().fire_detached(POINT, {})
    assert (verdict.decision, verdict.hook) == ("fail", "broken")


@pytest.mark.usefixtures("short_grace")
async def test_where_nothing_can_be_blocked_the_work_goes_on_without_the_hook(forever, sample):
    registry = HookRegistry()
    registry.register(forever, "query_end", name="bad", timeout=0.02)
    verdict = await registry.scope().fire_detached("query_end", sample("query_end"))
    assert (verdict.decision, verdict.records[1].failure) == ("continue", "timeout")


@pytest.mark.usefixtures("short_grace")
async def test_a_hook_that_ends_at_the_last_moment_is_not_left(told):
    registry, seen = HookRegistry(told.append), []

    async def slow(event):
        await asyncio.sleep(0.02)
        seen.append("slow")

    registry.register(stubborn(1), POINT, name="late", timeout=0.02)
    registry.register(slow, POINT, name="slow")
    verdict = await registry.scope().fire_detached(POINT, {})
    assert (verdict.decision, seen) == ("continue", ["slow"])
    assert [record.failure for record in told] == [None, "timeout", None, None]


async def test_a_detached_dispatch_gives_what_any_other_gives():
    registry = HookRegistry()
    scope = registry.scope()
    assert (await scope.fire_detached(POINT, {"a": 1}, run_id="r")).value == {"a": 1}
    registry.register(lambda event: Continue({"a": event.run_id}), POINT, name="t")
    registry.register(lambda event: Block("no"), POINT, name="g", lane="gate")
    verdict = await scope.fire_detached(POINT, {"a": 1}, run_id="r")
    assert (verdict.decision, verdict.subject) == ("block", {"a": "r"})
    some = await scope.fire_detached(POINT, {"a": 1}, run_id="r", lanes=("transform",))
    assert (some.decision, some.value) == ("continue", {"a": "r"})
    registry.register(lambda event: None, "after_run", name="o")
    with pytest.raises(TypeError, match="carries"):
        await scope.fire_detached("after_run", {})


async def test_a_person_is_waited_for_as_long_as_it_takes():
    async def ask(question):
        await asyncio.sleep(0.1)
        return Approval(approved=True)

    registry = HookRegistry(ask=ask)
    registry.register(lambda event: Ask("may it?"), POINT, name="h", timeout=0.02)
    assert (await registry.scope().fire_detached(POINT, {})).decision == "continue"


async def test_who_answers_later_is_heard_by_whoever_fires_detached():
    async def ask(question):
        raise AnswerLater

    registry = HookRegistry(ask=ask)
    registry.register(lambda event: Ask("may it?"), POINT, name="h")
    with pytest.raises(AnswerLater):
        await registry.scope().fire_detached(POINT, {})


@pytest.mark.parametrize("swallows", [0, 1, 2])
@pytest.mark.usefixtures("short_grace")
async def test_a_cancellation_of_whoever_fires_detached_gets_through(swallows, told):
    registry, started, seen = HookRegistry(told.append), asyncio.Event(), []

    async def hook(event):
        started.set()
        await stubborn(swallows)(event)

    registry.register(hook, POINT, name="h", timeout=0.5)
    registry.register(lambda event: seen.append("next"), POINT, name="next")
    task = asyncio.create_task(registry.scope().fire_detached(POINT, {}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == []
    if swallows == 0:
        assert [record.failure for record in told] == [None, "cancelled"]
