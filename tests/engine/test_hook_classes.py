"""Hooks written as classes, and what a hook promises in its annotations."""

from functools import partial

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.event import Context
from checkrail.engine.hook import Hook
from checkrail.engine.outcomes import Block, Continue, Retry
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


class Shout(Hook):
    name = "shout"
    points = ("on_result",)
    priority = 7
    timeout = 2
    on_error = "block"

    async def execute(self, event):
        return Continue(event.value.upper())


class WithContext(Hook):
    points = "on_result"

    def execute(self, event, ids: Context):
        return Continue([event.value, ids.run_id])


class WithAsyncContext(WithContext):
    async def execute(self, event, /, ids: "Context"):
        return Continue([event.value, ids.run_id])


class WithUnknownContext(WithContext):
    def execute(self, event: "NotThere", ids: "engine.Context"):  # noqa: F821 - not at run time
        return Continue([event.value, ids.run_id])


class WithValue(Hook):
    points = ("on_result",)

    def execute(self, event, ctx):
        return Continue([ctx])


async def test_a_class_says_its_options_as_attributes():
    registry = HookRegistry()
    spec = registry.register(Shout())
    assert (spec.name, spec.priority, spec.timeout) == ("shout", 7, 2)
    assert registry.bound_hooks("on_result")[0].policy["error"] == "block"
    assert (await registry.fire(POINT, "x")).value == "X"


async def test_what_is_said_at_registration_goes_over_the_class():
    registry = HookRegistry()
    spec = registry.register(Shout(), "before_run", name="other", priority=1)
    assert (spec.name, spec.priority) == ("other", 1)
    assert registry.has("before_run")
    assert not registry.has("on_result")


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        (WithContext(), ["x", "r"]),
        (WithAsyncContext(), ["x", "r"]),
        (WithUnknownContext(), ["x", "r"]),
        (WithValue(), ["x"]),
    ],
)
async def test_the_second_parameter_of_a_class(hook, value):
    registry = HookRegistry()
    assert registry.register(hook).name == type(hook).__name__
    assert (await registry.fire(POINT, "x", run_id="r")).value == value


def takes_ids(event, ids: Context):
    return Continue([event.value, ids.run_id])


def takes_ids_by_name(event, *, ids: Context | None = None):
    return Continue([event.value, ids])


def takes_anything(*given: Context):
    return Continue([given[1]])


class Callable:
    def __call__(self, event, ids: Context):
        return Continue([event.value, ids.run_id])


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        (takes_ids, ["x", "r"]),
        (Callable(), ["x", "r"]),
        (partial(takes_ids), ["x", "r"]),
        (takes_ids_by_name, ["x", None]),
        (takes_anything, ["x"]),
        (lambda event, context: Continue([context]), ["x"]),
    ],
)
async def test_the_second_parameter_of_a_function(hook, value):
    registry = HookRegistry()
    registry.register(hook, POINT)
    assert (await registry.fire(POINT, "x", run_id="r")).value == value


class ByMethods(Hook):
    def name(self):
        return "by methods"

    def points(self):
        return ["on_result"]

    def lane(self):
        return "gate"

    def priority(self):
        return 7

    def timeout(self):
        return 2

    def on_error(self):
        return {"timeout": "continue"}

    def tools(self):
        return None

    def when(self, event):
        return event.value != "skip"

    def execute(self, event):
        return Block("no")


class ByProperties(WithValue):
    points = ()

    @property
    def name(self):
        return "by properties"

    @property
    def hook_points(self):
        return "on_result"


async def test_a_class_says_its_options_by_methods():
    registry = HookRegistry()
    spec = registry.register(ByMethods())
    assert (spec.name, spec.lane, spec.priority, spec.timeout) == ("by methods", "gate", 7, 2)
    assert spec.on_error == {"timeout": "continue"}
    assert (await registry.fire(POINT, "x")).decision == "block"
    assert (await registry.fire(POINT, "skip")).decision == "continue"  # `when` is a condition


def test_a_class_says_its_options_by_properties():
    spec = HookRegistry().register(ByProperties())
    assert (spec.name, [place.point for place in spec.places]) == ("by properties", ["on_result"])


@pytest.mark.parametrize("wrong", [7, ["a"], object()])
def test_a_name_that_is_no_text_is_refused(wrong):
    class Odd(WithValue):
        def name(self):
            return wrong

    with pytest.raises(HookRefusedError, match="'Odd' was refused: its name is"):
        HookRegistry().register(Odd())


def test_the_place_of_a_class_with_a_context_is_that_of_its_method():
    spec = HookRegistry().register(WithContext())
    assert spec.source.startswith(__file__)


def test_a_class_without_execute_is_refused():
    with pytest.raises(HookRefusedError, match=r"'Hook'.*execute"):
        HookRegistry().register(Hook(), POINT)


@pytest.mark.parametrize(
    ("said", "policy"),
    [("fail_open", "continue"), ("FailClosed", "block"), ("fail-closed", "block")],
)
def test_a_class_may_say_a_failure_mode(said, policy):
    class Moody(WithValue):
        failure_mode = said

    registry = HookRegistry()
    registry.register(Moody())
    assert registry.bound_hooks("on_result")[0].policy["error"] == policy


def test_a_failure_mode_says_nothing_of_points_where_a_hook_can_only_watch():
    class Closed(WithValue):
        points = ("on_result", "on_session_end")
        failure_mode = "fail_closed"

    registry = HookRegistry()
    registry.register(Closed())
    assert registry.bound_hooks("on_result")[0].policy["error"] == "block"
    assert registry.bound_hooks("on_session_end")[0].lane == "observe"


def test_block_on_errors_is_refused_where_a_hook_can_only_watch():
    class Closed(WithValue):
        points = ("on_result", "on_session_end")
        on_error = "block"

    with pytest.raises(HookRefusedError, match="on_error: block cannot be honoured by observe"):
        HookRegistry().register(Closed())


def promises_retry(event) -> Retry | None: ...


def promises_block_or_retry(event) -> Block | Retry | None: ...


async def promises_retry_later(event) -> Retry: ...


def promises_block(event) -> Block | Continue | None: ...


def promises_nothing_known(event) -> "Unknown | None":  # noqa: F821
    ...


class Promising:
    def method(self, event) -> Retry | None: ...


@pytest.mark.parametrize(
    "fn", [promises_retry, promises_retry_later, promises_block_or_retry, Promising().method]
)
def test_a_promised_decision_that_is_not_allowed_is_refused(fn):
    with pytest.raises(HookRefusedError, match=r"'h'.*before_run.*retry.*block"):
        HookRegistry().register(fn, "before_run", name="h")
    assert HookRegistry().register(fn, "after_llm_call", name="h")


@pytest.mark.parametrize("fn", [promises_block, promises_nothing_known])
def test_other_promises_are_accepted(fn):
    assert HookRegistry().register(fn, "before_run", name="h")


def test_an_observer_that_promises_to_block_is_refused():
    with pytest.raises(HookRefusedError, match=r"'h'.*after_run.*block"):
        HookRegistry().register(promises_block, "after_run", name="h")
