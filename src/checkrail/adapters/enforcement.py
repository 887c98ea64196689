"""Whether hooks rule over what passes a point, for adapters and for who tells of their work."""

from __future__ import annotations

from checkrail.engine.acting import acting
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.scope import Scope


def enforcing(scope: Scope, point: HookPoint, *lanes: Lane) -> bool:
    """Return whether a hook in these lanes may change or refuse what passes a point."""
    return any(bound.lane in lanes for bound in acting(scope, point))
