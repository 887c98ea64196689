"""How a run of the loop comes to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from checkrail.agent.messages import problems
from checkrail.engine.points import Decision
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict

StopReason = Literal["answer", "stop", "block", "max_iterations", "fail", "error", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run: why, and with which answer or error."""

    stop_reason: StopReason
    message: AssistantMessage | None = None
    output: Any = None
    error: str | None = None


class Blocked(Exception):
    """A hook refused what the loop was about to do: the run ends, and this is no failure."""


class Failing(Exception):
    """The run ends as an error; `by_hook` if a hook said so, which no run above can survive."""

    def __init__(self, reason: str, *, by_hook: bool = False) -> None:
        super().__init__(reason)
        self.by_hook = by_hook


def passed(verdict: Verdict) -> Any:
    """Return the value of a verdict, or end the run if it was refused."""
    if verdict.decision is Decision.BLOCK:
        raise Blocked(verdict.reason)
    return survived(verdict)


def survived(verdict: Verdict) -> Any:
    """Return the value of a verdict, or end the run if it failed."""
    if verdict.decision is Decision.FAIL:
        raise Failing(verdict.reason, by_hook=True)
    return verdict.value


def sound(verdict: Verdict) -> AssistantMessage:
    """Return an answer as hooks left it, or end the run if it was refused or is none any more."""
    message: AssistantMessage = passed(verdict)
    if (problem := next(problems(message), None)) is not None:
        by = verdict.hook or changers(verdict)
        raise Failing(f"the answer that {by} made is none: {problem}", by_hook=True)
    return message


def changers(verdict: Verdict) -> str:
    """Name the hooks that changed the value."""
    return ", ".join(record.hook for record in verdict.records if record.changed)
