import asyncio
import copy
import dataclasses
import functools
import logging
import subprocess
import sys

import pytest

import checkrail.hooks
from checkrail import Block, CheckrailError, Continue, HookRegistry, Reject
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import RunError, RunResult
from checkrail.hooks import RejectRun, RunContext, RunHooks, User, load_hooks

IDS = {
    "run_id": "r1",
    "thread_id": "t1",
    "assistant_id": "a1",
    "agent_name": "research",
    "user": User(identity="ada"),
}


async def fire(hooks, point, value, timeout=10.0, **context):
    registry = HookRegistry()
    hooks.register(registry, timeout)
    return await registry.fire(point, value, **{**IDS, **context})


def test_what_users_import_is_there():
    wanted = {"RejectRun", "RunContext", "RunHooks", "User", "load_hooks"}
    assert wanted <= {*checkrail.hooks.__all__}
    assert RunHooks.RejectRun is RunHooks().RejectRun is RejectRun


def test_importing_the_run_hooks_is_light():
    code = "import sys, checkrail.hooks; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "ruamel", "cel", "jsonschema_rs", "watchfiles", "click", "rich"}
    assert heavy & {name.split(".")[0] for name in run.stdout.split()} == set()


async def test_a_hook_sees_only_its_context():
    hooks = RunHooks()
    seen = []

    @hooks.before_run
    async def look(*given):
        seen.append(given)

    await fire(hooks, "before_run", {"q": 1})
    ((context,),) = seen
    assert isinstance(context, RunContext)
    assert (context.run_id, context.input) == ("r1", {"q": 1})


async def test_every_event_reaches_its_own_hooks_in_order():
    hooks = RunHooks()
    seen = []
    for point in ("before_run", "after_run", "on_run_error"):
        for number in (1, 2):
            getattr(hooks, point)(
                functools.partial(lambda told, ctx: seen.append(told), (point, number))
            )

    await fire(hooks, "before_run", {})
    await fire(hooks, "after_run", RunResult())
    await fire(hooks, "on_run_error", RunError())
    assert seen == [(p, n) for p in ("before_run", "after_run", "on_run_error") for n in (1, 2)]


@pytest.mark.parametrize("point", ["before_run", "after_run", "on_run_error"])
def test_decorators_are_bare_or_called_and_give_the_function_back(point):
    hooks = RunHooks()
    decorator = getattr(hooks, point)

    def bare(ctx): ...

    async def called(ctx): ...

    def optioned(ctx): ...

    assert decorator(bare) is bare
    assert decorator()(called) is called
    assert decorator(name="third", timeout=2, priority=7)(optioned) is optioned
    specs = hooks.specs()
    assert [spec.name for spec in specs] == ["bare", "called", "third"]
    assert [spec.timeout for spec in specs] == [10, 10, 2]
    assert specs[2].priority == 7


async def test_sync_async_and_awaitable_answers_all_run():
    hooks = RunHooks()
    seen = []

    @hooks.before_run
    def plain(ctx):
        seen.append("sync")

    @hooks.before_run
    async def slow(ctx):
        await asyncio.sleep(0)
        seen.append("async")

    @hooks.before_run
    def handed_on(ctx):
        return slow(ctx)

    await fire(hooks, "before_run", {})
    assert seen == ["sync", "async", "async"]


async def test_reject_run_refuses_with_its_status():
    hooks = RunHooks()

    @hooks.before_run
    async def paid(ctx):
        raise hooks.RejectRun("Active subscription required", status_code=402)

    verdict = await fire(hooks, "before_run", {})
    assert (verdict.decision, verdict.status) == ("block", 402)
    assert (verdict.reason, verdict.hook) == ("Active subscription required", "paid")


async def test_reject_run_has_its_own_defaults():
    hooks = RunHooks()

    @hooks.before_run
    def closed(ctx):
        raise hooks.RejectRun

    verdict = await fire(hooks, "before_run", {})
    assert (verdict.reason, verdict.status) == ("Run rejected by hook", 429)


async def test_a_plain_reject_refuses_too():
    hooks = RunHooks()

    @hooks.before_run
    def closed(ctx):
        raise Reject("no", status=418)

    assert (await fire(hooks, "before_run", {})).status == 418


async def test_an_exception_refuses_the_run_with_500_every_time():
    hooks = RunHooks()

    @hooks.before_run
    async def broken(ctx):
        raise RuntimeError("the database is down")

    registry = HookRegistry()
    hooks.register(registry)
    for _ in range(3):
        verdict = await registry.fire("before_run", {})
        assert (verdict.decision, verdict.status) == ("block", 500)
        assert verdict.reason == "hook 'broken' at before_run failed with RuntimeError"


async def test_a_timeout_refuses_the_run_with_504():
    hooks = RunHooks()

    @hooks.before_run
    async def hangs(ctx):
        await asyncio.sleep(10)

    verdict = await fire(hooks, "before_run", {}, timeout=0.05)
    assert (verdict.decision, verdict.status) == ("block", 504)
    assert verdict.reason == "hook 'hangs' at before_run timed out after 0.05 s"


async def test_a_hooks_own_timeout_comes_before_the_common_one():
    hooks = RunHooks()

    @hooks.before_run(timeout=0.05)
    async def hangs(ctx):
        await asyncio.sleep(10)

    assert (await fire(hooks, "before_run", {}, timeout=60)).status == 504


@pytest.mark.parametrize("answer", [{"q": 2}, "text", 1, Continue({"q": 2}), Continue(last=True)])
async def test_what_a_hook_returns_is_ignored(answer):
    hooks = RunHooks()
    seen = []

    @hooks.before_run
    async def first(ctx):
        return answer

    @hooks.before_run
    def second(ctx):
        seen.append(ctx.input)
        return answer

    verdict = await fire(hooks, "before_run", {"q": 1})
    assert (verdict.decision, verdict.value, seen) == ("continue", {"q": 1}, [{"q": 1}])
    assert [record.kind for record in verdict.records][1::2] == ["hook_complete"] * 2


@pytest.mark.parametrize("answer", [Block("no"), RejectRun("no")])
async def test_a_refusal_that_was_returned_is_ignored_but_not_silently(answer, caplog):
    hooks = RunHooks()

    @hooks.before_run
    async def confused(ctx):
        return answer

    with caplog.at_level(logging.WARNING, "checkrail"):
        verdict = await fire(hooks, "before_run", {})
    assert verdict.decision == "continue"
    told = type(answer).__name__
    assert f"run hook 'confused' returned {told}, which is ignored: raise RejectRun" in caplog.text


@pytest.mark.parametrize(
    ("point", "value"), [("after_run", RunResult()), ("on_run_error", RunError())]
)
@pytest.mark.parametrize("error", [RejectRun("no"), RuntimeError("boom")])
async def test_errors_after_a_run_touch_nothing(point, value, error):
    hooks = RunHooks()
    seen = []

    @getattr(hooks, point)
    async def broken(ctx):
        raise error

    @getattr(hooks, point)
    async def next_one(ctx):
        seen.append(ctx.run_id)

    verdict = await fire(hooks, point, value)
    assert (verdict.decision, seen) == ("continue", ["r1"])
    assert verdict.records[1].kind == "hook_failed"


async def test_a_late_observer_is_left_behind():
    hooks = RunHooks()

    @hooks.after_run
    async def hangs(ctx):
        await asyncio.sleep(10)

    verdict = await fire(hooks, "after_run", RunResult(), timeout=0.05)
    assert (verdict.decision, verdict.records[1].failure) == ("continue", "timeout")


@pytest.mark.parametrize("failure", [RejectRun("first", 402), KeyError("x")])
async def test_the_first_refusal_is_the_answer_and_no_later_hook_is_called(failure):
    hooks = RunHooks()
    seen = []

    @hooks.before_run
    def first(ctx):
        seen.append(1)
        raise failure

    @hooks.before_run
    def charge(ctx):
        seen.append(2)
        raise hooks.RejectRun("second", status_code=429)

    verdict = await fire(hooks, "before_run", {})
    assert (verdict.hook, verdict.decision, seen) == ("first", "block", [1])


async def test_hooks_of_several_sets_in_one_registry_stop_at_the_first_refusal_too():
    registry = HookRegistry()
    seen = []
    for number in (1, 2, 3):
        hooks = RunHooks()

        @hooks.before_run
        def look(ctx, number=number):
            seen.append(number)
            if number == 2:
                raise RejectRun("no", 402)

        hooks.register(registry)
    assert (await registry.fire("before_run", {})).status == 402
    assert seen == [1, 2]


async def test_a_run_hook_in_lane_gate_sees_what_others_made_of_the_input():
    registry = HookRegistry()
    hooks = RunHooks()
    seen = []
    hooks.before_run(lane="gate")(lambda ctx: seen.append(ctx.input))
    hooks.register(registry)
    registry.register(lambda event, value: Continue({"q": 2}), "before_run")
    await registry.fire("before_run", {"q": 1})
    assert seen == [{"q": 2}]


def test_specs_transform_and_observe_with_ten_seconds():
    hooks = RunHooks()
    hooks.before_run(lambda ctx: None)
    hooks.after_run(lambda ctx: None)
    registry = HookRegistry()
    hooks.register(registry)
    assert [spec.timeout for spec in registry.list()] == [10, 10]
    assert [bound.lane for bound in registry.bound_hooks("before_run")] == [Lane.TRANSFORM]
    assert [bound.lane for bound in registry.bound_hooks("after_run")] == [Lane.OBSERVE]


def test_names_are_made_unique():
    hooks = RunHooks()

    @hooks.before_run
    @hooks.after_run
    async def audit(ctx): ...

    hooks.on_run_error(audit)
    assert [spec.name for spec in hooks.specs()] == ["audit", "audit_2", "audit_3"]
    registry = HookRegistry()
    registry.swap(hooks.specs())
    assert len(registry.list()) == 3


def test_two_sets_share_a_registry():
    registry = HookRegistry()
    for _ in range(2):
        hooks = RunHooks()

        @hooks.before_run
        def audit(ctx): ...

        hooks.register(registry)
    assert [spec.name for spec in registry.list()] == ["audit", "audit_2"]


def test_a_spec_says_where_the_function_is():
    hooks = RunHooks()

    @hooks.before_run
    async def audit(ctx): ...

    (spec,) = hooks.specs()
    assert spec.source == f"{__file__}:{audit.__code__.co_firstlineno}"
    assert (spec.target_name, spec.places[0].point) == ("audit", HookPoint.BEFORE_RUN)


@pytest.mark.parametrize("fn", [lambda: None, lambda ctx, more: None, lambda *, ctx: None])
def test_a_function_that_does_not_take_the_context_is_refused(fn):
    hooks = RunHooks()
    with pytest.raises(HookRefusedError, match=r"given only its context.*Take \(ctx\)"):
        hooks.before_run(fn)
    assert hooks.specs() == []


async def test_a_function_that_does_not_tell_its_parameters_is_called_all_the_same():
    hooks = RunHooks()
    hooks.before_run(max)
    assert "TypeError" in (await fire(hooks, "before_run", {})).reason


def test_what_is_no_function_is_refused_where_it_is_written():
    with pytest.raises(HookRefusedError, match="cannot be called"):
        RunHooks().after_run(3)
    with pytest.raises(HookRefusedError, match="there is no option 'tmeout'"):
        RunHooks().after_run(tmeout=3)(lambda ctx: None)


async def test_matchers_and_shadow_mode_work_as_for_every_hook():
    hooks = RunHooks()

    @hooks.before_run(agents="coding")
    def other_agent(ctx):
        raise hooks.RejectRun

    @hooks.before_run(mode="shadow")
    def tried_out(ctx):
        raise hooks.RejectRun

    verdict = await fire(hooks, "before_run", {})
    assert verdict.decision == "continue"
    assert [(r.hook, r.shadow, r.decision) for r in verdict.records[1::2]] == [
        ("tried_out", True, "block"),
    ]


async def test_a_sync_function_can_be_moved_into_a_thread_and_an_async_one_cannot():
    hooks = RunHooks()

    @hooks.before_run(thread=True)
    def blocking(ctx):
        raise hooks.RejectRun("from a thread")

    assert (await fire(hooks, "before_run", {})).reason == "from a thread"

    @hooks.before_run(thread=True)
    async def waiting(ctx): ...

    with pytest.raises(HookRefusedError, match="cannot be moved into a thread"):
        hooks.register(HookRegistry())


CTX = RunContext("r1", "t1", "a1", "research", User("ada"), {"tags": ["x"]}, {"q": 1})


async def test_hooks_can_be_fired_on_a_context_that_a_test_makes():
    hooks = RunHooks()
    seen = []
    hooks.before_run(seen.append)
    hooks.after_run(seen.append)
    hooks.on_run_error(seen.append)
    after = dataclasses.replace(CTX, status="success", output={"a": 2})
    error = dataclasses.replace(CTX, error="boom", error_type="ValueError")
    assert await hooks.fire_before_run(CTX) is None
    assert await hooks.fire_after_run(after) is None
    assert await hooks.fire_on_run_error(error) is None
    assert [each is given for each, given in zip(seen, (CTX, after, error), strict=True)] == [
        True
    ] * 3


class OutOfCredit(RejectRun):
    """A rejection of somebody's own."""


@pytest.mark.parametrize(
    "failure",
    [RejectRun("no", 402), OutOfCredit("none left", 402), Reject("no", 418), KeyError("x")],
)
@pytest.mark.parametrize("form", ["async", "sync", "awaitable", "thread"])
async def test_firing_before_run_raises_what_a_hook_raised(failure, form):
    hooks = RunHooks()
    seen = []

    async def wait(ctx):
        await asyncio.sleep(0)
        raise failure

    def refuse(ctx):
        raise failure

    def hand_on(ctx):
        return wait(ctx)

    fn = {"async": wait, "awaitable": hand_on}.get(form, refuse)
    hooks.before_run(thread=form == "thread")(fn)
    hooks.before_run(seen.append)
    with pytest.raises(type(failure)) as raised:
        await hooks.fire_before_run(CTX)
    assert (raised.value is failure, seen) == (True, [])


async def test_firing_before_run_rejects_with_504_for_a_hook_that_is_late():
    hooks = RunHooks()

    @hooks.before_run
    async def hangs(ctx):
        await asyncio.sleep(60)

    with pytest.raises(RejectRun, match=r"'hangs' at before_run timed out after 0\.05 s") as late:
        await hooks.fire_before_run(CTX, timeout=0.05)
    assert late.value.status_code == 504


async def test_firing_before_run_finds_a_rejection_in_a_group():
    hooks = RunHooks()

    @hooks.before_run
    async def both(ctx):
        raise ExceptionGroup("several", [RejectRun("no", 402)])

    with pytest.raises(RejectRun, match="no") as rejected:
        await hooks.fire_before_run(CTX)
    assert rejected.value.status_code == 402


async def test_firing_keeps_to_what_a_hook_says_of_itself():
    hooks = RunHooks()
    seen = []

    @hooks.before_run(agents="coding")
    def other_agent(ctx):
        raise RejectRun

    @hooks.before_run(mode="shadow")
    def tried_out(ctx):
        raise RejectRun

    @hooks.before_run(on_error="continue")
    def careless(ctx):
        raise KeyError

    @hooks.after_run(background=True)
    async def aside(ctx):
        await asyncio.sleep(0)
        seen.append(ctx.status)

    await hooks.fire_before_run(CTX)
    await hooks.fire_after_run(dataclasses.replace(CTX, status="interrupted"))
    assert seen == ["interrupted"]


@pytest.mark.parametrize("failure", [RejectRun("no"), KeyError("x"), asyncio.CancelledError()])
async def test_firing_after_a_run_logs_errors_and_goes_on(failure, caplog):
    hooks = RunHooks()
    seen = []

    @hooks.after_run
    @hooks.on_run_error
    async def broken(ctx):
        raise failure

    hooks.after_run(seen.append)
    hooks.on_run_error(seen.append)
    await hooks.fire_after_run(CTX)
    await hooks.fire_on_run_error(CTX)
    assert seen == [CTX, CTX]
    assert "broken" in caplog.text


def write_hooks(folder, text):
    file = folder / "hooks.py"
    file.write_text(f"from checkrail.hooks import RunHooks\n{text}\n")
    return file


async def test_hooks_are_loaded_from_a_file_beside_another(tmp_path, monkeypatch):
    write_hooks(
        tmp_path, "hooks = RunHooks()\n@hooks.before_run\ndef no(ctx): raise hooks.RejectRun('no')"
    )
    for given in (str(tmp_path), tmp_path):
        hooks = load_hooks("./hooks.py:hooks", given)
        with pytest.raises(RejectRun):
            await hooks.fire_before_run(CTX)
    monkeypatch.chdir(tmp_path)
    assert load_hooks("./hooks.py:hooks") is hooks


async def test_a_list_of_run_hooks_is_loaded_as_one(tmp_path):
    write_hooks(
        tmp_path,
        "first, second = RunHooks(), RunHooks()\n"
        "first.before_run(lambda ctx: None)\nsecond.before_run(lambda ctx: None)\n"
        "hooks = [first, second]",
    )
    hooks = load_hooks("./hooks.py:hooks", tmp_path)
    assert len(hooks.specs()) == 2
    assert load_hooks("./hooks.py:hooks", tmp_path).specs()


def test_hooks_are_loaded_from_a_module():
    assert isinstance(load_hooks(f"{__name__}:HOOKS"), RunHooks)


HOOKS = RunHooks()
NO_HOOKS = 3
EMPTY: list[RunHooks] = []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("./hooks.py", "is no import reference.*Write ./file.py:name"),
        ("./missing.py:hooks", "there is no file"),
        (f"{__name__}:MISSING", "has no 'MISSING'"),
        (f"{__name__}:NO_HOOKS", "is no RunHooks, but int.*Name a RunHooks"),
        (f"{__name__}:EMPTY", "is no RunHooks, but an empty list"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_what_to_do(path, problem, tmp_path):
    with pytest.raises(CheckrailError, match=problem):
        load_hooks(path, tmp_path)


def test_other_points_say_where_their_hooks_go():
    hooks = RunHooks()
    for name in ("before_tool_call", "pre_request"):
        with pytest.raises(AttributeError, match=r"before_run, after_run and .*`Hooks`"):
            getattr(hooks, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        hooks.nothing  # noqa: B018 - that it is none is what is tried
    assert len(copy.copy(RunHooks(hooks)).specs()) == 0
