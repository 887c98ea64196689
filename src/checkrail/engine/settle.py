"""What a hook's answer or failure does to its dispatch."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from enum import Enum
from time import perf_counter
from typing import Any

from checkrail.engine.binding import Bound, Entry
from checkrail.engine.containment import ends_process
from checkrail.engine.dispatch import Dispatch, log
from checkrail.engine.errors import (
    CheckrailError,
    InvalidOutcomeError,
    TimedOutError,
    UnreachableError,
    error_type,
    told,
)
from checkrail.engine.frozen import freeze
from checkrail.engine.outcomes import (
    UNSET,
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Reject,
    Replace,
    Retry,
    Stop,
    check_outcome,
)
from checkrail.engine.points import Lane
from checkrail.engine.records import Call, call_of
from checkrail.engine.values import digest

FAILURE_STATUS = {"timeout": 504, "unreachable": 502}


class Step(Enum):
    """How its lane goes on after a hook."""

    GO = "go on with the next hook"
    LAST = "end the lane for this hook's level"
    HOLD = "end the lane until a person has answered"
    END = "end the lane"


def rest(entries: tuple[Entry, ...], bound: Bound, step: Step) -> tuple[Entry, ...]:
    """Give the hooks of a lane that are still to be called after this one."""
    if step in (Step.END, Step.HOLD):
        return ()
    index = next(number for number, entry in enumerate(entries) if entry[0] is bound)
    left = entries[index + 1 :]
    if step is Step.LAST:
        left = tuple(entry for entry in left if entry[0].level is not bound.level)
    return left


def answered(d: Dispatch, bound: Bound, answer: Any) -> Step:
    """Take what a hook returned."""
    call = call_of(bound, d.turn, perf_counter())
    if d.watch is not None and (step := _interrupted(d, call)) is not None:
        return step
    return _taken(d, call, answer)


def fell(d: Dispatch, bound: Bound, error: BaseException) -> Step:
    """Take what a hook raised."""
    call = Call(bound, d.turn, perf_counter())
    if isinstance(error, GeneratorExit) or ends_process(error):
        _end_cancelled(d, call, error)
    if d.watch is not None and (step := _interrupted(d, call, error)) is not None:
        return step
    if (reject := _reject_in(error)) is not None:
        return _take_rejection(d, call, reject)
    if isinstance(error, UnreachableError):
        return fail(d, call, "unreachable", f"{bound.where} could not be reached", error)
    if isinstance(error, InvalidOutcomeError):
        return fail(d, call, "invalid", f"{bound.where} broke its contract: {error}")
    if isinstance(error, TimedOutError):
        return fail(d, call, "timeout", f"{bound.where} timed out: {error}")
    public = error.public if isinstance(error, CheckrailError) else ""
    why = f": {public}" if public else f" with {error_type(error)}"
    return fail(d, call, "error", f"{bound.where} failed{why}", error)


def _take_rejection(d: Dispatch, call: Call, reject: Reject) -> Step:
    try:
        block = reject.as_block()
    except InvalidOutcomeError as error:
        return fail(d, call, "invalid", f"{call.bound.where} broke its contract: {error}")
    return _taken(d, call, block)


def _reject_in(error: BaseException) -> Reject | None:
    if isinstance(error, BaseExceptionGroup):
        found = (_reject_in(inner) for inner in error.exceptions)
        return next((reject for reject in found if reject is not None), None)
    return error if isinstance(error, Reject) else None


def timed_out(d: Dispatch, call: Call) -> Step:
    """Take that a hook did not answer in time."""
    reason = f"{call.bound.where} timed out after {call.bound.spec.timeout:g} s"
    return fail(d, call, "timeout", reason)


def fail(
    d: Dispatch,
    call: Call,
    kind: str,
    reason: str,
    error: BaseException | None = None,
) -> Step:
    """Take a failure, and do what the hook's `on_error` says of its kind.

    The reason goes to whoever asked; what the exception said stays in the record and the log.
    """
    bound = call.bound
    call.failure = kind
    call.error = reason if error is None else told(error)
    d.keep(call)
    behaviour = "continue" if bound.shadow else bound.policy[kind]
    goes_on = behaviour == "continue"
    loud = not goes_on or (bound.lane is Lane.OBSERVE and bound.spec.on_error.get(kind) == "block")
    say = log.error if loud else log.warning
    say("%s (on_error: %s)", reason, bound.on_error(kind), exc_info=error)
    if goes_on:
        return Step.GO
    if behaviour == "block":
        d.rule().decide(bound, Block(reason, FAILURE_STATUS.get(kind, 500), f"hook_{kind}"))
    else:
        d.rule().decide(bound, Fail(reason, f"hook_{kind}"))
    return _after_decision(d, bound)


def _interrupted(d: Dispatch, call: Call, error: BaseException | None = None) -> Step | None:
    late, cancelled = d.watch.release()  # type: ignore[union-attr]
    if cancelled:
        through = error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError()
        _end_cancelled(d, call, through)
    return timed_out(d, call) if late else None


def _end_cancelled(d: Dispatch, call: Call, error: BaseException) -> None:
    if call.bound.lane is Lane.TRANSFORM or (d.ruling is not None and d.ruling.held):
        d.forget()
    call.failure = "cancelled"
    call.error = f"{call.bound.where} was cancelled from outside"
    d.keep(call)
    raise error


def _taken(d: Dispatch, call: Call, answer: Any) -> Step:
    try:
        _check(call.bound, answer)
        changed, brought = _values(d, call.bound, answer)
        messages = _messages(answer)
    except InvalidOutcomeError as error:
        return fail(d, call, "invalid", f"{call.bound.where} broke its contract: {error}")
    answer = _with_reason(call.bound, answer)
    call.decision = answer.decision
    call.reason = getattr(answer, "reason", "")
    call.injected = len(messages)
    if changed is not UNSET:
        call.redacted = answer.redacted
        if not call.redacted:
            call.before, call.after = d.value, changed
    d.keep(call)
    if call.bound.shadow:
        return Step.GO
    if messages:
        d.rule().inject += messages
    return _applied(d, call, answer, changed, brought)


def _messages(answer: Any) -> tuple[Mapping[str, Any], ...]:
    try:
        return tuple(freeze(message) for message in getattr(answer, "inject", ()))
    except ValueError as error:
        raise InvalidOutcomeError(f"a message that it injects: {error}") from None


def _check(bound: Bound, answer: Any) -> None:
    if not isinstance(answer, Outcome) or not hasattr(answer, "decision"):
        problem = f"it returned {type(answer).__name__}, which is no decision"
        remedy = "return nothing, Continue(value), or another decision"
        raise InvalidOutcomeError(f"{problem}: {remedy}")
    check_outcome(answer)
    messages = getattr(answer, "inject", ())
    if not isinstance(messages, (list, tuple)) or not all(
        isinstance(message, Mapping) for message in messages
    ):
        raise InvalidOutcomeError("what it injects is not a list of messages: give dicts")
    plain = isinstance(answer, Continue) and _goes_on(answer)
    if bound.lane is Lane.OBSERVE and not plain:
        reason = getattr(answer, "reason", "")
        why = f" ({reason})" if reason else ""
        raise InvalidOutcomeError(
            f"it returned {_named(answer)}{why}, "
            "but an observer can only continue, and change nothing",
        )
    if answer.decision not in bound.contract.decisions:
        allowed = ", ".join(sorted(bound.contract.decisions))
        raise InvalidOutcomeError(
            f"it returned {_named(answer)}, which {bound.point} does not allow (only {allowed})",
        )
    if bound.lane is Lane.GATE and (messages or (isinstance(answer, Continue) and not plain)):
        raise InvalidOutcomeError(
            f"it returned {_named(answer)}, but a gate cannot change, inject or end its lane",
        )
    if messages and not bound.contract.inject:
        raise InvalidOutcomeError(f"it injects messages, but {bound.point} is not in the loop")


def _goes_on(answer: Continue) -> bool:
    return answer.value is UNSET and not (answer.last or answer.inject or answer.redacted)


def _named(answer: Outcome) -> str:
    return type(answer).__name__


def _values(d: Dispatch, bound: Bound, answer: Any) -> tuple[Any, Any]:
    """Read the changed value of a `continue`, or what a `replace` or `stop` brings."""
    if isinstance(answer, Continue):
        if answer.value is UNSET:
            if answer.redacted:
                raise InvalidOutcomeError("it says redacted, but gives no value to go on with")
            return UNSET, UNSET
        given = bound.contract.changed(answer.value, d.value, redacted=answer.redacted)
        changed = d.scope.check(bound.point, given)
        return (UNSET if changed is d.value and not answer.redacted else changed), UNSET
    if isinstance(answer, (Replace, Stop)):
        if answer.value is UNSET:
            raise InvalidOutcomeError(f"it returned {_named(answer)} without its value")
        return UNSET, bound.contract.result(answer.decision, answer.value, d.value)
    return UNSET, UNSET


def _with_reason(bound: Bound, answer: Any) -> Any:
    if isinstance(answer, (Block, Fail)) and not answer.reason:
        verb = "blocked" if isinstance(answer, Block) else "failed"
        return dataclasses.replace(answer, reason=f"{verb} by {bound.where}")
    return answer


def _applied(d: Dispatch, call: Call, answer: Any, changed: Any, brought: Any) -> Step:
    bound = call.bound
    if isinstance(answer, Continue):
        if changed is not UNSET:
            d.set_value(changed, redacted=answer.redacted)
        return Step.LAST if answer.last else Step.GO
    ruling = d.rule()
    if isinstance(answer, Ask):
        if (bound, digest(d.value)) in ruling.approved:
            return Step.GO
        ruling.asks = (*ruling.asks, (call, answer))
        if bound.lane is Lane.TRANSFORM:
            return Step.HOLD
        ruling.gated = d.value
        return Step.GO
    if isinstance(answer, Retry):
        answer = d.scope.budget.charge(bound, answer)
        if isinstance(answer, Fail):
            call.reason = answer.reason
    ruling.decide(bound, answer, brought)
    return _after_decision(d, bound)


def _after_decision(d: Dispatch, bound: Bound) -> Step:
    """All gates run; the first decision ends the transform lane, its redactions included."""
    if bound.lane is not Lane.TRANSFORM:
        return Step.GO
    if any(entry[0].spec.redacts for entry in rest(d.entries, bound, Step.GO)):
        d.forget()
    return Step.END
