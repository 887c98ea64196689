"""The plan: the hooks at each point, in the order in which they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkrail.engine.points import Decision, HookPoint, Lane

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook
    from checkrail.engine.scope import Scope


def build_scope_plan(scope: Scope) -> dict[str, list[dict[str, Any]]]:
    """Return the hooks of all levels of a scope by their points."""
    plan: dict[str, list[dict[str, Any]]] = {}
    for point in HookPoint:
        rows = [
            {**build_hook_row(bound), "level": bound.level.label}
            for bound in scope.bound_hooks(point)
        ]
        if rows:
            plan[str(point)] = rows
    return plan


def build_hook_row(bound: BoundHook) -> dict[str, Any]:
    """Return everything about a hook at a point that decides how it is run."""
    spec = bound.spec
    told: dict[str, Any] = {
        "name": spec.name,
        "lane": str(bound.lane),
        "priority": spec.priority,
        "match": {
            field: [_pattern_text(item) for item in found] for field, found in spec.match.items()
        },
        "when": spec.when_text or (spec.when is not None),
        "timeout": spec.timeout if spec.timeout != float("inf") else None,
        "on_error": {kind: bound.on_error(kind) for kind in bound.policy},
        "mode": spec.mode,
        "background": spec.background,
        "stream": spec.stream,
        "may": _possible_decisions(bound),
        "declared": bound.declared,
        "type": spec.target_type,
        "target": spec.target_name,
        "source": spec.source,
    }
    return told


def _possible_decisions(bound: BoundHook) -> list[str]:
    """Return what a hook can do here, as far as can be seen before it does."""
    if bound.lane is Lane.OBSERVE:
        return ["watch"]
    able = bound.contract.decisions if bound.spec.decisions is None else bound.spec.decisions
    changes = Decision.CONTINUE in able and bound.lane is Lane.TRANSFORM
    return ["change"] * changes + sorted(able - {Decision.CONTINUE})


def _pattern_text(pattern: Any) -> str:
    """Return a pattern as it stands in the file: variables in it may be secret."""
    return str(getattr(pattern, "written", getattr(pattern, "pattern", pattern)))
