"""What goes wrong in a hook, and what `on_error` makes of it."""

import asyncio

import pytest

from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.outcomes import Block, Continue, Retry, Stop
from checkrail.engine.registry import HookRegistry

POINT = "on_result"  # it has all three lanes, and `continue` is its default


async def raises(event):
    raise ValueError("secret detail")


async def raises_later(event):
    await asyncio.sleep(0)
    raise ValueError("secret detail")


async def raises_timeout(event):
    await asyncio.sleep(0)
    raise TimeoutError("its own")


async def cancels_itself(event):
    raise asyncio.CancelledError


async def awaits_something_cancelled(event):
    inner = asyncio.create_task(asyncio.sleep(10))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner


async def hangs(event):
    await asyncio.sleep(10)


async def swallows_once(event):
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return Block("too late")


def damages(event):
    event.value["city"] = "Rome"


def damages_context(event):
    event.metadata["x"] = 1


async def unreachable(event):
    raise UnreachableError("no route")


def says_invalid(event):
    raise InvalidOutcomeError("no JSON")


def returns_a_bare_value(event):
    return {"city": "Rome"}


def returns_what_is_not_allowed(event):
    return Retry("again")


def stops_without_value(event):
    return Stop()


def generates(event):
    return (number for number in range(3))


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("cannot be told")


def raises_what_cannot_be_told(event):
    raise Odd


def raises_stop_iteration(event):
    raise StopIteration


FAILURES = {
    "error": [
        raises,
        raises_later,
        raises_timeout,
        cancels_itself,
        awaits_something_cancelled,
        damages,
        damages_context,
        raises_what_cannot_be_told,
        raises_stop_iteration,
    ],
    "timeout": [hangs, swallows_once],
    "unreachable": [unreachable],
    "invalid": [
        says_invalid,
        returns_a_bare_value,
        returns_what_is_not_allowed,
        stops_without_value,
        generates,
    ],
}
CASES = [(fn, kind) for kind, fns in FAILURES.items() for fn in fns]
ONE_EACH = [(fns[0], kind) for kind, fns in FAILURES.items()]
STATUS = {"timeout": 504, "unreachable": 502, "error": 500, "invalid": 500}

cases = pytest.mark.parametrize(("fn", "kind"), CASES)
one_each = pytest.mark.parametrize(("fn", "kind"), ONE_EACH)


async def fired(fn, point=POINT, **options):
    registry = HookRegistry()
    timeout = 0.02 if fn in FAILURES["timeout"] else 5.0
    registry.register(fn, point, name="bad", timeout=timeout, **options)
    seen = []
    registry.register(lambda event: seen.append(1), point, name="after", lane="observe")
    verdict = await registry.fire(point, {"city": "Bern"})
    assert seen == [1]
    return verdict


def check(verdict, kind, decision):
    ending = verdict.records[1]
    assert (ending.kind, ending.failure, ending.hook) == ("hook_failed", kind, "bad")
    assert ending.decision is None
    assert ending.error
    assert (verdict.decision, verdict.value) == (decision, {"city": "Bern"})
    assert verdict.hook == (None if decision == "continue" else "bad")


@cases
async def test_in_the_transform_lane_a_failure_goes_on_and_a_breach_fails(fn, kind):
    verdict = await fired(fn)
    check(verdict, kind, "fail" if kind == "invalid" else "continue")


@cases
async def test_in_the_gate_lane_a_failure_blocks_and_a_breach_fails(fn, kind):
    verdict = await fired(fn, lane="gate")
    check(verdict, kind, "fail" if kind == "invalid" else "block")


@cases
async def test_in_the_observe_lane_a_failure_is_recorded(fn, kind):
    check(await fired(fn, lane="observe"), kind, "continue")


@cases
async def test_before_a_run_a_failure_blocks_and_a_breach_fails(fn, kind):
    check(await fired(fn, "before_run"), kind, "fail" if kind == "invalid" else "block")


@one_each
async def test_before_a_run_observers_still_touch_nothing(fn, kind):
    check(await fired(fn, "before_run", lane="observe"), kind, "continue")


@one_each
@pytest.mark.parametrize("lane", ["transform", "gate"])
@pytest.mark.parametrize(
    ("said", "decision"),
    [("continue", "continue"), ("ignore", "continue"), ("block", "block")],
)
async def test_on_error_decides_for_every_kind(fn, kind, lane, said, decision):
    check(await fired(fn, lane=lane, on_error=said), kind, decision)


@one_each
@pytest.mark.parametrize("said", ["continue", "block", "ignore"])
async def test_on_error_for_one_kind_leaves_the_others_as_they_are(fn, kind, said):
    others = next(other for other in FAILURES if other != kind)
    decision = "block" if said == "block" else "continue"
    check(await fired(fn, on_error={kind: said}), kind, decision)
    default = "fail" if kind == "invalid" else "continue"
    check(await fired(fn, on_error={others: said}), kind, default)


@cases
async def test_a_block_that_comes_from_a_failure_says_so(fn, kind):
    verdict = await fired(fn, on_error="block")
    assert verdict.status == STATUS[kind]
    assert "'bad'" in verdict.reason
    assert POINT in verdict.reason
    assert "blocked" not in verdict.reason
    assert "refused" not in verdict.reason


async def test_what_the_exception_said_is_in_the_record_and_not_in_the_answer():
    verdict = await fired(raises, on_error="block")
    assert "secret detail" in verdict.records[1].error
    assert "secret detail" not in verdict.reason


@one_each
@pytest.mark.parametrize("options", [{"lane": "gate"}, {"on_error": "block"}])
async def test_a_gate_that_fails_keeps_failing_closed(fn, kind, options):
    registry = HookRegistry()
    registry.register(fn, POINT, name="bad", timeout=0.01, **options)
    for _ in range(5):
        verdict = await registry.fire(POINT, {})
        assert verdict.decision in ("block", "fail")
        assert verdict.records[1].failure == kind


async def test_a_failure_does_not_keep_the_hooks_after_it_from_running():
    registry = HookRegistry()
    registry.register(raises, POINT, name="bad")
    registry.register(lambda event: Continue("changed"), POINT, name="good")
    assert (await registry.fire(POINT, {})).value == "changed"


async def test_a_failure_that_blocks_ends_the_transform_lane():
    registry, seen = HookRegistry(), []
    registry.register(raises, POINT, name="bad", on_error="block")
    for lane in ("transform", "gate"):
        registry.register(lambda event: seen.append(1), POINT, name=lane, lane=lane)
    assert (await registry.fire(POINT, {})).decision == "block"
    assert seen == []


async def test_all_gates_run_after_one_has_failed():
    registry, seen = HookRegistry(), []
    registry.register(raises, POINT, name="bad", lane="gate")
    registry.register(lambda event: seen.append(1), POINT, name="next", lane="gate")
    registry.register(returns_a_bare_value, POINT, name="worse", lane="gate")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, verdict.hook, seen) == ("fail", "worse", [1])


@cases
async def test_at_the_end_of_a_query_no_failure_decides(fn, kind, sample):
    registry = HookRegistry()
    registry.register(fn, "query_end", name="bad", timeout=0.01)
    registry.register(lambda event: Continue("changed"), "query_end", name="good")
    verdict = await registry.fire("query_end", sample("query_end"))
    assert verdict.records[1].kind == "hook_failed"
    assert (verdict.decision, verdict.value.content) == ("continue", "changed")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
@pytest.mark.parametrize("suspends", [False, True])
def test_what_is_meant_for_the_process_is_passed_on(raised, lane, suspends, told):
    registry, seen = HookRegistry(told.append), []

    async def hook(event):
        if suspends:
            await asyncio.sleep(0)
        raise raised

    registry.register(hook, POINT, name="h", lane=lane, on_error="continue")
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    with pytest.raises(raised):
        asyncio.run(registry.fire(POINT, {}))
    assert seen == []
    assert [record.kind for record in told] == ["hook_start", "hook_failed"]
