"""The run around: what runs beneath it, in a tool or a hook, is held by its hooks."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from checkrail.engine.scope import Scope

if TYPE_CHECKING:
    from checkrail.agent.loop import Loop

AROUND: ContextVar[Loop | None] = ContextVar("checkrail_loop", default=None)
"""The run whose work this is."""


def beneath(above: Loop | None, given: Scope | None) -> Scope | None:
    """Return the scope that a run goes under: that of the run around it, and what it was given.

    A run that is over still lends its hooks to what it began, but no ids: a task that outlives
    it may work for somebody else by now.
    """
    if above is None:
        return given
    outer = _without_ids(above.at) if above.over else above.at
    if given is None:
        return outer
    if all(level in given.levels for level in outer.levels):
        return given
    for level in given.levels:
        outer = level.scope(parent=outer)
    known = {name: getattr(given.context, name) for name in given.context.__slots__}
    return outer.bind(**{name: value for name, value in known.items() if value})


def _without_ids(scope: Scope) -> Scope:
    first, *further = scope.levels
    bare = first.scope()
    for level in further:
        bare = level.scope(parent=bare)
    return bare
