"""What verdicts mean to somebody who called a model."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from checkrail.engine.points import Decision
from checkrail.engine.values import AssistantMessage
from checkrail.engine.verdict import Verdict
from checkrail.llm.timeouts import wait_for_tasks
from checkrail.llm.verdicts import invalid_answer_reason
from checkrail.llm.wire_format import Refusal

T = TypeVar("T")

FINAL = 400
"""The status of a refusal that names none: clients of all three APIs show its reason and end.

They take 403 for a wrong key, and some of them ask again on it.
"""

LONGEST_WAIT = 60.0
"""Seconds that clients wait before they ask again, at most."""

LIMITS = frozenset({"rate_limited", "budget_exceeded"})
"""The codes of limits, which refuse with 429."""

LONGEST_LIMIT = 120.0
"""Seconds that a limit may say to wait with 429, on which agents ask again and again, or stand
still until it is time. One of a minute may say a little more than that."""


class Refused(Exception):
    """There is no answer: the caller gets a refusal."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def value_or_refuse(verdict: Verdict) -> Any:
    """Return the value of a verdict, or refuse the caller if hooks refused it or failed."""
    if verdict.decision is Decision.BLOCK:
        status, wait = verdict.named_status or FINAL, verdict.retry_after
        final = status < 500 if wait is None else wait > LONGEST_WAIT
        if verdict.code in LIMITS and (wait is None or wait > LONGEST_LIMIT):
            status = FINAL
        raise Refused(Refusal(status, verdict.reason, verdict.code, wait, final))
    return value_or_fail(verdict)


def value_or_fail(verdict: Verdict) -> Any:
    """Return the value of a verdict, or refuse the caller if it failed."""
    if verdict.decision is Decision.FAIL:
        status = verdict.status or 500
        raise Refused(Refusal(status, verdict.reason, verdict.code, final=True))
    return verdict.value


def valid_answer(verdict: Verdict) -> AssistantMessage:
    """Return an answer as hooks left it, or refuse the caller if it is not a valid one any more."""
    message: AssistantMessage = value_or_refuse(verdict)
    if (reason := invalid_answer_reason(verdict)) is not None:
        raise broken_hook_error(reason)
    return message


def broken_hook_error(problem: str) -> Refused:
    """Return the refusal for a caller because hooks made something invalid."""
    return Refused(Refusal(500, problem, "hook_invalid"))


async def gather_all(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await several things concurrently; the first failure cancels the others."""
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.create_task(work) for work in works]
    if tasks:
        await wait_for_tasks(tasks)
    ended = [task for task in tasks if not task.cancelled()]
    for task in ended:
        task.result()
    if len(ended) < len(tasks):
        raise asyncio.CancelledError
    return [task.result() for task in tasks]
