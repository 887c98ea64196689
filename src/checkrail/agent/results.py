"""How a run of the loop comes to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from checkrail.engine.points import Decision
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict
from checkrail.llm.verdicts import invalid_answer_reason

StopReason = Literal["answer", "stop", "block", "max_iterations", "fail", "error", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run: why, with which answer or error, and by which hook, if one decided so."""

    stop_reason: StopReason
    message: AssistantMessage | None = None
    output: Any = None
    error: str | None = None
    hook: str | None = None


class HookFailure(NamedTuple):
    """A hook's `fail`, which no run above survives; without a hook where it was not one alone."""

    reason: str
    hook: str | None


class BlockedByHook(Exception):
    """A hook refused what the loop was about to do: the run ends, and this is no failure."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.hook = verdict.hook


class LoopFailure(Exception):
    """The run ends as an error; `failure` is the hook's, if hooks are the cause."""

    def __init__(self, reason: str, failure: HookFailure | None = None) -> None:
        super().__init__(reason)
        self.failure = failure


def hook_failure(reason: str, hook: str | None) -> LoopFailure:
    """Return the error that ends a run because of a hook."""
    return LoopFailure(reason, HookFailure(reason, hook))


def value_or_refuse(verdict: Verdict) -> Any:
    """Return the value of a verdict, or end the run if it was blocked."""
    if verdict.decision is Decision.BLOCK:
        raise BlockedByHook(verdict)
    return value_or_fail(verdict)


def value_or_fail(verdict: Verdict) -> Any:
    """Return the value of a verdict, or end the run if it failed."""
    if verdict.decision is Decision.FAIL:
        raise hook_failure(verdict.reason, verdict.hook)
    return verdict.value


def valid_answer(verdict: Verdict) -> AssistantMessage:
    """Return the answer as hooks left it, or end the run if it was refused or is invalid."""
    message: AssistantMessage = value_or_refuse(verdict)
    if (reason := invalid_answer_reason(verdict)) is not None:
        raise hook_failure(reason, verdict.hook)
    return message
