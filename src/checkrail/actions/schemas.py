"""What goes out to a hook in another process and what may come back, as JSON Schema.

Everything is read from the engine: the contracts say what is allowed at a point, the dataclasses
of the values, the context and the outcomes say what they consist of.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from checkrail.actions.value_models import (
    build_model,
    explain_error,
    has_text,
    optional_field,
    result_type,
    value_model,
)
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Context
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Outcome, Replace, Retry, Stop
from checkrail.engine.points import CONTRACTS, Contract, Decision, HookPoint
from checkrail.engine.values import AssistantMessage, ToolResult

DIALECT = "https://json-schema.org/draft/2020-12/schema"

OUTCOMES: dict[Decision, type[Outcome]] = {
    kind.decision: kind for kind in (Continue, Block, Ask, Retry, Replace, Stop, Fail)
}
RESULT_NAMES: dict[type, str] = {
    AssistantMessage: "message",
    ToolResult: "tool_result",
    str: "content",
    object: "output",
}
"""The wire names of what a `replace` or `stop` brings."""

_NARROWED: dict[str, Any] = {
    "status": Annotated[int, Field(ge=400, le=599)] | None,
    "timeout": Annotated[float, Field(gt=0)] | None,
    "retry_after": Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
}
"""What the outcomes leave open and an answer from outside must not."""


_ENDED: dict[str, tuple[Any, Any]] = {
    "parameters": (Any, ...),
    "result_text": (str | None, ...),
    "result_data": (Any, ...),
    "status": (Literal["completed", "failed", "stopped"], ...),
    "error": (str | None, ...),
    "session_id": (str | None, ...),
    "run_id": (str | None, ...),
    "agent_name": (str | None, ...),
    "original_parameters": optional_field(Any),
}
"""What is told of a run that has ended, besides the value."""


class _SentSchema(GenerateJsonSchema):
    """A value is sent with all of its fields."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: FBT001 - pydantic's
        """Return whether a field is always there."""
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


def point_schemas(point: HookPoint) -> dict[str, Any]:
    """Return the schemas of a point's request and answer."""
    contract = CONTRACTS[point]
    request = TypeAdapter(_request_model(contract)).json_schema(
        schema_generator=_SentSchema,
        mode="serialization",
    )
    return {
        "point": str(point),
        "request": {"$schema": DIALECT} | request,
        "answer": {"$schema": DIALECT, "title": f"{point} answer"} | _answer_schema(contract),
    }


def read_answer(contract: Contract, data: Any) -> BaseModel:
    """Check an answer against the schema of its point."""
    try:
        read: BaseModel = _answer_adapter(contract.point).validate_python(data)
    except ValidationError as error:
        keys, actions = keys_of_answer(contract, data), sorted(contract.decisions)
        told = explain_error(error, data, keys, actions, quoted=False)
        raise InvalidOutcomeError(f"an answer at {contract.point} does not fit: {told}") from None
    validator = _validator(contract.point)
    if validator is not None and not validator.is_valid(data):
        told = next(iter(validator.iter_errors(data))).message[:200]
        raise InvalidOutcomeError(f"an answer at {contract.point} does not fit: {told}")
    return read


def keys_of_answer(contract: Contract, data: Any) -> list[str]:
    """Return the keys that an answer with this action may have."""
    action = data.get("action", Decision.CONTINUE) if isinstance(data, dict) else None
    known = zip(_allowed_decisions(contract), _answer_models(contract), strict=True)
    return [key for decision, kind in known if decision == action for key in kind.model_fields]


def compile_schema(document: Mapping[str, Any]) -> Any:
    """Compile a JSON Schema; references to anything outside of it are refused, never fetched."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(dict(document), retriever=_refuse_reference)


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema, and is not fetched: copy it into $defs")


@functools.cache
def _validator(point: HookPoint) -> Any:
    try:
        return compile_schema(point_schemas(point)["answer"])
    except ImportError:  # the models say the same, with other words
        return None


def _answer_schema(contract: Contract) -> dict[str, Any]:
    return _answer_adapter(contract.point).json_schema()


@functools.cache
def _answer_adapter(point: HookPoint) -> TypeAdapter[Any]:
    (first, *others) = _answer_models(CONTRACTS[point])
    if not others:
        return TypeAdapter(first)
    either: Any = Union[(first, *others)]
    return TypeAdapter(Annotated[either, Field(discriminator="action")])


@functools.cache
def _answer_models(contract: Contract) -> tuple[type[BaseModel], ...]:
    """Return the form of each decision that the point allows."""
    allowed = _allowed_decisions(contract)
    return tuple(
        _build_answer_model(contract, decision, optional=len(allowed) == 1) for decision in allowed
    )


def _allowed_decisions(contract: Contract) -> list[Decision]:
    return [decision for decision in Decision if decision in contract.decisions]


def _build_answer_model(
    contract: Contract, decision: Decision, *, optional: bool
) -> type[BaseModel]:
    outcome = OUTCOMES[decision]
    action = Literal[str(decision)]  # type: ignore[valid-type]
    fields = {"action": optional_field(action) if optional else (action, ...)}
    fields |= dict.fromkeys(("reason", "block_reason"), optional_field(str | None))
    hints = get_type_hints(outcome)
    for item in dataclasses.fields(outcome):  # type: ignore[arg-type]
        if item.name not in ("reason", "value") and _makes_sense(item.name, contract):
            fields[item.name] = optional_field(_NARROWED.get(item.name, hints[item.name]))
    fields |= _value_fields(contract, decision)
    return build_model(f"{decision.title()}Answer", fields)


def _makes_sense(option: str, contract: Contract) -> bool:
    if option == "inject":
        return contract.inject
    return contract.change if option in ("last", "redacted") else True


def _value_fields(contract: Contract, decision: Decision) -> dict[str, tuple[Any, Any]]:
    """Return which value an answer may or must carry.

    A refusal that also sends the point's value is still a refusal: the value is passed over.
    """
    if decision is Decision.CONTINUE:
        return {contract.wire: optional_field(_changed_type(contract))} if contract.change else {}
    brought = result_type(contract, decision)
    passed_over = {contract.wire: optional_field(Any)}
    if brought is None:
        return passed_over
    return passed_over | {RESULT_NAMES[brought]: (_data_type(brought), ...)}


def _changed_type(contract: Contract) -> Any:
    if contract.wire == "content":
        return str
    form = _data_type(contract.value)
    return form | None if contract.point is HookPoint.QUERY_END else form


def _data_type(kind: type) -> Any:
    if kind in (object, str):
        return Any if kind is object else str
    return value_model(kind) | str if has_text(kind) else value_model(kind)


def _request_model(contract: Contract) -> type[BaseModel]:
    text = contract.wire == "content"
    value = str if text else Any if contract.value is object else contract.value
    if contract.point is HookPoint.QUERY_END:
        value |= None  # type: ignore[assignment]
    fields: dict[str, tuple[Any, Any]] = {
        "point": (Literal[str(contract.point)], ...),
        contract.wire: (value, ...),
        "original": optional_field(value),
        "config": (Mapping[str, Any], ...),
        "time": (float, ...),
        "timestamp": (str, ...),
    }
    if text:
        fields |= {
            "user_id": optional_field(str),
            "channel": optional_field(str),
            "attachments": optional_field(Sequence[Any]),
        }
    always = ("attempt", "metadata")
    hints = get_type_hints(Context)
    for item in dataclasses.fields(Context):
        present = _without_none(hints[item.name])
        fields[item.name] = (present, ...) if item.name in always else optional_field(present)
    fields["verdict"] = optional_field(Mapping[str, Any])
    if contract.point in (HookPoint.AFTER_RUN, HookPoint.ON_RUN_ERROR):
        fields |= {"result": (value, ...), **_ENDED}
    return build_model(f"{contract.point} request", fields)


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint
