"""A tool call's hooks in two halves: changes when the model asks, gates when the tool is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.chain import BoundHook
from checkrail.engine.points import Decision, HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.engine.verdict import Verdict

AT = HookPoint.BEFORE_TOOL_CALL

FIRST_HALF: Mapping[str, Any] = {"lanes": (Lane.TRANSFORM,)}
"""How a point is fired to show a tool call to the hooks that may change it."""


class ReviewedToolCall:
    """A tool call that transforming hooks have seen, and what they decided on it."""

    __slots__ = ("hooks", "verdict")

    def __init__(self, hooks: tuple[BoundHook, ...], verdict: Verdict | None) -> None:
        self.hooks = hooks
        self.verdict = verdict

    @property
    def is_plain(self) -> bool:
        """Whether they just let it go on."""
        return self.verdict is None or self.verdict.decision is Decision.CONTINUE


def transform_hooks(scope: Scope) -> tuple[BoundHook, ...]:
    """Return the hooks that may change a tool call."""
    chain = scope.chain(AT)
    return () if chain is None else dict(chain.lanes).get(Lane.TRANSFORM, ())


def second_half(scope: Scope, seen: ReviewedToolCall | None) -> Mapping[str, Any]:
    """Return how the point is fired for a call that is about to be made: to who has not seen it.

    That is all hooks, if those that may change it are not those that saw it.
    """
    if seen is None or seen.hooks != transform_hooks(scope):
        return {}
    return {"lanes": (Lane.GATE, Lane.OBSERVE), "after": seen.verdict}
