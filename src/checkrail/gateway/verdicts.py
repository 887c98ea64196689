"""What verdicts mean to somebody who called a model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from checkrail.agent.endings import changers
from checkrail.agent.messages import problems
from checkrail.agent.patience import settled
from checkrail.engine.points import Decision
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict
from checkrail.gateway.formats.base import Refusal

T = TypeVar("T")


class Refused(Exception):
    """There is no answer: the caller is told why."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def passed(verdict: Verdict) -> Any:
    """Return the value of a verdict, or refuse the caller if hooks refused it or failed."""
    if verdict.decision is Decision.BLOCK:
        status = verdict.status or 403
        raise Refused(Refusal(status, verdict.reason, verdict.code, verdict.retry_after))
    return survived(verdict)


def survived(verdict: Verdict) -> Any:
    """Return the value of a verdict, or refuse the caller if it failed."""
    if verdict.decision is Decision.FAIL:
        raise Refused(Refusal(verdict.status or 500, verdict.reason, verdict.code))
    return verdict.value


def sound(verdict: Verdict) -> AssistantMessage:
    """Return an answer as hooks left it, or refuse the caller if it is none any more."""
    message: AssistantMessage = passed(verdict)
    if (problem := next(problems(message), None)) is not None:
        by = verdict.hook or changers(verdict)
        raise broken(f"the answer that {by} made is none: {problem}")
    return message


def broken(problem: str) -> Refused:
    """Refuse the caller because hooks made something that cannot be."""
    return Refused(Refusal(500, problem, "hook_invalid"))


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things side by side; the first failure cancels the others."""
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.create_task(work) for work in works]
    if tasks:
        await settled(tasks)
    ended = [task for task in tasks if not task.cancelled()]
    for task in ended:
        task.result()
    if len(ended) < len(tasks):
        raise asyncio.CancelledError
    return [task.result() for task in tasks]
