"""A tool call's hooks in two halves: changes when the model asks, gates when the tool is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checkrail.engine.binding import SYNC, Entry
from checkrail.engine.plan import Chain
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.verdict import Verdict

AT = HookPoint.BEFORE_TOOL_CALL


class Half(Scope):
    """A scope that calls some of the hooks at one point; all else is as it was."""

    __slots__ = ("_half",)

    def __init__(self, scope: Scope, half: Chain) -> None:
        super().__init__(scope.levels, scope.context, scope.budget, scope.desks)
        self.only = None
        self._half = half

    def chain(self, point: str) -> Chain | None:
        """Return the hooks of this half."""
        return self._half if point == self._half.point else super().chain(point)


class Seen:
    """A tool call that the hooks which may change it have seen, and what they said of it."""

    __slots__ = ("hooks", "verdict")

    def __init__(self, hooks: tuple[Entry, ...], verdict: Verdict | None) -> None:
        self.hooks = hooks
        self.verdict = verdict

    @property
    def is_plain(self) -> bool:
        """Whether they just let it go on."""
        ruling = getattr(getattr(self.verdict, "_d", None), "ruling", None)
        return ruling is None or ruling.transform is None


def transforms(scope: Scope) -> tuple[Entry, ...]:
    """Return the hooks that may change a tool call."""
    chain = scope.chain(AT)
    return () if chain is None else dict(chain.lanes).get(Lane.TRANSFORM, ())


def first_half(scope: Scope) -> Scope:
    """Return a scope in which a tool call is shown to the hooks that may change it."""
    chain: Any = scope.chain(AT)
    return Half(scope, replace(chain, lanes=((Lane.TRANSFORM, transforms(scope)),), background=()))


def second_half(scope: Scope, seen: Seen | None) -> Scope:
    """Return a scope for a call that is about to be made: the hooks that have not seen it yet.

    That is all of them, if those that may change it are not those that saw it.
    """
    chain = scope.chain(AT)
    if seen is None or chain is None or seen.hooks != transforms(scope):
        return scope
    later = tuple(lane for lane in chain.lanes if lane[0] is not Lane.TRANSFORM)
    return Half(scope, replace(chain, lanes=((Lane.TRANSFORM, _said(seen)), *later)))


def _said(seen: Seen) -> tuple[Entry, ...]:
    """Stand in for hooks that were called already: what they decided stands, without a call.

    A condition that does not hold leaves no record, and it sees the dispatch before any gate does.
    """
    if seen.is_plain:
        return ()
    ruling: Any = seen.verdict._d.ruling  # type: ignore[union-attr]  # noqa: SLF001

    def condition(event: Any) -> bool:
        event._d.rule().transform = ruling.transform  # noqa: SLF001
        return False

    return ((ruling.transform.by, condition, condition, SYNC),)
