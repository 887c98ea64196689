"""The registry: putting hooks in, taking them out, and what is refused."""

import pytest

from checkrail.engine.errors import CheckrailError, HookRefusedError
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.points import Lane
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunError, RunResult

POINT = "on_result"


def hook(event):
    return None


def names(registry, point=None):
    return [spec.name for spec in registry.list(point)]


def test_what_is_registered_is_there():
    registry = HookRegistry()
    assert (registry.has(POINT), names(registry)) == (False, [])
    spec = registry.register(hook, POINT, "before_run", name="h", lane="gate", priority=3)
    assert isinstance(spec, HookSpec)
    assert (spec.name, spec.lane, spec.priority) == ("h", Lane.GATE, 3)
    assert registry.has(POINT)
    assert registry.has("before_run")
    assert not registry.has("after_run")
    assert registry.list() == registry.list(POINT) == [spec]
    assert registry.list("after_run") == []


def test_a_list_is_in_the_order_of_registration_and_of_one_point_in_the_order_of_calls():
    registry = HookRegistry()
    registry.register(hook, POINT, name="o", lane="observe")
    registry.register(hook, POINT, name="b", background=True)
    registry.register(hook, POINT, name="late", priority=200)
    registry.register(hook, POINT, name="g", lane="gate")
    registry.register(hook, POINT, name="early", priority=5)
    assert names(registry) == ["o", "b", "late", "g", "early"]
    assert names(registry, POINT) == ["early", "late", "g", "o", "b"]


def test_a_spec_can_be_registered():
    registry = HookRegistry()
    spec = declare(hook, [POINT], "h")
    assert registry.register(spec) is spec


def test_an_unnamed_hook_is_called_after_its_function_and_gets_a_free_name():
    registry = HookRegistry()
    for _ in range(3):
        registry.register(hook, POINT)
    assert names(registry) == ["hook", "hook_2", "hook_3"]


def test_a_name_is_unique_at_its_level():
    registry = HookRegistry()
    registry.register(hook, POINT, name="h")
    with pytest.raises(HookRefusedError, match=r"'h'.*replace"):
        registry.register(hook, "before_run", name="h")
    assert not registry.has("before_run")


def test_a_hook_is_replaced_in_its_place():
    registry = HookRegistry()
    for name in "abc":
        registry.register(hook, POINT, name=name)
    registry.replace(hook, POINT, "before_run", name="b", priority=100)
    assert names(registry, POINT) == ["a", "b", "c"]
    assert names(registry, "before_run") == ["b"]


def test_only_what_is_there_can_be_replaced_or_taken_away():
    registry = HookRegistry()
    registry.register(hook, POINT, name="limit")
    for attempt in (
        lambda: registry.replace(hook, POINT, name="limits"),
        lambda: registry.unregister("limits"),
    ):
        with pytest.raises(HookRefusedError, match=r"'limits'.*did you mean 'limit'"):
            attempt()
    assert names(registry) == ["limit"]
    with pytest.raises(HookRefusedError, match="none"):
        HookRegistry().unregister("x")


def test_a_hook_can_be_taken_away():
    registry = HookRegistry()
    spec = registry.register(hook, POINT, name="h")
    assert registry.unregister("h") is spec
    assert not registry.has(POINT)


def test_a_whole_set_can_be_put_in_the_place_of_another():
    registry = HookRegistry()
    registry.register(hook, POINT, name="old")
    registry.swap(declare(hook, ["before_run"], name) for name in ("a", "b"))
    assert names(registry) == ["a", "b"]
    assert not registry.has(POINT)
    registry.swap([])
    assert not registry.has("before_run")


@pytest.mark.parametrize("bad", [["after_run"], ["nowhere"], []])
def test_a_hook_that_is_refused_leaves_the_registry_as_it_was(bad):
    registry = HookRegistry()
    registry.register(hook, POINT, name="h")
    with pytest.raises(CheckrailError):
        registry.register(hook, POINT, *bad, name="bad", on_error="block") if bad else (
            registry.register(hook, name="bad")
        )
    assert names(registry) == ["h"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lane": "fast"}, "transform, gate, observe"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout_seconds": 0}, "timeout"),
        ({"on_error": "explode"}, "continue or block"),
        ({"on_error": {"weather": "block"}}, "error, timeout, unreachable, invalid"),
        ({"on_error": {"error": "explode"}}, "continue or block"),
        ({"mode": "sometimes"}, "enforce, shadow or off"),
        ({"priority": "high"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"prioritty": 1}, "did you mean 'priority'"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_right(options, told):
    registry = HookRegistry()
    with pytest.raises(HookRefusedError, match=rf"'culprit'.*{told}"):
        registry.register(hook, POINT, name="culprit", **options)
    assert names(registry) == []


def test_a_refusal_carries_its_parts():
    with pytest.raises(HookRefusedError) as refusal:
        HookRegistry().register(hook, name="h")
    error = refusal.value
    assert error.hook == "h"
    assert error.problem in str(error)
    assert error.remedy in str(error)


def test_what_was_said_about_failures_in_one_word_where_one_will_do():
    assert declare(hook, [POINT]).on_error_text == "default"
    assert declare(hook, [POINT], on_error="ignore").on_error_text == "continue"
    assert declare(hook, [POINT], on_error={"timeout": "block"}).on_error_text == "timeout: block"


async def test_a_finish_hook_may_say_block_as_there_is_nothing_left_to_block(sample):
    registry = HookRegistry()

    def fails(event):
        raise ValueError("boom")

    registry.register(fails, "on_run_finish", name="h", on_error="block")
    verdict = await registry.fire("after_run", sample("after_run"))
    assert (verdict.decision, verdict.records[1].failure) == ("continue", "error")


async def test_a_scope_with_more_ids_bound_keeps_the_others():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: seen.append(event.context), POINT, name="h")
    scope = registry.scope(run_id="r", agent_name="a").bind(agent_name="b")
    await scope.fire(POINT, {}, tool_call_id="t")
    assert (seen[0].run_id, seen[0].agent_name, seen[0].tool_call_id) == ("r", "b", "t")
    assert scope.has(POINT)


async def test_a_point_without_hooks_lets_everything_pass_in_every_scope():
    registry = HookRegistry()
    inner = HookRegistry().scope(parent=registry.scope())
    for fires in (registry, registry.scope(run_id="r"), inner):
        verdict = await fires.fire(POINT, {"a": 1})
        assert (verdict.decision, verdict.value, verdict.records) == ("continue", {"a": 1}, ())


async def test_a_point_named_twice_is_one_point():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: seen.append(event.point), "on_run_finish", "on_error")
    await registry.fire("on_run_error", RunError(error="boom"))
    await registry.fire("after_run", RunResult())
    assert seen == ["on_run_error", "after_run"]
