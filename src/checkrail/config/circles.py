"""Circles: who calls each other without end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

Call = TypeVar("Call", bound=Hashable)

Calls = Mapping[str, Sequence[tuple[Call, str]]]
"""For each name its calls, and the name that each of them leads to."""


def circles(calls: Calls[Call]) -> Iterator[tuple[str, Call, str]]:
    """Find each circle once: who closes it, by which call, and the names on the way round."""
    left = {name: [(call, to) for call, to in made if to in calls] for name, made in calls.items()}
    while left := _without_leaves(left):
        path = [next(iter(left))]
        while (last := left[path[-1]][0])[1] not in path:
            path.append(last[1])
        yield path[-1], last[0], " → ".join((*path[path.index(last[1]) :], last[1]))
        left[path[-1]].remove(last)


def leads_to(calls: Calls[Call], start: str, goal: str) -> bool:
    """Return whether calls lead from one name to another."""
    seen, open_ = {start}, [start]
    while open_:
        name = open_.pop()
        if name == goal:
            return True
        new = {to for _, to in calls.get(name, ())} - seen
        seen |= new
        open_ += new
    return False


def _without_leaves(
    calls: dict[str, list[tuple[Call, str]]],
) -> dict[str, list[tuple[Call, str]]]:
    """Leave out those that call none, then those that call only such, and so on."""
    while leaves := {name for name, made in calls.items() if not made}:
        calls = {
            name: [(call, to) for call, to in made if to not in leaves]
            for name, made in calls.items()
            if name not in leaves
        }
    return calls
