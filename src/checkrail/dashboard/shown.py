"""How values look: times, durations, money, statuses and what hooks did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Shown = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Status:
    """A status as people read it: its word, the colours it has, and its icon."""

    word: str
    kind: str
    icon: str


SUCCESS = Status("Success", "success", "circle-check")
RUNNING = Status("Running", "running", "loader")
QUEUED = Status("Queued", "running", "clock")
WAITING = Status("Waiting", "waiting", "hourglass")
BLOCKED = Status("Blocked", "blocked", "shield-ban")
REFUSED = Status("Refused", "blocked", "shield-ban")
FAILED = Status("Failed", "failed", "circle-x")
TIMED_OUT = Status("Timed out", "failed", "circle-x")
CANCELLED = Status("Cancelled", "cancelled", "circle-slash")
INTERRUPTED = Status("Interrupted", "interrupted", "circle-pause")

_BY_PHASE = {
    "waiting": WAITING,
    "blocked": BLOCKED,
    "refused": REFUSED,
    "cancelled": CANCELLED,
    "interrupted": INTERRUPTED,
}
_BY_STATUS = {
    "success": SUCCESS,
    "running": RUNNING,
    "pending": QUEUED,
    "error": FAILED,
    "timeout": TIMED_OUT,
    "interrupted": INTERRUPTED,
}

APPROVALS = {
    "open": Status("Open", "waiting", "hourglass"),
    "approved": Status("Approved", "success", "circle-check"),
    "denied": Status("Denied", "blocked", "shield-ban"),
    "expired": Status("Expired", "failed", "clock"),
    "void": Status("Withdrawn", "cancelled", "circle-slash"),
}

DECISIONS = {
    "block": ("blocked", "blocked", "shield-ban"),
    "fail": ("failed the work", "failed", "circle-x"),
    "ask": ("asked", "waiting", "hourglass"),
    "retry": ("retried", "waiting", "rotate-ccw"),
    "replace": ("replaced", "changed", "pencil"),
    "stop": ("stopped", "changed", "circle-pause"),
}


def run_status(run: Shown) -> Status:
    """Return the status of a run."""
    found = _BY_PHASE.get(run.get("phase") or "") or _BY_STATUS.get(run.get("status") or "")
    return found or Status(str(run.get("status") or "Unknown"), "cancelled", "info")


def approval_status(approval: Shown) -> Status:
    """Return the status of a question."""
    told = approval.get("status") or ""
    return APPROVALS.get(told, Status(str(told), "cancelled", "info"))


def record_status(record: Shown) -> Status:
    """Return what a hook call came to."""
    if record.get("event_type") == "hook_start":
        return Status("running", "running", "loader")
    if record.get("failure"):
        return Status(f"failed ({record['failure']})", "failed", "circle-x")
    decision = record.get("decision") or "continue"
    if record.get("shadow") and (decision != "continue" or is_changed(record)):
        word = "would block" if decision == "block" else f"would {decision}"
        return Status("would change" if decision == "continue" else word, "would", "ghost")
    if decision in DECISIONS:
        word, kind, icon = DECISIONS[decision]
        answer = record.get("answer")
        return Status(f"{word}: {answer}" if answer else word, kind, icon)
    if record.get("redacted"):
        return Status("redacted", "changed", "pencil")
    if is_changed(record):
        return Status("changed", "changed", "pencil")
    return Status("injected" if record.get("injected") else "passed", "passed", "check")


def is_changed(record: Shown) -> bool:
    """Return whether a hook changed the value."""
    told = record.get("changed")
    return bool(told) if told is not None else "after" in record or bool(record.get("redacted"))


def parse_time(told: Any) -> float | None:
    """Return a time as the API writes it, in seconds; what is none is None."""
    if isinstance(told, int | float):
        return float(told)
    if not isinstance(told, str):
        return None
    try:
        return datetime.fromisoformat(told).timestamp()
    except ValueError:
        return None


def iso_time(seconds: float | None) -> str:
    """Return a time for machines."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def clock_time(seconds: float | None, now: float) -> str:
    """Return a time of today as a clock shows it, and another with its day; in UTC."""
    if seconds is None:
        return "–"
    when, today = datetime.fromtimestamp(seconds, UTC), datetime.fromtimestamp(now, UTC)
    if when.date() == today.date():
        return when.strftime("%H:%M:%S")
    shown = when.strftime("%d %b %H:%M")
    return shown if when.year == today.year else when.strftime("%d %b %Y")


def duration(seconds: Any) -> str:
    """Return a time that passed."""
    if not isinstance(seconds, int | float):
        return "–"
    seconds = max(0.0, seconds)
    if seconds < 0.001:
        return f"{seconds * 1000:.2f} ms" if seconds else "0 ms"
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def count(number: Any) -> str:
    """Return a number with its thousands set off."""
    return f"{number:,}" if isinstance(number, int | float) else "–"


def money(dollars: Any) -> str:
    """Return an amount of dollars."""
    if not isinstance(dollars, int | float):
        return "–"
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def total_tokens(run: Shown) -> int | None:
    """Return the tokens of a run."""
    told = run.get("total_tokens")
    if told is not None:
        return int(told)
    usage = run.get("usage")
    if not isinstance(usage, Mapping) or not usage:
        return None
    parts = [each for each in usage.values() if isinstance(each, Mapping)]
    return sum(int(each.get("total_tokens") or 0) for each in parts) or None


def text_of(value: Any, indent: int | None = 2) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def summary(value: Any, length: int = 160) -> str:
    """Return a value in one line."""
    told = _last_message(value)
    line = " ".join(text_of(told, None).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _last_message(value: Any) -> Any:
    """Return the text of the last message of a conversation, or the value."""
    if not isinstance(value, Mapping):
        return "" if value is None else value
    messages = value.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str) and messages:
        last = messages[-1]
        content = last.get("content") if isinstance(last, Mapping) else last
        return content if isinstance(content, str) else last
    if [*value] == ["prompt"] or [*value] == ["message"]:
        return next(iter(value.values()))
    return value


def short_id(told: str | None) -> str:
    """Return the part of an id by which people tell it from others: its end is random."""
    return (told or "")[-8:]
