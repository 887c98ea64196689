"""Which hooks may change or refuse what passes a point, as far as that is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from checkrail.engine.chain import BoundHook
from checkrail.engine.matchers import build_matcher
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.scope import Scope

FIXED = ("agents", "users", "channels", "tags")
"""The matchers that are settled before a model answers; which model it was may show only then."""


def enforcing_hooks(scope: Scope, *points: str) -> Iterator[BoundHook]:
    """Yield the hooks that may change or refuse what passes, by their word or by their failure."""
    event = SimpleNamespace(context=scope.context, value=None)
    for point in points:
        for bound in scope.bound_hooks(point):
            fixed = {key: bound.spec.match[key] for key in FIXED if key in bound.spec.match}
            applies = build_matcher(fixed)
            enforces = bound.lane is not Lane.OBSERVE and not bound.shadow
            if enforces and (applies is None or applies(event)):
                yield bound


def has_enforcing_hooks(scope: Scope, point: HookPoint, *lanes: Lane) -> bool:
    """Return whether a hook in these lanes may change or refuse what passes a point."""
    return any(bound.lane in lanes for bound in enforcing_hooks(scope, point))
