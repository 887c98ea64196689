"""The timeline: what each hook said to an event, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from checkrail.cli.output import cell, new_table
from checkrail.engine.records import HookRecord, RecordKind
from checkrail.engine.values import plain

if TYPE_CHECKING:
    from checkrail.engine.verdict import Verdict

SHOWN = 60
ABSENT = object()

COLOURS = {
    "continue": "green",
    "block": "red",
    "fail": "red",
    "ask": "yellow",
    "retry": "yellow",
    "replace": "cyan",
    "stop": "cyan",
}


def timeline(records: Iterable[HookRecord], hide: Callable[[str], str] = str) -> Table:
    """Return a table of hook calls: when, how long, which decision; `hide` removes secrets."""
    table = new_table("lane", "hook", "decision", "took", "why", folded={"why"}, header=False)
    for record in records:
        if record.kind is RecordKind.START:
            continue
        table.add_row(
            cell(f"  {record.lane:<9}", "dim"),
            cell(record.hook, "bold"),
            _decision_text(record),
            cell(f"{record.duration_ms:.2f} ms", "dim"),
            cell(hide(_describe_reason(record))),
        )
    return table


def _decision_text(record: HookRecord) -> Text:
    if record.failure is not None:
        text = Text(f"failed ({record.failure})", style="magenta")
    else:
        word = _decision_word(record)
        text = Text(word, style=COLOURS[str(record.decision)] if word != "passes" else "dim")
    if record.shadow:
        text = Text("in shadow: ", style="yellow") + text
    return text


def _decision_word(record: HookRecord) -> str:
    if record.redacted:
        return "redacts"
    if record.changed:
        return "changes"
    if record.injected and record.decision == "continue":
        return "injects"
    words = {"continue": "passes", "block": "blocks", "fail": "fails", "ask": "asks"}
    words |= {"retry": "retries", "replace": "replaces", "stop": "stops"}
    return words[str(record.decision)]


def _describe_reason(record: HookRecord) -> str:
    if record.failure is not None:
        return record.error or ""
    if record.changed and not record.redacted:
        return describe_changes(record.before, record.after)
    asked = f" ({record.answer})" if record.answer else ""
    return record.reason + asked + (" (overran its timeout)" if record.overran else "")


def describe_changes(before: Any, after: Any, path: str = "") -> str:
    """Return in one line how a value changed."""
    return ", ".join(_iter_differences(plain(before), plain(after), path))


def _iter_differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            inner = f"{path}.{key}" if path else key
            yield from _iter_differences(before.get(key, ABSENT), after.get(key, ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list):
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=ABSENT)):
            yield from _iter_differences(old, new, f"{path}[{number}]")
    else:
        yield f"{path or 'value'}: {_describe_change(before, after)}"


def _describe_change(before: Any, after: Any) -> str:
    if isinstance(before, str) and isinstance(after, str):
        pairs = enumerate(zip(before, after, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
        if same > SHOWN // 2:  # what is alike would hide what is not
            cut = same - SHOWN // 4
            before, after = f"…{before[cut:]}", f"…{after[cut:]}"
    return f"{_shorten_value(before)} → {_shorten_value(after)}"


def _shorten_value(value: Any) -> str:
    if value is ABSENT:
        return "(nothing)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def verdict_line(verdict: Verdict, hide: Callable[[str], str] = str) -> Text:
    """Return what was decided, by whom, and why; `hide` removes secrets."""
    text = Text(str(verdict.decision), style=f"bold {COLOURS[str(verdict.decision)]}")
    if verdict.hook:
        text += cell(f" by {verdict.hook}")
    if verdict.status is not None:
        text += Text(f" ({verdict.status})")
    return text + cell(f": {hide(verdict.reason)}" if verdict.reason else "")
