import asyncio
import collections.abc
import copy
import functools
import inspect
import re
import subprocess
import sys
from types import NoneType
from typing import Any, Never, get_args, get_origin, get_type_hints

import pytest

from checkrail import Block, CheckrailError, Continue, Event, HookPoint, HookRegistry, ToolCall
from checkrail.engine import values
from checkrail.engine.asks import Approval, Question
from checkrail.engine.errors import HookRefusedError, UnknownPointError
from checkrail.engine.hook import HookOptions
from checkrail.engine.outcomes import Ask
from checkrail.engine.points import ALIASES, CONTRACTS, Decision, Lane, find_places
from checkrail.engine.values import RunError, RunResult
from checkrail.styles import decorator_types, decorators
from checkrail.styles.decorator_types import DecoratorOptions
from checkrail.styles.decorators import Decorator, Hooks, PointDecorator

CALL = ToolCall(id="1", name="transfer", args={"amount": 2000})
NAMES = [*map(str, HookPoint), *ALIASES]


def test_there_is_a_decorator_for_every_point_and_every_alias():
    hooks = Hooks()
    for name in NAMES:
        assert isinstance(getattr(hooks, name), PointDecorator), name


@pytest.mark.parametrize("name", NAMES)
def test_a_decorator_registers_at_the_point_of_its_name(name):
    hooks = Hooks()

    @getattr(hooks, name)
    async def watch(event):
        """Watch."""

    (spec,) = hooks.registry.list()
    assert spec.places == find_places(name)
    assert [place.declared for place in spec.places] == [name] * len(spec.places)


def test_on_the_class_a_decorator_is_only_declared():
    assert isinstance(Hooks.before_run, Decorator)


def test_no_decorator_stands_for_a_point_that_does_not_exist():
    declared = [
        name for name in vars(Hooks) if isinstance(getattr(Hooks(), name, None), PointDecorator)
    ]
    assert sorted(declared) == sorted(HookPoint)
    with pytest.raises(
        AttributeError, match=r"no decorator 'before_runs' \(did you mean 'before_run"
    ):
        Hooks().before_runs  # noqa: B018


def test_editors_offer_the_points_under_their_own_names_alone():
    assert {*HookPoint} <= {*dir(Hooks())}
    assert not {*ALIASES} & {*dir(Hooks()), *dir(Hooks)}


def test_hooks_can_be_copied():
    hooks = Hooks()
    assert copy.copy(hooks).registry is hooks.registry


async def test_bare_it_takes_the_function():
    hooks = Hooks()

    @hooks.before_tool_call
    async def limit(event, call):
        return Block("too much", status=402) if call.args["amount"] > 1000 else None

    verdict = await hooks.registry.fire("before_tool_call", CALL)
    assert (verdict.decision, verdict.reason, verdict.status) == ("block", "too much", 402)
    assert verdict.hook == "limit"


async def test_with_options_it_takes_the_function_next():
    hooks = Hooks()

    @hooks.before_tool_call(tools=["transfer"], lane="gate", name="limiter", priority=3)
    async def limit(event, call):
        return Block("no")

    (spec,) = hooks.registry.list()
    assert (spec.name, spec.lane, spec.priority) == ("limiter", Lane.GATE, 3)
    assert (await hooks.registry.fire("before_tool_call", CALL)).decision == "block"
    other = ToolCall(name="search")
    assert (await hooks.registry.fire("before_tool_call", other)).decision == "continue"


def test_called_without_options_it_is_as_good_as_bare():
    hooks = Hooks()

    @hooks.before_run()
    def first(event): ...

    assert [spec.name for spec in hooks.registry.list()] == ["first"]


def test_options_can_be_kept_for_several_functions():
    hooks = Hooks()
    gate = hooks.before_tool_call(lane="gate", tools="transfer")
    gate(lambda event: None)
    gate(priority=1)(lambda event: None)
    first, second = hooks.registry.list()
    assert first.lane is second.lane is Lane.GATE
    assert (first.priority, second.priority) == (100, 1)


def test_the_function_comes_back_unchanged():
    hooks = Hooks()

    def bare(event): ...

    def optioned(event): ...

    def several(event): ...

    assert hooks.before_run(bare) is bare
    assert hooks.before_run(priority=1)(optioned) is optioned
    assert hooks.hook("before_run", "after_run")(several) is several


async def test_sync_and_async_functions_take_one_parameter_or_two():
    hooks = Hooks()
    seen = []

    @hooks.before_tool_call
    def sync_one(event):
        seen.append(event.value)

    @hooks.before_tool_call
    def sync_two(event, call):
        seen.append(call)

    @hooks.before_tool_call
    async def async_one(event):
        seen.append(event.value)

    @hooks.before_tool_call
    async def async_two(event, call):
        seen.append(call)

    await hooks.registry.fire("before_tool_call", CALL)
    assert seen == [CALL] * 4


async def test_partials_and_callable_objects_can_be_decorated_too():
    hooks = Hooks()
    seen = []

    def note(what, event):
        seen.append(what)

    class Noter:
        async def __call__(self, event: Event[Any]) -> None:
            seen.append("object")

    hooks.before_run(functools.partial(note, "partial"))
    hooks.before_run(Noter())
    await hooks.registry.fire("before_run", {})
    assert seen == ["partial", "object"]


def test_two_functions_of_one_name_get_two_names():
    hooks = Hooks()
    for _ in range(2):

        @hooks.before_run
        def check(event): ...

    assert [spec.name for spec in hooks.registry.list()] == ["check", "check_2"]


def test_the_source_is_the_place_of_the_function():
    hooks = Hooks()

    @hooks.before_run(priority=1)
    def check(event): ...

    (spec,) = hooks.registry.list()
    assert spec.source == f"{__file__}:{inspect.getsourcelines(check)[1]}"


async def test_one_function_can_stand_at_several_points():
    hooks = Hooks()
    seen = []

    @hooks.hook("after_run", "on_error", name="ending")
    async def ended(event):
        seen.append(event.point)

    await hooks.registry.fire("after_run", RunResult())
    await hooks.registry.fire("on_run_error", RunError())
    assert seen == [HookPoint.AFTER_RUN, HookPoint.ON_RUN_ERROR]
    assert [spec.name for spec in hooks.registry.list()] == ["ending"]


def test_hook_without_a_point_is_refused():
    with pytest.raises(HookRefusedError, match="it names no point"):
        Hooks().hook()(lambda event: None)


def test_a_point_that_does_not_exist_is_refused():
    hooks = Hooks()
    with pytest.raises(UnknownPointError, match="did you mean 'before_run'"):
        hooks.hook("before_runn")(lambda event: None)
    with pytest.raises(UnknownPointError, match="did you mean 'before_run'"):
        hooks.on("before_runn")
    with pytest.raises(AttributeError):
        hooks.before_runn  # noqa: B018


def test_an_unknown_option_is_refused_with_a_suggestion():
    with pytest.raises(HookRefusedError, match=re.escape("(did you mean 'priority'?)")):
        Hooks().before_run(prioritty=1)(lambda event: None)


def test_a_bad_lane_is_refused_at_the_decorator():
    with pytest.raises(HookRefusedError, match="after_run has no gate lane"):
        Hooks().after_run(lane="gate")(lambda event: None)


def test_a_refused_hook_leaves_nothing_behind():
    hooks = Hooks()
    with pytest.raises(HookRefusedError):
        hooks.after_run(lane="gate")(lambda event: None)
    assert hooks.registry.list() == []


async def test_hooks_go_to_the_registry_that_is_given():
    registry = HookRegistry()
    hooks = Hooks(registry)

    @hooks.on_result
    def shout(event, output):
        return Continue(output.upper())

    assert hooks.registry is registry
    assert (await registry.fire("on_result", "hello")).value == "HELLO"


async def test_options_go_to_the_registry_that_it_makes():
    records = []

    async def approve(question: Question) -> Approval:
        return Approval(approved=True)

    hooks = Hooks(sink=records.append, ask=approve, history="off", max_retries=2)

    @hooks.before_tool_call
    def ask(event):
        return Ask("sure?")

    assert (await hooks.registry.fire("before_tool_call", CALL)).decision == "continue"
    assert [record.hook for record in records] == ["ask", "ask"]
    assert (hooks.registry.history, hooks.registry.max_retries) == ("off", 2)


def test_options_beside_a_registry_are_refused():
    with pytest.raises(TypeError, match="say max_retries, history where that one is made"):
        Hooks(HookRegistry(), max_retries=2, history="off")


def test_a_registry_without_hooks_is_still_the_one_that_was_given():
    registry = HookRegistry()
    assert Hooks(registry).registry is registry


async def test_when_is_a_callable_sync_or_async():
    hooks = Hooks()
    called = []

    async def large(event):
        await asyncio.sleep(0)
        return event.value.args["amount"] > 1000

    @hooks.before_tool_call(when=large)
    def first(event):
        called.append("async")

    @hooks.before_tool_call(when=lambda event, call: call.args["amount"] < 1000)
    def second(event):
        called.append("never")

    await hooks.registry.fire("before_tool_call", CALL)
    assert called == ["async"]


async def test_when_may_be_an_expression():
    hooks = Hooks()

    @hooks.before_tool_call(when="tool_call.args.amount > 1000")
    def limit(event):
        return Block("too much")

    (spec,) = hooks.registry.list()
    assert spec.when_text == "tool_call.args.amount > 1000"
    assert (await hooks.registry.fire("before_tool_call", CALL)).decision == "block"
    small = ToolCall(name="transfer", args={"amount": 10})
    verdict = await hooks.registry.fire("before_tool_call", small)
    assert (verdict.decision, verdict.records) == ("continue", ())


async def test_an_expression_serves_several_points():
    hooks = Hooks()
    seen = []

    @hooks.hook("after_run", "on_run_error", when="run_id == 'r1'")
    def ended(event):
        seen.append(event.point)

    for run_id in ("r1", "r2"):
        await hooks.registry.fire("after_run", RunResult(), run_id=run_id)
        await hooks.registry.fire("on_run_error", RunError(), run_id=run_id)
    assert seen == ["after_run", "on_run_error"]


@pytest.mark.parametrize("text", ["tool_call.args.amount >", "no_such_name > 1", "request.model"])
def test_a_wrong_expression_is_refused_at_the_decorator(text):
    hooks = Hooks()
    with pytest.raises(CheckrailError, match=re.escape(repr(text))):
        hooks.before_tool_call(when=text)(lambda event: None)
    assert hooks.registry.list() == []


def test_a_hook_without_an_expression_needs_no_package_for_it():
    code = """
import sys
from checkrail import Hooks
hooks = Hooks()
hooks.before_run(when=lambda event: True)(lambda event: None)
assert "cel" not in sys.modules and "checkrail.actions" not in sys.modules, "loaded"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_on_begins_a_fluent_hook_in_the_same_registry():
    hooks = Hooks()
    hooks.on("before_tool_execution").handle(decision=Decision.BLOCK, reason="closed")
    verdict = await hooks.registry.fire("before_tool_call", CALL)
    assert (verdict.decision, verdict.reason) == ("block", "closed")


def test_the_decorators_know_every_option_of_the_registry():
    assert DecoratorOptions.__annotations__.keys() == {*HookOptions.__annotations__, "name"}


def _allowed(name):
    """Return the decisions that a decorator's functions may return, each with its value's types."""
    known = {**vars(decorator_types), **vars(decorators), **vars(values)}
    accepts = get_args(get_type_hints(Hooks, known)[name])[0]
    kind = get_origin(accepts) or accepts
    answers = getattr(decorator_types, kind.__name__.replace("Decorator", "Answer")).__bound__
    said = {each for each in get_args(answers) if get_origin(each) is not collections.abc.Awaitable}
    found = {get_origin(each) or each: get_args(each) for each in said - {NoneType}}
    return {
        outcome.decision: {inner for each in told for inner in get_args(each) or (each,)}
        for outcome, told in found.items()
    }


@pytest.mark.parametrize("name", HookPoint)
def test_each_decorator_is_typed_by_its_points_contract(name):
    allowed = _allowed(name)
    for contract in (CONTRACTS[place.point] for place in find_places(name)):
        assert allowed.keys() == contract.decisions
        value = (Any if contract.value is object else contract.value) if contract.change else Never
        brought = {Decision.CONTINUE: value, "replace": contract.replace, "stop": contract.stop}
        for decision in allowed.keys() & brought.keys():
            wanted = Any if brought[decision] is object else brought[decision]
            assert wanted in allowed[decision], decision
