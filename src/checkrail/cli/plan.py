"""The plan: which hook runs where, in which order, and how it is treated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table

from checkrail.cli.show import cell, new_table
from checkrail.engine.points import Decision, Lane

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound

TITLES = ("  #", "hook", "does", "lane", "priority", "matches", "timeout", "on_error", "mode")
FOLDED = frozenset({"does", "matches", "on_error"})


def hook_row(bound: Bound) -> dict[str, Any]:
    """Tell everything about a hook at a point that decides how it is treated."""
    spec = bound.spec
    told: dict[str, Any] = {
        "name": spec.name,
        "lane": str(bound.lane),
        "priority": spec.priority,
        "match": {field: [_written(item) for item in found] for field, found in spec.match.items()},
        "when": spec.when_text or (spec.when is not None),
        "timeout": spec.timeout if spec.timeout != float("inf") else None,
        "on_error": {kind: bound.on_error(kind) for kind in bound.policy},
        "mode": spec.mode,
        "background": spec.background,
        "stream": spec.stream,
        "may": _may(bound),
        "declared": bound.declared,
        "type": spec.target_type,
        "target": spec.target_name,
        "source": spec.source,
    }
    return told


def _may(bound: Bound) -> list[str]:
    """Return what a hook can do here, as far as can be seen before it does."""
    if bound.lane is Lane.OBSERVE:
        return ["watch"]
    able = bound.contract.decisions if bound.spec.decisions is None else bound.spec.decisions
    changes = Decision.CONTINUE in able and bound.lane is Lane.TRANSFORM
    return ["change"] * changes + sorted(able - {Decision.CONTINUE})


def _written(pattern: Any) -> str:
    """Show a pattern as it stands in the file: variables in it may be secret."""
    return str(getattr(pattern, "written", getattr(pattern, "pattern", pattern)))


def plan_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Show the hooks of one point in the order in which they run."""
    table = new_table(*TITLES, folded=FOLDED)
    for number, row in enumerate(rows, 1):
        table.add_row(
            f"  {number}",
            cell(row["name"], "bold"),
            cell(_does(row)),
            row["lane"] + _manner(row),
            str(row["priority"]),
            cell(_matches(row) or "everything"),
            "none" if row["timeout"] is None else f"{row['timeout']:g} s",
            _on_error(row["on_error"], over=row["declared"] == "on_run_finish"),
            cell(row["mode"], "" if row["mode"] == "enforce" else "yellow"),
        )
    return table


def _does(row: dict[str, Any]) -> str:
    """Return what a hook calls, or what a rule may decide."""
    return f"rule: {', '.join(row['may'])}" if row["type"] == "rule" else str(row["target"])


def _manner(row: dict[str, Any]) -> str:
    """Return how a hook stands in its lane, if not in the usual way."""
    if row["background"]:
        return " (background)"
    return "" if row["stream"] == "whole" else f" ({row['stream']})"


def _matches(row: dict[str, Any]) -> str:
    parts = [f"{field}: {', '.join(found)}" for field, found in row["match"].items()]
    if row["when"]:
        parts.append(f"when: {row['when']}" if isinstance(row["when"], str) else "when: (code)")
    return "; ".join(parts)


def _on_error(policy: dict[str, str], *, over: bool) -> str:
    """Return what failures do; where a run is `over`, a block can only be logged."""
    usual = policy["error"]
    others = [f"{kind}: {what}" for kind, what in policy.items() if what != usual]
    text = ", ".join([usual, *others])
    return f"{text} (logged as an error: the run is over)" if over and "block" in text else text
