"""`schema_check`: blocks parameters, tool arguments or outputs that do not fit a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from checkrail.builtin.base import Builtin, any_of
from checkrail.builtin.errors import BuiltinConfigError
from checkrail.builtin.schema_cost import BoundedValidator
from checkrail.builtin.schema_work import LargeValueError
from checkrail.engine.errors import CheckrailError, InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AgentResponse, AssistantMessage, ToolCall, ToolResult, plain
from checkrail.validation import shorten_repr

if TYPE_CHECKING:
    from checkrail.builtin.options import Schema, SchemaCheckOptions

NAME = "schema_check"
SHOWN = 5
PATTERN_BYTES = 1 << 20
LINEAR = "write it without lookaround and backreferences, and with fewer repeats"

Applies = Callable[[str], bool]


def build(options: SchemaCheckOptions) -> Callable[[Event[Any], Any], Block | None]:
    """Build the hook; its schemas are compiled once, here."""
    checks = list(_build_checks(options))

    def schema_check(event: Event[Any], value: Any) -> Block | None:
        data = data_to_check(value)
        found: list[str] = []
        for applies, validator in checks:
            if applies is None or applies(_require_tool_name(event, value)):
                found += find_problems(validator, data)
        if not found:
            return None
        what = f"the arguments of {value.name!r}" if isinstance(value, ToolCall) else "the value"
        reason = f"{what} at {event.point} does not fit its schema: {_join_problems(found)}"
        return Block(reason, options.status, "schema_mismatch")

    return schema_check


def data_to_check(value: Any) -> Any:
    """Return what is checked: a tool's arguments, a text or an output, as plain JSON data."""
    if isinstance(value, ToolCall):
        return plain(value.args)
    if isinstance(value, (ToolResult, AssistantMessage, AgentResponse)):
        return plain(value.content)
    return plain(value)


def _require_tool_name(event: Event[Any], value: Any) -> str:
    if isinstance(value, ToolCall):
        return value.name
    message = f"`schemas` of {NAME} are of tools, which {event.point} has not: give it a `schema`"
    raise InvalidOutcomeError(message)


def _build_checks(options: SchemaCheckOptions) -> Iterator[tuple[Applies | None, BoundedValidator]]:
    if options.schemas is None:
        yield None, compile_schema("schema", options.json_schema)
        return
    for glob, schema in options.schemas.items():
        yield any_of([glob]), compile_schema(f"schemas.{glob}", schema)


def compile_schema(key: str, schema: Schema | None, what: str = NAME) -> BoundedValidator:
    """Compile a schema. What it does not contain itself is not fetched, but refused."""
    try:
        import jsonschema_rs
    except ImportError:
        message = f'{what} needs jsonschema-rs: pip install "checkrail[config]"'
        raise CheckrailError(message) from None
    try:
        validator = jsonschema_rs.validator_for(
            schema,  # type: ignore[arg-type]
            retriever=_refuse_reference,
            mask="it",
            pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
        )
        return BoundedValidator(validator, schema)
    except ValueError as error:
        why = _describe_problem(error) if hasattr(error, "instance_path") else str(error)
        if why.endswith('is not a "regex"'):
            why += f" that takes a time that grows with the text alone: {LINEAR}"
        raise BuiltinConfigError(
            NAME, key, shorten_repr(schema), f"a JSON Schema ({why})"
        ) from None


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside the schema and is not fetched: put it under $defs")


def find_problems(validator: BoundedValidator, data: Any) -> list[str]:
    """Return what of the data does not fit, and where."""
    try:
        return [_describe_problem(error) for error in validator.find_errors(data)]
    except LargeValueError as error:
        return [str(error)]
    except ValueError as error:
        return [f"it is no JSON data ({error})"]


def _describe_problem(error: Any) -> str:
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"${''.join(steps)}: {error.message}"


def _join_problems(problems: list[str]) -> str:
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


BUILTIN = Builtin(
    name=NAME,
    summary="blocks parameters, tool arguments or outputs that do not fit a JSON Schema",
    points=(
        HookPoint.BEFORE_RUN,
        HookPoint.ON_RUN_START,
        HookPoint.BEFORE_TOOL_CALL,
        HookPoint.ON_RESULT,
    ),
    lane=Lane.GATE,
    build=build,
    example={"schema": {"type": "object", "required": ["question"]}},
    reads_with={"schemas": (ToolCall,)},
)


def schema_check(event: Event[Any], value: Any) -> Block | None:
    """Block a value that does not fit its schema."""
    return BUILTIN.hook_for(event)(event, value)  # type: ignore[no-any-return]
