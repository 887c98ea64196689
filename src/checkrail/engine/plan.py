"""Chains: the hooks of a point, sorted and ready, swapped whole when hooks change."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from checkrail.engine.binding import Bound, Entry
from checkrail.engine.dispatch import Lanes
from checkrail.engine.points import (
    CONTRACTS,
    EXACT_TYPES,
    FIRED_AS,
    Contract,
    HookPoint,
    Lane,
    point_named,
)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The hooks of one point, in the order in which they are called.

    `marks` says that hooks may start tasks, each of which is to remember whose work it is.
    In less than its `least_timeout` no hook can have overrun its own.
    """

    contract: Contract
    point: HookPoint
    exact: type
    lanes: Lanes
    marks: bool
    background: tuple[Entry, ...]
    least_timeout: float

    def narrowed(self, hooks: Container[Bound]) -> Chain:
        """Give the chain with some of its hooks only."""
        lanes = tuple(
            (lane, tuple(e for e in found if e[0] in hooks)) for lane, found in self.lanes
        )
        return replace(self, lanes=lanes, background=())

    def lacking(self, names: Container[str]) -> Chain | None:
        """Give the chain without some hooks, named `level/hook`; None: there is no other."""
        lanes = tuple((lane, _others(found, names)) for lane, found in self.lanes)
        background = _others(self.background, names)
        if not background and not any(found for _, found in lanes):
            return None
        return replace(self, lanes=lanes, background=background)


def _others(entries: tuple[Entry, ...], names: Container[str]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry[0].key not in names)


class Plan(dict[str, Chain | None]):
    """The chain of every point, by all its names; None where there is no hook."""

    def __missing__(self, name: str) -> Chain | None:
        return self[point_named(name)]


def compiled(hooks: Iterable[Bound]) -> Plan:
    """Compile the hooks of one level."""
    at: dict[HookPoint, list[Bound]] = {point: [] for point in HookPoint}
    for bound in hooks:
        if bound.spec.mode != "off":
            at[bound.point].append(bound)
    chains = {point: _chain(point, found) for point, found in at.items()}
    return Plan({name: chains[point] for name, point in FIRED_AS.items()})


def _chain(point: HookPoint, hooks: list[Bound]) -> Chain | None:
    if not hooks:
        return None
    hooks.sort(key=lambda bound: (bound.spec.priority, bound.order))
    return _assembled(
        CONTRACTS[point],
        {lane: tuple(b.entry for b in hooks if b.lane is lane) for lane in Lane},
    )


def _assembled(contract: Contract, by_lane: dict[Lane, tuple[Entry, ...]]) -> Chain:
    observers = by_lane[Lane.OBSERVE]
    hooks = [entry[0] for entries in by_lane.values() for entry in entries]
    marks = any(bound.spawns or bound.level.marking for bound in hooks)
    by_lane = by_lane | {
        Lane.OBSERVE: tuple(entry for entry in observers if not entry[0].spec.background),
    }
    background = tuple(entry for entry in observers if entry[0].spec.background)
    lanes = tuple((lane, by_lane[lane]) for lane in Lane if by_lane[lane])
    if background and not by_lane[Lane.OBSERVE]:
        lanes = (*lanes, (Lane.OBSERVE, ()))
    least = min((bound.spec.timeout for bound in hooks), default=math.inf)
    exact = EXACT_TYPES[contract.point]
    return Chain(contract, contract.point, exact, lanes, marks, background, least)


def joined(levels: tuple[Chain | None, ...]) -> Chain | None:
    """Join the chains of several levels, outermost first."""
    chains = [chain for chain in levels if chain is not None]
    if len(chains) <= 1:
        return chains[0] if chains else None
    by_lane: dict[Lane, tuple[Entry, ...]] = {}
    for lane in Lane:
        found: list[Any] = [dict(chain.lanes).get(lane, ()) for chain in chains]
        if lane is Lane.OBSERVE:
            found += [chain.background for chain in chains]
        by_lane[lane] = tuple(entry for entries in found for entry in entries)
    return _assembled(chains[0].contract, by_lane)
