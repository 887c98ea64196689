"""How hooks end a run from within a graph, and what it goes on with that they refused."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp

from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The verdict that ended a run; `message` is what a `stop` ends it with."""

    decision: Decision
    reason: str
    point: HookPoint
    status: int | None = None
    code: str | None = None
    hook: str | None = None
    message: AssistantMessage | None = None


class RunEnded(GraphBubbleUp):
    """A hook has ended the run: LangGraph lets this pass where it would mend an error."""

    def __init__(self, ended: RunEnding) -> None:
        self.ended = ended
        super().__init__(ended.reason or f"a hook at {ended.point} said {ended.decision}")

    def __reduce__(self) -> tuple[type[RunEnded], tuple[RunEnding]]:
        return RunEnded, (self.ended,)


class ToolBlocked(ToolException):
    """A hook blocked a tool that code has called, where there is no model to get the reason."""


def build_ending(verdict: Verdict, point: HookPoint) -> RunEnding:
    """Return how a verdict ends the run."""
    stopped = verdict.decision is Decision.STOP
    return RunEnding(
        verdict.decision,
        verdict.reason,
        point,
        verdict.status,
        verdict.code,
        verdict.hook,
        verdict.value if stopped else None,
    )


def failure_ending(reason: str, point: HookPoint, hook: str | None = None) -> RunEnding:
    """Return the ending of a run for a change by hooks that is invalid."""
    return RunEnding(Decision.FAIL, reason, point, 500, "hook_invalid", hook)
