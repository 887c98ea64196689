"""The value types as data from outside has to look, read from the engine's own dataclasses.

Data may leave fields out: those stay as they are in the value that is being changed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from checkrail.engine.errors import InvalidOutcomeError, suggestion
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import Contract, Decision
from checkrail.engine.values import ToolCall, ToolResult, Value
from checkrail.validation import data_path, expected_text

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)

ALIASES = {"tool_name": "name", "parameters": "args"}
"""Other names for the fields of a tool call: accepted, never sent."""

_SHOWN = 60
_WANTED = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "a text",
}
"""What pydantic's kinds of errors ask for, in the words of JSON."""


def optional_field(hint: Any) -> tuple[Any, Any]:
    """Declare a field that may be left out, without a default that a schema would show."""
    return hint, Field(default_factory=lambda: UNSET)


def build_model(
    name: str,
    fields: Mapping[str, tuple[Any, Any]],
    extra: dict[str, Any] | None = None,
) -> type[BaseModel]:
    """Build a model that converts nothing and refuses unknown fields.

    `extra` is what its JSON Schema has to say besides.
    """
    strict = ConfigDict(extra="forbid", strict=True, json_schema_extra=extra)
    return create_model(name, __config__=strict, **fields)  # type: ignore[call-overload,no-any-return]


def given_fields(read: BaseModel) -> dict[str, Any]:
    """Return the fields that were really there, under their own names."""
    aliases = ALIASES if type(read).__name__ == ToolCall.__name__ else {}
    return {aliases.get(name, name): getattr(read, name) for name in read.model_fields_set}


@functools.cache
def value_model(kind: Any) -> Any:
    """Return the form of a value's data, as an annotation that pydantic can read."""
    hints = get_type_hints(kind)
    fields = {
        item.name: optional_field(_nested_type(hints[item.name]))
        for item in dataclasses.fields(kind)
    }
    if kind is not ToolCall:
        return build_model(kind.__name__, fields, {"description": kind.__doc__})
    pairs = [{"required": [alias, name]} for alias, name in ALIASES.items()]
    fields |= {alias: fields[name] for alias, name in ALIASES.items()}
    extra = {"description": kind.__doc__, "not": {"anyOf": pairs}}
    made = build_model(kind.__name__, fields, extra)
    return Annotated[made, AfterValidator(_named_once)]


def _nested_type(hint: Any) -> Any:
    (inner, *_) = get_args(hint) or (None,)
    if get_origin(hint) is Sequence and isinstance(inner, type) and issubclass(inner, Value):
        build = functools.partial(build_value, inner)
        form: Any = Annotated[value_model(inner), AfterValidator(build)]  # type: ignore[arg-type]
        return Sequence[form]
    return hint


def _named_once(read: M) -> M:
    for alias, name in ALIASES.items():
        if {alias, name} <= read.model_fields_set:
            raise ValueError(f"{name} or {alias}, not both")
    return read


def has_text(kind: type) -> bool:
    """Return whether a text can stand for the whole value."""
    return kind is ToolCall or "content" in getattr(kind, "__slots__", ())


def build_value(kind: type, read: BaseModel, current: Any = None) -> Any:
    """Build the value that was read; what it leaves out is taken from the current one."""
    fields = given_fields(read)
    if isinstance(current, kind):
        return dataclasses.replace(current, **fields)  # type: ignore[type-var]
    if kind is ToolResult and isinstance(current, ToolCall):
        fields = {"id": current.id, "name": current.name} | fields
    return kind(**fields)


def build_changed(contract: Contract, told: Any, current: Any, *, redacted: bool = False) -> Any:
    """Build a changed value from what was read for it: its fields, its text, or any JSON data."""
    if isinstance(told, BaseModel):
        return build_value(contract.value, told, current)
    return contract.read_change(told, current, redacted=redacted)


def build_result(contract: Contract, decision: Decision, told: Any, current: Any) -> Any:
    """Build the value of a `replace` or `stop` from what was read for it.

    It stands in the place of the current one, of which nothing goes on: what a rule stops an answer
    for may be in any of its fields.
    """
    if isinstance(told, BaseModel):
        call = current if isinstance(current, ToolCall) else None
        return build_value(result_type(contract, decision) or object, told, call)
    return contract.read_result(decision, told, current)


def result_type(contract: Contract, decision: Decision) -> type | None:
    """Return the type of the value that a decision brings at a point; None if it brings none."""
    return {Decision.REPLACE: contract.replace, Decision.STOP: contract.stop}.get(decision)


def check_data(kind: type, data: Any, what: str) -> BaseModel:
    """Read the data of a value, or raise what is wrong with it."""
    try:
        return _type_adapter(kind).validate_python(data)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise InvalidOutcomeError(f"{what} does not fit: {explain_error(error, data)}") from None


@functools.cache
def _type_adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(value_model(kind))


def explain_error(
    error: ValidationError,
    data: Any,
    keys: Iterable[str] = (),
    actions: Iterable[str] = (),
    *,
    quoted: bool = True,
) -> str:
    """Return where data is wrong, what was found there, and what was expected.

    `keys` and `actions` are what would have been right. Texts are `quoted` unless they may be
    secrets that would reach a caller.
    """
    problems = [(data_path(item, data), item) for item in error.errors()]
    deepest = max(len(path) for path, _ in problems)
    path, first = next((path, item) for path, item in problems if len(path) == deepest)
    at = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    if first["type"] == "extra_forbidden":
        return f"at {at}: found a key that is not known here{suggestion(str(path[-1]), keys)}"
    if first["type"] == "missing":
        return f"at {at}: found nothing, expected a value"
    if first["type"].startswith("union_tag"):
        found = (
            describe_found(first["input"]["action"]) if "action" in first["input"] else "nothing"
        )
        return f"at $.action: found {found}, expected one of {', '.join(actions)}"
    wanted = dict.fromkeys(_expected_text(item) for other, item in problems if other == path)
    hidden = not quoted and isinstance(first["input"], str)
    found = "a text" if hidden else describe_found(first["input"])
    return f"at {at}: found {found}, expected {' or '.join(wanted)}"


def _expected_text(item: ErrorDetails) -> str:
    return _WANTED.get(item["type"]) or expected_text(item)


def describe_found(found: Any) -> str:
    """Return what was found; of long texts the beginning, of containers only their kind."""
    if isinstance(found, Mapping):
        return "an object"
    if isinstance(found, (list, tuple)):
        return "a list"
    if isinstance(found, (str, int, float, bool)) or found is None:
        text = "null" if found is None else repr(found)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return type(found).__name__
