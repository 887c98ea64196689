"""What people see: plans and timelines, in colour where the terminal has it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkrail.engine.records import HookRecord, RecordKind
from checkrail.engine.values import plain

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound
    from checkrail.engine.verdict import Verdict

WIDE = 10_000
"""How wide a line may get where nobody's terminal would break it."""

COLOURS = {
    "continue": "green",
    "block": "red",
    "fail": "red",
    "ask": "yellow",
    "retry": "yellow",
    "replace": "cyan",
    "stop": "cyan",
}


def console(*, stderr: bool = False) -> Console:
    """Give a console that prints what it is given, and never cuts or wraps a name in two."""
    colours: Any = None if os.environ.get("NO_COLOR") else "auto"
    found = Console(
        stderr=stderr, color_system=colours, highlight=False, emoji=False, soft_wrap=True
    )
    found.width = max(found.width, 100) if found.is_terminal else WIDE
    return found


def as_json(data: Any) -> str:
    """Write data for machines."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return json.dumps(data, indent=2)
    return text


def shown(text: str) -> str:
    """Make a text safe to print: what hooks say may carry what would draw on the terminal."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode()
        for sign in text
    )


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
        "on_error": dict(bound.policy),
        "mode": spec.mode,
        "background": spec.background,
        "declared": bound.declared,
        "type": spec.target_type,
        "target": spec.target_name,
        "source": spec.source,
    }
    return told


def _written(pattern: Any) -> str:
    """Show a pattern as it stands in the file: variables in it may be secret."""
    return str(getattr(pattern, "written", getattr(pattern, "pattern", pattern)))


def plan_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Show the hooks of one point in the order in which they run."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("  #", "hook", "lane", "priority", "matches", "timeout", "on_error", "mode"):
        table.add_column(title, no_wrap=title not in ("matches", "on_error"), overflow="fold")
    for number, row in enumerate(rows, 1):
        table.add_row(
            f"  {number}",
            Text(row["name"], style="bold"),
            row["lane"] + (" (background)" if row["background"] else ""),
            str(row["priority"]),
            _matches(row) or "everything",
            "none" if row["timeout"] is None else f"{row['timeout']:g} s",
            _on_error(row["on_error"]),
            Text(row["mode"], style="" if row["mode"] == "enforce" else "yellow"),
        )
    return table


def _matches(row: dict[str, Any]) -> str:
    parts = [f"{field}: {', '.join(found)}" for field, found in row["match"].items()]
    if row["when"]:
        parts.append(f"when: {row['when']}" if isinstance(row["when"], str) else "when: (code)")
    return "; ".join(parts)


def _on_error(policy: dict[str, str]) -> str:
    usual = policy["error"]
    others = [f"{kind}: {what}" for kind, what in policy.items() if what != usual]
    return ", ".join([usual, *others])


def timeline(records: Iterable[HookRecord], hide: Callable[[str], str] = str) -> Table:
    """Show every hook call: when it ran, how long, what it said; `hide` takes secrets out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for record in records:
        if record.kind is RecordKind.START:
            continue
        table.add_row(
            Text(f"  {record.lane:<9}", style="dim"),
            Text(shown(record.hook), style="bold"),
            _said(record),
            Text(f"{record.duration_ms:.2f} ms", style="dim"),
            Text(shown(hide(_why(record)))),
        )
    return table


def _said(record: HookRecord) -> Text:
    if record.failure is not None:
        text = Text(f"failed ({record.failure})", style="magenta")
    else:
        word = _word(record)
        text = Text(word, style=COLOURS[str(record.decision)] if word != "passes" else "dim")
    if record.shadow:
        text = Text("would: ", style="yellow") + text
    return text


def _word(record: HookRecord) -> str:
    if record.redacted:
        return "redacts"
    if record.changed:
        return "changes"
    if record.injected and record.decision == "continue":
        return "injects"
    words = {"continue": "passes", "block": "blocks", "fail": "fails", "ask": "asks"}
    words |= {"retry": "retries", "replace": "replaces", "stop": "stops"}
    return words[str(record.decision)]


def _why(record: HookRecord) -> str:
    if record.failure is not None:
        return record.error or ""
    if record.changed and not record.redacted:
        return changes(record.before, record.after)
    return record.reason + (" (overran its timeout)" if record.overran else "")


def changes(before: Any, after: Any, path: str = "") -> str:
    """Say in one line what became of a value."""
    before, after = plain(before), plain(after)
    if not isinstance(before, dict) or not isinstance(after, dict):
        return f"{path or 'value'}: {_short(before)} → {_short(after)}"
    found = [
        changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    return ", ".join(found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def verdict_line(verdict: Verdict, hide: Callable[[str], str] = str) -> Text:
    """Say what was decided, by whom, and why; `hide` takes secrets out."""
    text = Text(str(verdict.decision), style=f"bold {COLOURS[str(verdict.decision)]}")
    if verdict.hook:
        text += Text(f" by {verdict.hook}")
    if verdict.status is not None:
        text += Text(f" ({verdict.status})")
    return text + Text(f": {shown(hide(verdict.reason))}" if verdict.reason else "")
