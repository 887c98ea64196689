"""Callbacks: a run that was asked for by a session resumes it with its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.runs import jsons
from checkrail.runs.outcome import Outcome

CALLBACK = "callback"
_LONGEST = 100_000  # characters of a result that a parent is told
_WORDS = {"success": "completed", "interrupted": "was stopped"}


def callback(row: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """Tell what a session is resumed with when a run that it asked for has ended."""
    return {
        "session_id": row["told"]["session_id"],
        "prompt": _told(row, outcome),
        "scope": row.get("scope"),
        "user": row["user"],
        "depth": row.get("depth", 0),
    }


def _told(row: Mapping[str, Any], outcome: Outcome) -> str:
    """Put the end of a run into words that a model understands."""
    ended = _WORDS.get(outcome.status, "failed")
    head = f"The agent {row['agent_name']!r} {ended} (session {row['session_id']})."
    if outcome.status == "success":
        output = outcome.output
        text = output if isinstance(output, str) else jsons.dumps(output).decode()
        return f"{head} Its result:\n\n{text[:_LONGEST]}"
    return f"{head} {outcome.error}" if outcome.error else head
