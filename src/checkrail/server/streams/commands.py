"""Commands of the event protocol: what a client may ask of a thread, and how it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from checkrail.server.streams import params
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.errors import ErrorCode, ProtocolError

_PARAMS: dict[str, type[BaseModel]] = {
    "run.start": params.RunStart,
    "input.respond": params.InputRespond,
    "input.inject": params.InputInject,
    "subscription.unsubscribe": params.Unsubscribe,
    "subscription.reconnect": params.Reconnect,
    "agent.getTree": params.AgentGetTree,
    "state.get": params.StateGet,
    "state.listCheckpoints": params.ListCheckpoints,
    "state.fork": params.StateFork,
}
METHODS = (*_PARAMS, "subscription.subscribe")
"""Every command that the protocol knows."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `params` has the type that belongs to its method."""

    id: int
    method: str
    params: BaseModel | Subscription


def parse_command(body: Any) -> Command:
    """Parse a command; the error of one that does not fit carries its id, if that could be read."""
    if not isinstance(body, Mapping):
        message = "a command is an object with `id`, `method` and `params`"
        raise ProtocolError("invalid_argument", message, unreadable=True)
    number = body.get("id")
    if type(number) is not int or number < 0:
        message = f"a command's `id` is a whole number from 0 on, not {number!r}"
        raise ProtocolError("invalid_argument", message, unreadable=True)
    method = body.get("method")
    if not isinstance(method, str):
        message = "a command's `method` is a text"
        raise ProtocolError("invalid_argument", message, id=number, unreadable=True)
    if method not in METHODS:
        message = f"there is no command {method!r}; there are {', '.join(METHODS)}"
        raise ProtocolError("unknown_command", message, id=number)
    return Command(number, method, _parse_params(number, method, body.get("params")))


def success_reply(
    id: int, result: Mapping[str, Any], *, applied_through: int | None = None
) -> dict[str, Any]:
    """Answer a command. `applied_through` is the cursor that a client listens from.

    For `run.start` it is the cursor of the run's `base_seq`: nothing of a run that is quicker
    than its client is missed then.
    """
    answer: dict[str, Any] = {"type": "success", "id": id, "result": dict(result)}
    if applied_through is not None:
        answer["meta"] = {"applied_through_seq": applied_through}
    return answer


def error_reply(id: int | None, code: ErrorCode, message: str) -> dict[str, Any]:
    """Return the answer to a command that was refused; without an id, of a whole stream."""
    return {"type": "error", "id": id, "error": code, "message": message}


def _parse_params(number: int, method: str, given: Any) -> BaseModel | Subscription:
    kind = _PARAMS.get(method)
    try:
        if kind is None:
            return Subscription.parse(given)
        return kind.model_validate({} if given is None else given)
    except ProtocolError as error:
        raise ProtocolError(error.code, error.message, id=number) from None
    except ValidationError as error:
        raise ProtocolError(
            "invalid_argument", _describe_problems(method, error), id=number
        ) from None


def _describe_problems(method: str, error: ValidationError) -> str:
    """Return where and what is wrong, and not what was sent: it may be private."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = (f"{'.'.join(map(str, one['loc'])) or 'params'}: {one['msg']}" for one in found)
    return f"{method}: {'; '.join(told)}"
