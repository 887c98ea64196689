"""How hooks end a run from within a graph, and what it goes on with that they refused."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp

from checkrail.engine.points import Decision, HookPoint
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Ended:
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

    def __init__(self, ended: Ended) -> None:
        self.ended = ended
        super().__init__(ended.reason or f"a hook at {ended.point} said {ended.decision}")

    def __reduce__(self) -> tuple[type[RunEnded], tuple[Ended]]:
        return RunEnded, (self.ended,)


class ToolBlocked(ToolException):
    """A hook refused a tool that code has called, where there is no model to be told."""


def ending(verdict: Verdict, point: HookPoint) -> Ended:
    """Return how a verdict ends the run."""
    stopped = verdict.decision is Decision.STOP
    return Ended(
        verdict.decision,
        verdict.reason,
        point,
        verdict.status,
        verdict.code,
        verdict.hook,
        verdict.value if stopped else None,
    )


def failing(reason: str, point: HookPoint, hook: str | None = None) -> Ended:
    """End the run for a change that hooks made, and that cannot be."""
    return Ended(Decision.FAIL, reason, point, 500, "hook_invalid", hook)
