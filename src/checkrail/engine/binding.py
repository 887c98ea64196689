"""A hook at one point, checked against the point's contract and ready to be called."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.event import variant
from checkrail.engine.hook import FAILURE_KINDS, HookSpec
from checkrail.engine.matchers import TOOL_POINTS, matcher
from checkrail.engine.outcomes import (
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Reject,
    RejectRun,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.points import CONTRACTS, Contract, Decision, HookPoint, Lane, Place

if typing.TYPE_CHECKING:
    from checkrail.engine.registry import HookRegistry

SPAWNERS = frozenset(
    {
        "TaskGroup",
        "Thread",
        "as_completed",
        "create_task",
        "ensure_future",
        "gather",
        "run_in_executor",
        "start_soon",
        "submit",
        "to_thread",
        "wait",
        "wait_for",
    },
)

OUTCOMES: Mapping[str, type[Outcome | Reject]] = {
    kind.__name__: kind
    for kind in (Ask, Block, Continue, Fail, Reject, RejectRun, Replace, Retry, Stop)
}
REFUSING = frozenset({Decision.BLOCK, Decision.FAIL, Decision.ASK})

SYNC, SYNC_VALUE, ASYNC, ASYNC_VALUE = range(4)

Entry = tuple["Bound", Callable[..., Any], Callable[[Any], Any] | None, int]
"""What the dispatch needs of a hook: itself, its function, its condition and its kind."""


class Bound:
    """One hook at one point."""

    __slots__ = (
        "contract",
        "declared",
        "entry",
        "identity",
        "lane",
        "level",
        "order",
        "point",
        "policy",
        "shadow",
        "spawns",
        "spec",
    )

    def __init__(self, spec: HookSpec, place: Place, level: HookRegistry, order: int) -> None:
        self.spec = spec
        self.point: HookPoint = place.point
        self.declared = place.declared
        self.contract: Contract = CONTRACTS[place.point]
        self.level = level
        self.identity = (level, spec.name)
        self.order = order
        self.shadow = spec.mode == "shadow"
        self.spawns = spec.thread or _spawns(getattr(spec.fn, "__code__", None))
        self.lane: Lane = spec.lane or self.contract.lanes[0]
        if place.point in spec.observes:
            self.lane = Lane.OBSERVE
        _check(self)
        self.policy = _policy(self)
        self.entry: Entry = _entry(self, place)

    @property
    def key(self) -> str:
        """The hook and its level, by names that other processes know too."""
        return f"{self.level.label}/{self.spec.name}"

    @property
    def where(self) -> str:
        """The hook and its point, as messages name them."""
        return f"hook {self.spec.name!r} at {self.point}"

    def on_error(self, kind: str) -> str:
        """Return what a kind of failure does, as it was declared.

        At a finish hook `block` stands for a louder log: the run is over.
        """
        if self.declared == "on_run_finish":
            return self.spec.on_error.get(kind, "continue")
        return self.policy.get(kind, "continue")


def _spawns(code: Any) -> bool:
    """Guess whether a function starts tasks or threads; what is missed is learned later."""
    if not isinstance(code, types.CodeType):
        return False
    return not SPAWNERS.isdisjoint(code.co_names) or any(map(_spawns, code.co_consts))


def _check(bound: Bound) -> None:
    spec, contract = bound.spec, bound.contract
    if bound.lane not in contract.lanes:
        allowed = ", ".join(contract.lanes)
        _refuse(bound, f"{bound.point} has no {bound.lane} lane", f"Its lanes are: {allowed}")
    if spec.background and bound.lane is not Lane.OBSERVE:
        remedy = "Only observers can: give it lane observe, or take background away"
        _refuse(bound, f"a {bound.lane} hook cannot run in the background", remedy)
    if "block" in spec.on_error.values() and not _may_block(bound):
        problem = f"on_error: block cannot be honoured by {bound.lane} at {bound.point}"
        _refuse(bound, problem, "Say on_error: continue")
    if "tools" in spec.match and bound.point not in TOOL_POINTS:
        remedy = f"Leave it out, or use one of {', '.join(sorted(TOOL_POINTS))}"
        _refuse(bound, f"`tools` can never match at {bound.point}", remedy)
    if spec.thread and is_async_callable(spec.fn):
        _refuse(bound, "an async function cannot be moved into a thread", "Make it a plain def")
    _check_decisions(bound)


def _may_block(bound: Bound) -> bool:
    """Say whether a failure may block, or need not: it is then meant for the hook's other points.

    At a finish hook `block` is known, and means: log louder.
    """
    if bound.declared == "on_run_finish" or bound.point in bound.spec.observes:
        return True
    return bound.contract.block and bound.lane is not Lane.OBSERVE


def _check_decisions(bound: Bound) -> None:
    allowed = bound.contract.decisions if bound.lane is not Lane.OBSERVE else {Decision.CONTINUE}
    declared = bound.spec.decisions
    if declared is not None:
        wrong = declared - allowed
    else:
        elsewhere = {d for place in bound.spec.places for d in CONTRACTS[place.point].decisions}
        wrong = _annotated(bound.spec.fn) - allowed
        if len(bound.spec.places) > 1:
            wrong -= elsewhere
    if wrong:
        problem = f"{bound.point} does not allow {', '.join(sorted(wrong))} in lane {bound.lane}"
        _refuse(bound, problem, f"Allowed are: {', '.join(sorted(allowed))}")


def _annotated(fn: Any) -> frozenset[Decision]:
    """Find the decisions, beyond going on, that a function's annotation promises."""
    try:
        returned = typing.get_type_hints(getattr(fn, "__func__", fn)).get("return")
    except Exception:  # noqa: BLE001 - annotations are the user's, and may name anything
        return frozenset()
    return frozenset(_decisions_in(returned)) - {Decision.CONTINUE}


def _decisions_in(hint: Any) -> typing.Iterator[Decision]:
    """Yield the decisions that a type names, also inside unions and awaitables."""
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Outcome):
        if hasattr(kind, "decision"):
            yield kind.decision
        return
    for inner in typing.get_args(hint):
        yield from _decisions_in(inner)


def fail_open_advice(bound: Bound) -> tuple[str, str, str] | None:
    """Return what is risky about a Python hook that refuses but fails open, and its remedy.

    The remedy is an option, and what it should be.
    """
    spec = bound.spec
    open_lane = bound.lane is Lane.TRANSFORM and bound.policy["error"] == "continue"
    if not open_lane or spec.on_error or spec.mode != "enforce" or spec.target_type != "python":
        return None
    said = _annotated(spec.fn) | frozenset(_named_decisions(spec.fn))
    if not bound.contract.decisions & said & REFUSING:
        return None
    problem = f"it can refuse, but in lane {bound.lane} its failure or timeout lets the work go on"
    return problem, *(("on_error", "block") if Decision.CONTINUE in said else ("lane", "gate"))


def _named_decisions(fn: Any) -> typing.Iterator[Decision]:
    """Guess the decisions of a function by the names that its code uses."""
    while hasattr(fn, "func"):
        fn = fn.func
    fn = inspect.unwrap(fn)
    if not hasattr(fn, "__code__") and not hasattr(fn, "__func__"):
        fn = getattr(fn, "__call__", fn)  # noqa: B004 - the bound method is wanted
    fn = getattr(fn, "__func__", fn)
    known = getattr(fn, "__globals__", {})
    for name in _code_names(getattr(fn, "__code__", None)):
        found = known.get(name, OUTCOMES.get(name))
        if isinstance(found, type) and issubclass(found, Reject):
            yield Decision.BLOCK
        elif isinstance(found, type) and issubclass(found, Outcome):
            yield from _decisions_in(found)


def _code_names(code: Any) -> typing.Iterator[str]:
    if isinstance(code, types.CodeType):
        yield from (*code.co_names, *code.co_freevars)
        for inner in code.co_consts:
            yield from _code_names(inner)


def _refuse(bound: Bound, problem: str, remedy: str) -> typing.NoReturn:
    raise HookRefusedError(bound.spec.name, problem, remedy)


def _policy(bound: Bound) -> Mapping[str, str]:
    """Say what each kind of failure does: continue, block or fail."""
    if bound.lane is Lane.OBSERVE:
        return dict.fromkeys(FAILURE_KINDS, "continue")
    closed = bound.lane is Lane.GATE or bound.point is HookPoint.BEFORE_RUN
    policy = dict.fromkeys(FAILURE_KINDS, "block" if closed else "continue")
    policy["invalid"] = "fail"
    return policy | dict(bound.spec.on_error)


def _entry(bound: Bound, place: Place) -> Entry:
    spec = bound.spec
    fn, when = spec.fn, spec.when
    is_async, with_value = is_async_callable(fn), takes_value(fn, spec.name)
    if when is not None and takes_value(when, spec.name):
        when = _spread(when)
    if spec.thread:
        fn, is_async = _in_thread(fn), True
    if spec.config:
        fn = _configured(fn, spec.config)
        when = _configured(when, spec.config) if when is not None else None
    own = () if place.point in spec.observes else (matcher(spec.match), when)
    tests = [test for test in (place.guard, *own) if test is not None]
    kind = 2 * is_async + with_value
    return bound, fn, _every(tests), kind


def _every(tests: list[Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    if len(tests) <= 1:
        return tests[0] if tests else None
    *first, last = tests

    def condition(event: Any) -> Any:
        return all(test(event) for test in first) and last(event)

    return condition


def _spread(when: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda event: when(event, event.value)


def _in_thread(fn: Callable[..., Any]) -> Callable[..., Any]:
    return functools.partial(asyncio.to_thread, fn)


def _configured(fn: Callable[..., Any], config: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda event, *value: fn(variant(event, config=config), *value)


def is_async_callable(fn: Any) -> bool:
    """Say whether calling this gives something to await."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None),  # noqa: B004 - the bound method is wanted
    )


def takes_value(fn: Any, name: str) -> bool:
    """Say whether a callable has a second positional parameter; refuse one that fits neither."""
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError):
        return False
    for arguments in ((None, None), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise HookRefusedError(
        name,
        f"it cannot be called with an event: its parameters are {signature}",
        "Take (event) or (event, value)",
    )
