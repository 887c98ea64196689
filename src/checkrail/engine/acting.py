"""Which hooks may change or refuse what passes a point, as far as that is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from checkrail.engine.binding import Bound
from checkrail.engine.matchers import matcher
from checkrail.engine.points import Lane
from checkrail.engine.scope import Scope

FIXED = ("agents", "users", "channels", "tags")
"""The matchers that are settled before a model answers; which model it was may show only then."""


def acting(scope: Scope, *points: str) -> Iterator[Bound]:
    """Give the hooks that may change or refuse what passes, by their word or by their failure."""
    event = SimpleNamespace(context=scope.context, value=None)
    for point in points:
        chain = scope.chain(point)
        lanes = () if chain is None else chain.lanes
        for bound in (entry[0] for _, entries in lanes for entry in entries):
            fixed = {key: bound.spec.match[key] for key in FIXED if key in bound.spec.match}
            applies = matcher(fixed)
            acts = bound.lane is not Lane.OBSERVE and not bound.shadow
            if acts and (applies is None or applies(event)):
                yield bound
