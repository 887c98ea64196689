"""Asking a person: what is put to them, what they can answer, and what that does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkrail.engine.containment import contain_errors
from checkrail.engine.dispatch_state import HOOKS_AT_WORK, Dispatch, log
from checkrail.engine.errors import (
    CheckrailError,
    ControlFlow,
    InvalidOutcomeError,
    error_type,
)
from checkrail.engine.outcomes import UNSET, Ask, Block, Fail
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import digest

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook, Lanes
    from checkrail.engine.event import Context


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: may this value pass? Their answer holds for this digest only."""

    hook: str
    point: HookPoint
    reason: str
    value: Any
    digest: str
    context: Context
    timeout: float | None
    key: str = ""
    """The hook with its level, by a name that other processes know too."""
    on_timeout: str = "block"
    inside: bool = False
    """Whether it came up inside a tool or a hook, which cannot be left before it is over."""
    conceal: Callable[[Any], Any] | None = None
    """What leaves out of a value, before it is kept or shown, what only this process may see."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person answered, perhaps with an edited value."""

    approved: bool
    value: Any = UNSET
    reason: str = ""


AskHandler = Callable[[Question], Awaitable[Approval]]
"""Puts a question to somebody. One that says `keeps_time` sees to its timeout by itself."""


class NoAnswer(TimeoutError):
    """Raised by a handler that keeps the time: nobody has answered while they could."""


class AskWithdrawn(CheckrailError):
    """Raised by a handler whose question is not asked any more, so that there is no answer."""


class AnswerLater(ControlFlow):
    """Raised by a handler to leave the work until there is an answer; it is no error.

    The dispatch is given up. Whoever fired it fires it again, and the handler then knows more.
    Work that can be entered again where it was left says in `memo` where that is. `told` is what
    others may know of the question.
    """

    memo: Any = None
    told: Any = None


_MIDWAY: ContextVar[bool] = ContextVar("checkrail_midway", default=False)


def is_inside(dispatch: Dispatch) -> bool:
    """Return whether a dispatch is work of a tool or hook, which has to end before it is left."""
    return bool(dispatch.outer) or _MIDWAY.get()


@contextmanager
def midway() -> Iterator[None]:
    """Do something that would be done twice if it were left before it is over, and begun again."""
    token = _MIDWAY.set(True)
    try:
        yield
    finally:
        _MIDWAY.reset(token)


async def settle_asks(dispatch: Dispatch) -> Lanes:
    """Put every question of a dispatch to a person, and return the lanes that are left to run."""
    ruling = dispatch.rule()
    later = tuple(item for item in dispatch.chain.lanes if item[0] is not Lane.TRANSFORM)
    needs_answer, asks, held = ruling.needs_answer, ruling.asks, ruling.held
    ruling.asks = ruling.held = ()
    dispatch.bound = dispatch.call = None  # it is not a hook that is waited for
    for call, ask in asks if needs_answer else ():
        HOOKS_AT_WORK.set((*dispatch.outer, call.bound))
        try:
            refusal, call.answer = await _put_question(dispatch, call.bound, ask)
        except BaseException as error:
            if isinstance(error, AnswerLater):
                call.answer = "waiting"
            if held:
                dispatch.forget_values()
            raise
        if refusal is not None:
            ruling.decide(call.bound, refusal)
            return later
    return ((Lane.TRANSFORM, held), *later) if needs_answer else later


async def _put_question(
    dispatch: Dispatch, bound: BoundHook, ask: Ask
) -> tuple[Block | Fail | None, str]:
    """Put one question, and return what refuses the work, if anything, and what came of it."""
    seen = digest(dispatch.value)
    reason = ask.reason or f"{bound.where} asks for approval"
    question = Question(
        bound.spec.name,
        bound.point,
        reason,
        dispatch.value,
        seen,
        dispatch.scope.context,
        ask.timeout,
        bound.key,
        ask.on_timeout,
        inside=is_inside(dispatch),
        conceal=dispatch.scope.conceal,
    )
    try:
        approval = await _await_answer(dispatch, bound, question)
    except TimeoutError:
        silent = f"{reason}: nobody answered in time"
        return _refusal_for(ask.on_timeout, silent, "ask_timeout"), "timeout"
    except AskWithdrawn as error:
        return Block(f"{reason}: {error}", 503, "ask_withdrawn"), "withdrawn"
    except Exception as error:  # noqa: BLE001 - the handler is the user's; no answer is no approval
        log.exception("the approval handler failed on the question of %s", bound.where)
        told = f"{reason}: the question could not be put ({error_type(error)})"
        return Block(told, 500, "ask_failed"), "failed"
    if approval is None:
        return Block(f"{reason}, but there is nobody to ask", code="ask_unanswered"), "nobody"
    if not isinstance(approval, Approval):
        log.error("the approval handler answered %s with no Approval: %r", bound.where, approval)
        return Block(f"{reason}: the answer was no Approval", 500, "ask_failed"), "failed"
    if not approval.approved:
        denied = approval.reason or f"{reason}: denied"
        return _refusal_for(ask.on_deny, denied, "ask_denied"), "denied"
    refusal = _apply_approval(dispatch, bound, approval)
    return refusal, "approved" if refusal is None else "failed"


async def _await_answer(dispatch: Dispatch, bound: BoundHook, question: Question) -> object:
    handler = dispatch.scope.find_ask_handler(bound)
    if handler is None:
        return None
    limit = None if getattr(handler, "keeps_time", False) else question.timeout
    try:
        async with asyncio.timeout(limit) as patience:
            with contain_errors():
                return await handler(question)
    except TimeoutError as error:
        if patience.expired() or isinstance(error, NoAnswer):
            raise
        raise RuntimeError("the handler's own timeout") from error


def _refusal_for(said: str, reason: str, code: str) -> Block | Fail | None:
    if said == "continue":
        return None
    return Fail(reason, code) if said == "fail" else Block(reason, code=code)


def _apply_approval(dispatch: Dispatch, bound: BoundHook, approval: Approval) -> Block | None:
    if approval.value is not UNSET:
        try:
            changed = bound.contract.read_change(approval.value, dispatch.value)
            dispatch.set_value(dispatch.scope.check_value(bound.point, changed))
        except InvalidOutcomeError as error:
            return Block(f"the approved value does not fit: {error}", 500, "ask_failed")
    ruling = dispatch.rule()
    ruling.approved = (*ruling.approved, (bound, digest(dispatch.value)))
    return None
