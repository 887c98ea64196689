"""Asking a person: what is put to them, what they can answer, and what that does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine.containment import contained
from checkrail.engine.dispatch import Dispatch, log
from checkrail.engine.errors import ControlFlow, InvalidOutcomeError, error_type
from checkrail.engine.outcomes import UNSET, Ask, Block, Fail
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import digest

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound
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


class AnswerLater(ControlFlow):
    """Raised by a handler to leave the work until there is an answer; it is no error.

    The dispatch is given up. Whoever fired it fires it again, and the handler then knows more.
    Work that can be entered again where it was left says in `memo` where that is. `told` is what
    others may know of the question.
    """

    memo: Any = None
    told: Any = None


_MIDWAY: ContextVar[bool] = ContextVar("checkrail_midway", default=False)


def is_inside(d: Dispatch) -> bool:
    """Say whether a dispatch is work of a tool or hook, which cannot be left before it is over."""
    return d.nesting is not None or _MIDWAY.get()


@contextmanager
def midway() -> Iterator[None]:
    """Do something that would be done twice if it were left before it is over, and begun again."""
    token = _MIDWAY.set(True)
    try:
        yield
    finally:
        _MIDWAY.reset(token)


async def settle_asks(d: Dispatch) -> None:
    """Put every question of a dispatch to a person, and see what is left to walk then."""
    ruling = d.rule()
    after = tuple(lane for lane in d.chain.lanes if lane[0] is not Lane.TRANSFORM)
    d.lanes = after
    d.trace.append(perf_counter())  # from here on it is not a hook that is waited for
    asking, asks, held = ruling.asking, ruling.asks, ruling.held
    ruling.asks = ruling.held = ()
    if not asking:
        return
    for call, ask in asks:
        bound = call.bound
        try:
            refused, call.answer = await _refused(d, bound, ask)
        except BaseException as error:
            if isinstance(error, AnswerLater):
                call.answer = "waiting"
            if held:
                d.forget()
            raise
        if refused is not None:
            ruling.decide(bound, refused)
            return
    d.lanes = ((Lane.TRANSFORM, held), *after)


async def _refused(d: Dispatch, bound: Bound, ask: Ask) -> tuple[Block | Fail | None, str]:
    """Put one question; say what it means, if not to go on, and what came of it."""
    seen = digest(d.value)
    reason = ask.reason or f"{bound.where} asks for approval"
    question = Question(
        bound.spec.name,
        bound.point,
        reason,
        d.value,
        seen,
        d.scope.context,
        ask.timeout,
        bound.key,
        ask.on_timeout,
        inside=is_inside(d),
    )
    try:
        approval = await _answer(d, bound, question)
    except TimeoutError:
        silent = f"{reason}: nobody answered in time"
        return _meaning(ask.on_timeout, silent, "ask_timeout"), "timeout"
    except Exception as error:  # noqa: BLE001 - the handler is the user's; no answer is no approval
        log.exception("the approval handler failed on the question of %s", bound.where)
        told = f"{reason}: the question could not be put ({error_type(error)})"
        return Block(told, 500, "ask_failed"), "failed"
    if approval is None:
        return Block(f"{reason}, but there is nobody to ask", 403, "ask_unanswered"), "nobody"
    if not isinstance(approval, Approval):
        log.error("the approval handler answered %s with no Approval: %r", bound.where, approval)
        return Block(f"{reason}: the answer was no Approval", 500, "ask_failed"), "failed"
    if not approval.approved:
        denied = approval.reason or f"{reason}: denied"
        return _meaning(ask.on_deny, denied, "ask_denied"), "denied"
    refused = _approved(d, bound, approval)
    return refused, "approved" if refused is None else "failed"


async def _answer(d: Dispatch, bound: Bound, question: Question) -> object:
    handler = d.scope.ask(bound)
    if handler is None:
        return None
    limit = None if getattr(handler, "keeps_time", False) else question.timeout
    try:
        async with asyncio.timeout(limit) as patience:
            with contained():
                return await handler(question)
    except TimeoutError as error:
        if patience.expired() or isinstance(error, NoAnswer):
            raise
        raise RuntimeError("the handler's own timeout") from error


def _meaning(said: str, reason: str, code: str) -> Block | Fail | None:
    if said == "continue":
        return None
    return Fail(reason, code) if said == "fail" else Block(reason, 403, code)


def _approved(d: Dispatch, bound: Bound, approval: Approval) -> Block | None:
    if approval.value is not UNSET:
        try:
            changed = bound.contract.changed(approval.value, d.value)
            d.set_value(d.scope.check(bound.point, changed))
        except InvalidOutcomeError as error:
            return Block(f"the approved value does not fit: {error}", 500, "ask_failed")
    ruling = d.rule()
    ruling.approved = (*ruling.approved, (bound, digest(d.value)))
    return None
