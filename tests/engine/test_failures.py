"""What goes wrong in a hook, and what `on_error` makes of it."""

import asyncio

import pytest

from checkrail.engine.containment import contain_tasks
from checkrail.engine.errors import (
    CheckrailError,
    InvalidOutcomeError,
    TimedOutError,
    UnreachableError,
)
from checkrail.engine.outcomes import Ask, Block, Continue, Reject, Retry, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import plain

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
async def test_at_the_end_of_a_query_only_a_breach_decides(fn, kind, sample):
    registry = HookRegistry()
    registry.register(fn, "query_end", name="bad", timeout=0.01)
    registry.register(lambda event: Continue("changed"), "query_end", name="good")
    verdict = await registry.fire("query_end", sample("query_end"))
    assert verdict.records[1].kind == "hook_failed"
    if kind == "invalid":
        assert (verdict.decision, verdict.code) == ("fail", "hook_invalid")
    else:
        assert (verdict.decision, verdict.value.content) == ("continue", "changed")


def crash(event):
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("point", "options", "level"),
    [
        ("before_run", {}, "ERROR"),
        ("before_run", {"on_error": "continue"}, "WARNING"),
        ("before_run", {"lane": "observe"}, "WARNING"),
        ("before_run", {"mode": "shadow"}, "WARNING"),
        ("on_result", {}, "WARNING"),
        ("on_result", {"lane": "gate"}, "ERROR"),
        ("on_result", {"on_error": {"timeout": "block"}}, "WARNING"),
        ("on_result", {"on_error": {"error": "block"}}, "ERROR"),
        ("on_run_finish", {}, "WARNING"),
        ("on_run_finish", {"on_error": "block"}, "ERROR"),
        ("on_run_finish", {"on_error": {"timeout": "block"}}, "WARNING"),
    ],
)
async def test_a_failure_is_a_warning_if_the_work_goes_on_and_an_error_if_not(
    point, options, level, sample, caplog
):
    registry = HookRegistry()
    registry.register(crash, point, **options)
    fired = "after_run" if point == "on_run_finish" else point
    await registry.fire(fired, sample(fired))
    assert [record.levelname for record in caplog.records] == [level]


async def test_an_observer_that_refuses_says_why():
    def refuse(event):
        raise Reject("the budget is spent")

    registry = HookRegistry()
    registry.register(refuse, POINT, lane="observe")
    ending = (await registry.fire(POINT, {})).records[1]
    assert "it returned Block (the budget is spent), but an observer can only" in ending.error


class Own(BaseException):
    pass


lanes = pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
suspending = pytest.mark.parametrize("suspends", [False, True])


def _raising(raised, *, suspends):
    async def hook(event):
        if suspends:
            await asyncio.sleep(0)
        raise raised

    return hook


@lanes
@suspending
@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit])
def test_what_is_meant_for_the_process_is_passed_on(raised, lane, suspends, told):
    registry, seen = HookRegistry(told.append), []
    hook = _raising(raised, suspends=suspends)
    registry.register(hook, POINT, name="h", lane=lane, on_error="continue")
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    with pytest.raises(raised):
        asyncio.run(registry.fire(POINT, {}))
    assert seen == []
    assert [record.kind for record in told] == ["hook_start", "hook_failed"]


@lanes
@suspending
@pytest.mark.parametrize("raised", [SystemExit(3), Own("no"), asyncio.CancelledError()])
def test_what_ends_processes_elsewhere_is_an_error_of_the_hook(raised, lane, suspends, told):
    registry, seen = HookRegistry(told.append), []
    hook = _raising(raised, suspends=suspends)
    registry.register(hook, POINT, name="h", lane=lane, on_error="continue")
    registry.register(lambda event: seen.append(1), POINT, name="next", lane=lane)
    assert asyncio.run(registry.fire(POINT, {})).decision == "continue"
    assert seen == [1]
    failed = told[1]
    assert (failed.hook, failed.kind, failed.failure) == ("h", "hook_failed", "error")
    assert type(raised).__name__ in failed.error


@lanes
@suspending
def test_an_interrupt_is_an_error_of_the_hook_where_the_process_is_ours(lane, suspends, told):
    registry = HookRegistry(told.append)
    hook = _raising(KeyboardInterrupt, suspends=suspends)
    registry.register(hook, POINT, name="h", lane=lane, on_error="continue")

    async def fire():
        contain_tasks()
        return await registry.fire(POINT, {})

    assert asyncio.run(fire()).decision == "continue"
    assert (told[1].failure, told[1].error) == ("error", "KeyboardInterrupt: ")


@pytest.mark.parametrize("raised", [SystemExit(3), Own("no"), KeyboardInterrupt()])
async def test_a_condition_that_ends_processes_elsewhere_closes_its_gate(raised):
    contain_tasks()
    registry = HookRegistry()

    def when(event):
        raise raised

    registry.register(lambda event: None, POINT, name="h", lane="gate", when=when)
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, verdict.hook) == ("block", "h")
    assert type(raised).__name__ in verdict.reason


@pytest.mark.parametrize("raised", [SystemExit(3), Own("no"), KeyboardInterrupt()])
async def test_a_hook_in_a_thread_or_in_the_background_ends_no_process(raised, told):
    contain_tasks()
    registry = HookRegistry(told.append)

    def hook(event):
        raise raised

    registry.register(hook, POINT, name="thread", thread=True)
    registry.register(hook, POINT, name="background", lane="observe", background=True)
    await registry.fire(POINT, {})
    await registry.aclose()
    failed = {record.hook: record.failure for record in told if record.failure}
    assert failed == {"thread": "error", "background": "error"}


@pytest.mark.parametrize("raised", [SystemExit(3), Own("no"), asyncio.CancelledError()])
async def test_a_sink_that_ends_processes_elsewhere_only_loses_a_record(raised, told, caplog):
    def sink(record):
        raise raised

    registry = HookRegistry([sink, told.append])
    registry.register(lambda event: None, POINT, name="h")
    assert (await registry.fire(POINT, {})).decision == "continue"
    assert [record.hook for record in told] == ["h", "h"]
    assert "a record sink failed" in caplog.text


def test_an_interrupt_in_a_sink_is_passed_on():
    def sink(record):
        raise KeyboardInterrupt

    registry = HookRegistry(sink)
    registry.register(lambda event: None, POINT, name="h")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(registry.fire(POINT, {}))


@pytest.mark.parametrize("raised", [SystemExit(3), Own("no"), asyncio.CancelledError()])
async def test_a_question_whose_handler_ends_processes_elsewhere_is_refused(raised):
    async def handler(question):
        raise raised

    registry = HookRegistry(ask=handler)
    registry.register(lambda event: Ask("May it?"), POINT, name="h")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, verdict.code) == ("block", "ask_failed")
    assert type(raised).__name__ in verdict.reason


class Exiting:
    def model_dump(self, mode):
        raise SystemExit(3)


class Interrupting:
    def model_dump(self, mode):
        raise KeyboardInterrupt


def test_a_value_that_ends_processes_elsewhere_is_told_by_its_type():
    assert "Exiting" in str(plain({"a": Exiting()}))
    with pytest.raises(KeyboardInterrupt):
        plain({"a": Interrupting()})


async def test_what_a_hook_waited_for_can_time_out_too():
    async def waits(event):
        raise TimedOutError("the run r1 took longer than 5 s")

    registry = HookRegistry()
    registry.register(waits, POINT, name="h", on_error="block")
    verdict = await registry.fire(POINT, {})
    assert (verdict.decision, verdict.status, verdict.code) == ("block", 504, "hook_timeout")
    assert verdict.reason == f"hook 'h' at {POINT} timed out: the run r1 took longer than 5 s"
    assert verdict.records[1].failure == "timeout"


async def test_a_caller_reads_what_is_public_of_an_error():
    class Odd(CheckrailError):
        public = "the moon is full"

    async def howls(event):
        raise Odd("at 10.0.0.7")

    registry = HookRegistry()
    registry.register(howls, POINT, name="h", on_error="block")
    verdict = await registry.fire(POINT, {})
    assert verdict.reason == f"hook 'h' at {POINT} failed: the moon is full"
    assert verdict.records[1].error == "Odd: at 10.0.0.7"
