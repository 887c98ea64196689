"""Chains: the hooks of a point, checked against its contract, sorted, swapped whole on a change."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from checkrail.engine.callables import takes_value
from checkrail.engine.hook import FAILURE_KINDS, HookSpec
from checkrail.engine.hook_checks import check_hook
from checkrail.engine.matchers import build_matcher
from checkrail.engine.points import (
    CONTRACTS,
    EXACT_TYPES,
    FIRED_AS,
    Contract,
    HookPoint,
    Lane,
    Place,
    find_point,
)

if TYPE_CHECKING:
    from checkrail.engine.registry import HookRegistry


Condition = Callable[[Any], Any]


class BoundHook:
    """One hook at one point, checked against the point's contract and ready to be called.

    `fn` takes the event, and the value as well if it `takes_value`; `condition` is all that has to
    hold before; `policy` says what each kind of failure does: continue, block or fail; `alone` is
    the hook in a tuple.
    """

    def __init__(self, spec: HookSpec, place: Place, level: HookRegistry, order: int) -> None:
        self.spec = spec
        self.point: HookPoint = place.point
        self.declared = place.declared
        self.contract: Contract = CONTRACTS[place.point]
        self.level = level
        self.identity = (level, spec.name)
        self.alone = (self,)
        self.order = order
        self.shadow = spec.mode == "shadow"
        self.lane: Lane = spec.lane or self.contract.lanes[0]
        if place.point in spec.observes:
            self.lane = Lane.OBSERVE
        check_hook(self)
        self.policy = _failure_policy(self)
        self.takes_value = takes_value(spec.fn, spec.name)
        self.fn = _build_function(spec)
        self.condition = _build_condition(spec, place)

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


Lanes = tuple[tuple[Lane, tuple[BoundHook, ...]], ...]
"""Hooks by lane, in the order in which both are run."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The hooks of one point, in the order in which they are called."""

    contract: Contract
    point: HookPoint
    exact: type
    lanes: Lanes
    background: tuple[BoundHook, ...]

    @property
    def hooks(self) -> tuple[BoundHook, ...]:
        """All hooks, those in the background last."""
        return (*(hook for _, hooks in self.lanes for hook in hooks), *self.background)

    def narrow(self, keep: Callable[[BoundHook], object]) -> Chain:
        """Return the chain with some of its hooks only."""
        lanes = tuple((lane, tuple(filter(keep, hooks))) for lane, hooks in self.lanes)
        return replace(self, lanes=lanes, background=tuple(filter(keep, self.background)))

    def in_lanes(self, lanes: Collection[Lane]) -> Chain:
        """Return the chain with some of its lanes only."""
        background = self.background if Lane.OBSERVE in lanes else ()
        kept = tuple(item for item in self.lanes if item[0] in lanes)
        return replace(self, lanes=kept, background=background)

    def without(self, keys: Container[str]) -> Chain | None:
        """Return the chain without some hooks, named `level/hook`; None if no other is left."""
        chain = self.narrow(lambda hook: hook.key not in keys)
        return chain if chain.hooks else None


class Plan(dict[str, Chain | None]):
    """The chain of every point, by all its names; None where there is no hook."""

    def __missing__(self, name: str) -> Chain | None:
        return self[find_point(name)]


def compile_plan(hooks: Iterable[BoundHook]) -> Plan:
    """Compile the hooks of one level."""
    at: dict[HookPoint, list[BoundHook]] = {point: [] for point in HookPoint}
    for bound in hooks:
        if bound.spec.mode != "off":
            at[bound.point].append(bound)
    for found in at.values():
        found.sort(key=lambda bound: (bound.spec.priority, bound.order))
    chains = {point: _build_chain(point, found) for point, found in at.items()}
    return Plan({name: chains[point] for name, point in FIRED_AS.items()})


def join_chains(levels: Iterable[Chain | None]) -> Chain | None:
    """Join the chains that several levels have at a point, outermost first."""
    chains = [chain for chain in levels if chain is not None]
    if len(chains) <= 1:
        return chains[0] if chains else None
    return _build_chain(chains[0].point, [hook for chain in chains for hook in chain.hooks])


def _build_chain(point: HookPoint, hooks: list[BoundHook]) -> Chain | None:
    if not hooks:
        return None
    waited_for = [hook for hook in hooks if not hook.spec.background]
    background = tuple(hook for hook in hooks if hook.spec.background)
    by_lane = {lane: tuple(hook for hook in waited_for if hook.lane is lane) for lane in Lane}
    lanes = tuple(
        (lane, found)
        for lane, found in by_lane.items()
        if found or (background and lane is Lane.OBSERVE)
    )
    return Chain(CONTRACTS[point], point, EXACT_TYPES[point], lanes, background)


def _failure_policy(bound: BoundHook) -> Mapping[str, str]:
    if bound.lane is Lane.OBSERVE:
        return dict.fromkeys(FAILURE_KINDS, "continue")
    closed = bound.lane is Lane.GATE or bound.point is HookPoint.BEFORE_RUN
    policy = dict.fromkeys(FAILURE_KINDS, "block" if closed else "continue")
    policy["invalid"] = "fail"
    return policy | dict(bound.spec.on_error)


def _build_function(spec: HookSpec) -> Callable[..., Any]:
    fn = functools.partial(asyncio.to_thread, spec.fn) if spec.thread else spec.fn
    return _with_config(fn, spec.config) if spec.config else fn


def _build_condition(spec: HookSpec, place: Place) -> Condition | None:
    """Return one test for all that has to hold before a hook is called; None if nothing has to."""
    when = spec.when
    if when is not None and takes_value(when, spec.name):
        when = _with_value(when)
    if when is not None and spec.config:
        when = _with_config(when, spec.config)
    own = () if place.point in spec.observes else (build_matcher(spec.match), when)
    tests = [test for test in (place.guard, *own) if test is not None]
    if len(tests) <= 1:
        return tests[0] if tests else None
    *first, last = tests
    return lambda event: all(test(event) for test in first) and last(event)


def _with_value(when: Callable[..., Any]) -> Condition:
    return lambda event: when(event, event.value)


def _with_config(fn: Callable[..., Any], config: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda event, *value: fn(event.with_config(config), *value)
