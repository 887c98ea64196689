"""What a verdict on an answer says about the answer and the hooks that changed it."""

from __future__ import annotations

from checkrail.engine.verdict import Verdict
from checkrail.llm.conversation import find_problems


def changing_hooks(verdict: Verdict) -> str:
    """Return the names of the hooks that changed the value."""
    return ", ".join(record.hook for record in verdict.records if record.changed)


def invalid_answer_reason(verdict: Verdict) -> str | None:
    """Return why the answer that hooks left is invalid, and whose it is; None if it is valid."""
    problem = next(find_problems(verdict.value), None)
    if problem is None:
        return None
    hooks = verdict.hook or changing_hooks(verdict)
    return f"the answer of hook {hooks} is invalid: {problem}"
