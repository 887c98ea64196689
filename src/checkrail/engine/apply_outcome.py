"""What a hook's answer or failure does to its dispatch."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, NoReturn

from checkrail.engine.chain import BoundHook
from checkrail.engine.containment import ends_process
from checkrail.engine.dispatch_state import Dispatch, log
from checkrail.engine.errors import (
    CheckrailError,
    InvalidOutcomeError,
    TimedOutError,
    UnreachableError,
    describe_error,
    error_type,
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
from checkrail.engine.records import Call
from checkrail.engine.values import digest

FAILURE_STATUS = {"timeout": 504, "unreachable": 502}


class Step(Enum):
    """How its lane goes on after a hook."""

    NEXT = "the next hook is called"
    END_LEVEL = "no other hook of this hook's level is called"
    END_LANE = "no other hook is called"


def apply_answer(dispatch: Dispatch, call: Call, answer: Any) -> Step:
    """Apply what a hook returned."""
    if (step := _apply_interruption(dispatch, call, None)) is not None:
        return step
    return Step.NEXT if answer is None else _apply_outcome(dispatch, call, answer)


def apply_error(dispatch: Dispatch, call: Call, error: BaseException) -> Step:
    """Apply what a hook raised."""
    where = call.bound.where
    if isinstance(error, GeneratorExit) or ends_process(error):
        _end_cancelled(dispatch, call, error)
    if (step := _apply_interruption(dispatch, call, error)) is not None:
        return step
    if (reject := _find_reject(error)) is not None:
        return _apply_rejection(dispatch, call, reject)
    if isinstance(error, UnreachableError):
        return apply_failure(dispatch, call, "unreachable", f"{where} could not be reached", error)
    if isinstance(error, InvalidOutcomeError):
        return _apply_breach(dispatch, call, error)
    if isinstance(error, TimedOutError):
        return apply_failure(dispatch, call, "timeout", f"{where} timed out: {error}")
    public = error.public if isinstance(error, CheckrailError) else ""
    why = f": {public}" if public else f" with {error_type(error)}"
    return apply_failure(dispatch, call, "error", f"{where} failed{why}", error)


def _apply_rejection(dispatch: Dispatch, call: Call, reject: Reject) -> Step:
    try:
        block = reject.as_block()
    except InvalidOutcomeError as error:
        return _apply_breach(dispatch, call, error)
    return _apply_outcome(dispatch, call, block)


def _apply_breach(dispatch: Dispatch, call: Call, error: InvalidOutcomeError) -> Step:
    reason = f"{call.bound.where} broke its contract: {error}"
    return apply_failure(dispatch, call, "invalid", reason)


def _find_reject(error: BaseException) -> Reject | None:
    if isinstance(error, BaseExceptionGroup):
        found = (_find_reject(inner) for inner in error.exceptions)
        return next((reject for reject in found if reject is not None), None)
    return error if isinstance(error, Reject) else None


def timeout_reason(call: Call) -> str:
    """Return the reason of a failure for which a hook did not end in time."""
    return f"{call.bound.where} timed out after {call.bound.spec.timeout:g} s"


def apply_failure(
    dispatch: Dispatch,
    call: Call,
    kind: str,
    reason: str,
    error: BaseException | None = None,
) -> Step:
    """Apply a failure: do what the hook's `on_error` says of its kind.

    The reason goes to whoever asked; what the exception said stays in the record and the log.
    """
    bound = call.bound
    call.failure = kind
    call.error = reason if error is None else describe_error(error)
    if (conceal := dispatch.scope.conceal) is not None:
        reason, call.error, error = conceal(reason), conceal(call.error), None
    behaviour = "continue" if bound.shadow else bound.policy[kind]
    goes_on = behaviour == "continue"
    loud = not goes_on or (bound.lane is Lane.OBSERVE and bound.spec.on_error.get(kind) == "block")
    say = log.error if loud else log.warning
    say("%s (on_error: %s)", reason, bound.on_error(kind), exc_info=error)
    if goes_on:
        return Step.NEXT
    refusal: Block | Fail = Fail(reason, f"hook_{kind}")
    if behaviour == "block":
        refusal = Block(reason, FAILURE_STATUS.get(kind, 500), f"hook_{kind}")
    call.status, call.code = refusal.status, refusal.code
    dispatch.rule().decide(bound, refusal)
    return _step_after_decision(dispatch, bound)


def _apply_interruption(dispatch: Dispatch, call: Call, error: BaseException | None) -> Step | None:
    """Let a cancellation from outside through, and apply that a hook was late."""
    if dispatch.timer is None:
        return None
    cancels, by_others = dispatch.timer.release(error)
    if by_others:
        through = error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError()
        _end_cancelled(dispatch, call, through)
    if not cancels:
        return None
    reason = timeout_reason(call)
    if cancels > 1:
        reason += f", and ended only when it had been cancelled {cancels} times"
    return apply_failure(dispatch, call, "timeout", reason)


def _end_cancelled(dispatch: Dispatch, call: Call, error: BaseException) -> NoReturn:
    dispatch.forget_uncertain_values(call.bound)
    call.failure = "cancelled"
    call.error = f"{call.bound.where} was cancelled from outside"
    raise error


def _apply_outcome(dispatch: Dispatch, call: Call, answer: Any) -> Step:
    try:
        _check_outcome(call.bound, answer)
        changed, result = _read_values(dispatch, call.bound, answer)
        messages = _read_messages(answer)
    except InvalidOutcomeError as error:
        return _apply_breach(dispatch, call, error)
    answer = _with_reason(call.bound, answer)
    call.decision = answer.decision
    call.reason = _recorded_reason(dispatch, answer)
    call.injected = len(messages)
    if isinstance(answer, (Block, Fail)):
        call.status, call.code = answer.status, _recorded_code(dispatch, answer.code)
    if changed is not UNSET:
        call.redacted = answer.redacted or dispatch.scope.conceal is not None
        if not call.redacted:
            call.before, call.after = dispatch.value, changed
    if call.bound.shadow:
        return Step.NEXT
    if messages:
        dispatch.rule().inject += messages
    return _apply_decision(dispatch, call, answer, changed, result)


def _recorded_reason(dispatch: Dispatch, answer: Any) -> str:
    reason = getattr(answer, "reason", "")
    return reason if dispatch.scope.conceal is None else str(dispatch.scope.conceal(reason))


def _recorded_code(dispatch: Dispatch, code: str | None) -> str | None:
    conceal = dispatch.scope.conceal
    return code if code is None or conceal is None else str(conceal(code))


def _read_messages(answer: Any) -> tuple[Mapping[str, Any], ...]:
    try:
        return tuple(freeze(message) for message in getattr(answer, "inject", ()))
    except ValueError as error:
        raise InvalidOutcomeError(f"a message that it injects: {error}") from None


def _check_outcome(bound: BoundHook, answer: Any) -> None:
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
    plain = isinstance(answer, Continue) and _is_plain(answer)
    if bound.lane is Lane.OBSERVE and not plain:
        reason = getattr(answer, "reason", "")
        why = f" ({reason})" if reason else ""
        raise InvalidOutcomeError(
            f"it returned {_type_name(answer)}{why}, "
            "but an observer can only continue, and change nothing",
        )
    if answer.decision not in bound.contract.decisions:
        allowed = ", ".join(sorted(bound.contract.decisions))
        raise InvalidOutcomeError(
            f"it returned {_type_name(answer)}, "
            f"which {bound.point} does not allow (only {allowed})",
        )
    if bound.lane is Lane.GATE and (messages or (isinstance(answer, Continue) and not plain)):
        raise InvalidOutcomeError(
            f"it returned {_type_name(answer)}, but a gate cannot change, inject or end its lane",
        )
    if messages and not bound.contract.inject:
        raise InvalidOutcomeError(f"it injects messages, but {bound.point} is not in the loop")


def _is_plain(answer: Continue) -> bool:
    return answer.value is UNSET and not (answer.last or answer.inject or answer.redacted)


def _type_name(answer: Outcome) -> str:
    return type(answer).__name__


def _read_values(dispatch: Dispatch, bound: BoundHook, answer: Any) -> tuple[Any, Any]:
    """Read the changed value of a `continue`, or what a `replace` or `stop` brings."""
    if isinstance(answer, Continue):
        if answer.value is UNSET:
            if answer.redacted:
                raise InvalidOutcomeError("it says redacted, but gives no value to go on with")
            return UNSET, UNSET
        given = bound.contract.read_change(answer.value, dispatch.value, redacted=answer.redacted)
        changed = dispatch.scope.check_value(bound.point, given)
        return (UNSET if changed is dispatch.value and not answer.redacted else changed), UNSET
    if isinstance(answer, (Replace, Stop)):
        if answer.value is UNSET:
            raise InvalidOutcomeError(f"it returned {_type_name(answer)} without its value")
        return UNSET, bound.contract.read_result(answer.decision, answer.value, dispatch.value)
    return UNSET, UNSET


def _with_reason(bound: BoundHook, answer: Any) -> Any:
    if isinstance(answer, (Block, Fail)) and not answer.reason:
        verb = "blocked" if isinstance(answer, Block) else "failed"
        return dataclasses.replace(answer, reason=f"{verb} by {bound.where}")
    return answer


def _apply_decision(dispatch: Dispatch, call: Call, answer: Any, changed: Any, result: Any) -> Step:
    bound = call.bound
    if isinstance(answer, Continue):
        if changed is not UNSET:
            dispatch.set_value(changed, redacted=answer.redacted)
        return Step.END_LEVEL if answer.last else Step.NEXT
    ruling = dispatch.rule()
    if isinstance(answer, Ask):
        if (bound, digest(dispatch.value)) in ruling.approved:
            return Step.NEXT
        ruling.asks = (*ruling.asks, (call, answer))
        if bound.lane is Lane.TRANSFORM:
            ruling.held = dispatch.hooks_after(bound)
            return Step.END_LANE
        ruling.gated = dispatch.value
        return Step.NEXT
    if isinstance(answer, Retry):
        answer = dispatch.scope.budget.charge(bound, answer)
        if isinstance(answer, Fail):
            call.reason = answer.reason
    ruling.decide(bound, answer, result)
    return _step_after_decision(dispatch, bound)


def _step_after_decision(dispatch: Dispatch, bound: BoundHook) -> Step:
    """All gates run; the first decision ends the transform lane, its redactions included."""
    if bound.lane is not Lane.TRANSFORM:
        return Step.NEXT
    if any(hook.spec.redacts for hook in dispatch.hooks_after(bound)):
        dispatch.forget_values()
    return Step.END_LANE
