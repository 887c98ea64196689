"""Callbacks: a run that was asked for by a session resumes it with its result."""

from __future__ import annotations

from typing import Any

from checkrail.runs import jsons
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.store.runs import Run

CALLBACK = "callback"
_LONGEST = 100_000  # characters of a result that a parent is told
_WORDS = {"success": "completed", "interrupted": "was stopped"}


def callback_payload(row: Run, outcome: RunOutcome) -> dict[str, Any]:
    """Return what a session is resumed with when a run that it requested has ended."""
    return {
        "session_id": row.notify_on_end["session_id"],
        "prompt": _describe_end(row, outcome),
        "scope": row.scope,
        "user": row.user,
        "depth": row.depth,
    }


def _describe_end(row: Run, outcome: RunOutcome) -> str:
    """Describe the end of a run in words that a model understands."""
    ended = _WORDS.get(outcome.status, "failed")
    head = f"The agent {row.agent_name!r} {ended} (session {row.session_id})."
    if outcome.status == "success":
        output = outcome.output
        text = output if isinstance(output, str) else jsons.dumps(output).decode()
        return f"{head} Its result:\n\n{text[:_LONGEST]}"
    return f"{head} {outcome.error}" if outcome.error else head
