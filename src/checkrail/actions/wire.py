"""The wire format of hooks outside the process: what is sent to them, and how they answer."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from checkrail.actions.errors import ActionError
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import LIVE, ORIGINAL, Context, Event, dispatch_of
from checkrail.engine.outcomes import UNSET, Outcome
from checkrail.engine.points import CONTRACTS, Contract, Decision, find_point
from checkrail.engine.values import RunError, RunResult, plain
from checkrail.times import iso_time

if TYPE_CHECKING:
    from pydantic import BaseModel


_STOPPED = frozenset({"cancelled", "interrupted"})


def wire_value(contract: Contract, value: Any) -> Any:
    """Return what travels under the point's wire name: the value, or of a message its text."""
    return value.content if contract.wire == "content" else value


def render_event(event: Event[Any]) -> dict[str, Any]:
    """Return an event as the request to a hook outside; what its point lacks is left out.

    `original` is there where a hook before has changed the value.
    """
    contract = CONTRACTS[event.point]
    told: dict[str, Any] = {
        "point": str(event.point),
        contract.wire: plain(wire_value(contract, event.value)),
        "config": plain(event.config),
        "time": event.timestamp,
        "timestamp": iso_time(event.timestamp),
    }
    if event.original is not event.value:
        told["original"] = plain(wire_value(contract, event.original))
    for item in dataclasses.fields(Context):
        found = getattr(event, item.name)
        if found is not None:
            told[item.name] = plain(found)
    told["metadata"].pop(LIVE, None)  # an agent at work, which only hooks in its process can see
    if contract.wire == "content":
        told |= _message_fields(event)
    if isinstance(event.value, (RunResult, RunError)):
        told["metadata"].pop(ORIGINAL, None)
        told |= {"result": plain(event.value), **agent_finish_request(event)}
        told |= {name: plain(found) for name, found in original_parameters(event).items()}
    if event.verdict is not None:
        told["verdict"] = _verdict_fields(event.verdict)
    conceal = dispatch_of(event).scope.conceal
    return told if conceal is None else conceal(told)


def encode_request(told: Mapping[str, Any]) -> bytes:
    """Return a request as JSON in UTF-8.

    Only what that cannot hold, the halves of surrogate pairs, is escaped.
    """
    try:
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(told).encode()


def original_parameters(event: Event[Any]) -> dict[str, Any]:
    """Return the parameters that a run was requested with, where hooks have changed them since."""
    asked = event.metadata.get(ORIGINAL, event.value.input)
    return {} if asked == event.value.input else {ORIGINAL: asked}


def _message_fields(event: Event[Any]) -> dict[str, Any]:
    """Return the fields of a message besides its text; its own thread and metadata come first."""
    own = {name: plain(getattr(event.value, name)) for name in event.value.__slots__}
    around = {key: item for key, item in event.metadata.items() if key != LIVE}
    own["metadata"] = {**plain(around), **own["metadata"]}
    return {name: found for name, found in own.items() if name != "content" and found is not None}


def _verdict_fields(verdict: Any) -> dict[str, Any]:
    names = ("decision", "reason", "hook", "status", "code", "retry_after")
    told = {name: getattr(verdict, name) for name in names}
    return {name: plain(found) for name, found in told.items() if found is not None}


def agent_start_request(event: Event[Any]) -> dict[str, Any]:
    """Return the request to an agent that is a hook at the start of a run: exactly these keys."""
    if CONTRACTS[event.point].wire != "parameters":
        _refuse_agent(event, "before_run or on_run_start")
    return {
        "parameters": plain(event.value),
        "agent_name": event.agent_name,
        "session_id": event.session_id,
        "run_id": event.run_id,
    }


def agent_finish_request(event: Event[Any]) -> dict[str, Any]:
    """Return the request to an agent that is a hook at the end of a run: exactly these keys."""
    value = event.value
    if not isinstance(value, (RunResult, RunError)):
        _refuse_agent(event, "after_run or on_run_error")
    output = plain(getattr(value, "output", None))
    return {
        "parameters": plain(value.input),
        "result_text": output if isinstance(output, str) else None,
        "result_data": None if isinstance(output, str) else output,
        "status": _finish_status(value),
        "error": getattr(value, "error", None),
        "session_id": event.session_id,
        "run_id": event.run_id,
        "agent_name": event.agent_name,
    }


def _refuse_agent(event: Event[Any], points: str) -> None:
    raise ActionError(f"{event.point} is not where this agent request belongs", f"Use {points}")


def _finish_status(value: RunResult | RunError) -> str:
    if value.status in _STOPPED or getattr(value, "error_type", None) == "CancelledError":
        return "stopped"
    return "completed" if isinstance(value, RunResult) else "failed"


def parse_answer(
    point: str,
    data: Any,
    current: Any,
    *,
    observing: bool = False,
) -> Outcome | None:
    """Parse the answer of a hook outside, or raise `InvalidOutcomeError`.

    `current` is the value at the point; with `observing` nothing needs to be said.
    """
    if observing and data == {}:
        return None
    from checkrail.actions.schemas import read_answer

    contract = CONTRACTS[find_point(point)]
    read = read_answer(contract, data)
    return _build_outcome(contract, read, current) if read.model_fields_set else None


def answer_keys(point: str, data: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys that an answer with this `action` may have; none if it cannot be taken."""
    from checkrail.actions.schemas import keys_of_answer

    return frozenset(keys_of_answer(CONTRACTS[find_point(point)], data))


def _build_outcome(contract: Contract, read: BaseModel, current: Any) -> Outcome:
    from checkrail.actions.schemas import OUTCOMES

    said = {name: getattr(read, name) for name in read.model_fields_set}
    decision = Decision(said.pop("action", Decision.CONTINUE))
    said["reason"] = said.get("reason") or said.get("block_reason")
    kind = OUTCOMES[decision]
    known = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    options = {name: it for name, it in said.items() if name in known and it is not None}
    value = _build_value(contract, decision, said, current)
    return kind(**options) if value is UNSET else kind(value=value, **options)  # type: ignore[call-arg]


def _build_value(
    contract: Contract, decision: Decision, said: Mapping[str, Any], current: Any
) -> Any:
    from checkrail.actions.schemas import RESULT_NAMES
    from checkrail.actions.value_models import build_changed, build_result, result_type

    if decision is Decision.CONTINUE:
        told = said.get(contract.wire, UNSET)
        redacted = bool(said.get("redacted"))
        return told if told is UNSET else build_changed(contract, told, current, redacted=redacted)
    kind = result_type(contract, decision)
    return (
        UNSET
        if kind is None
        else build_result(contract, decision, said[RESULT_NAMES[kind]], current)
    )


def point_schema(point: str) -> dict[str, Any]:
    """Return a point's request and answer as JSON Schema 2020-12."""
    from checkrail.actions.schemas import point_schemas as made

    return made(find_point(point))


FORM = 'Answer with one JSON object, such as {"action": "continue"}'


def read_json(who: str, written: bytes | str) -> Any:
    """Parse an answer as JSON; an empty one is refused, for the hook may not have got that far."""
    if not written.strip():
        raise InvalidOutcomeError(f"{who} answered nothing. {FORM}")
    try:
        return json.loads(written, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # what was written instead may be anything, and the reason of a refusal goes to the caller
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        problem = f"{who} answered {len(written)} bytes that are no JSON ({why})"
        raise InvalidOutcomeError(f"{problem}. {FORM}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
