"""The parameters of a function, for a model that has to fill them. Pulls in pydantic."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from checkrail.agent.tools.docstring import docstring_of, parameter_texts, unwrap_function
from checkrail.agent.tools.tool import ToolContext, ToolError, ToolRefusedError
from checkrail.engine.errors import suggestion
from checkrail.engine.frozen import freeze, thaw
from checkrail.validation import expected_text, shorten_repr

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


UNEXPECTED = ("extra_forbidden", "unexpected_keyword_argument")


def describe_problems(
    tool: str, problems: Iterable[ErrorDetails], given: Any, known: Sequence[str]
) -> str:
    """Return a list of the problems: where each is, what was found and what was expected."""
    by_place: dict[str, list[ErrorDetails]] = {}
    for problem in problems:
        by_place.setdefault(_render_path(problem["loc"], given), []).append(problem)
    lines = [f"- {place}: {_describe_place(found, known)}" for place, found in by_place.items()]
    return "\n".join([f"the arguments of {tool!r} do not fit:", *lines])


def _render_path(loc: tuple[int | str, ...], data: Any) -> str:
    """Write a path; names of a union's members are no part of it, and are left out."""
    text = ""
    for number, part in enumerate(loc):
        if isinstance(part, int) and isinstance(data, (list, tuple)):
            text += f"[{part}]"
            data = data[part] if part < len(data) else None
        elif isinstance(data, Mapping) and (part in data or number == len(loc) - 1):
            text += f".{part}"
            data = data.get(part)
    return text.removeprefix(".") or "arguments"


def _describe_place(problems: list[ErrorDetails], known: Sequence[str]) -> str:
    first = problems[0]
    if first["type"] == "missing":
        return "missing, expected a value: it has no default"
    if first["type"] in UNEXPECTED:
        if len(first["loc"]) > 1:
            return "unexpected"
        near = suggestion(str(first["loc"][-1]), known)
        return f"unexpected{near}, expected only: {', '.join(known) or 'nothing'}"
    expected = " or ".join(dict.fromkeys(expected_text(problem) for problem in problems))
    return f"found {shorten_repr(first['input'])}, expected {expected}"


EMPTY = inspect.Parameter.empty
STARRED = {
    inspect.Parameter.VAR_POSITIONAL: ("*", "a list"),
    inspect.Parameter.VAR_KEYWORD: ("**", "a dict"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `field` is its name in the model that checks it, None for the context.

    Fields have names of their own, because a parameter may be called what no field can be.
    """

    name: str
    hint: Any
    default: Any
    positional: bool
    field: str | None


class _Schema(GenerateJsonSchema):
    """Writes no titles, which would only repeat the names."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as it is there

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:  # noqa: ARG002 - never
        """Set none."""
        return False


class Parameters:
    """What a function takes: as a JSON Schema, and checked and ready to be passed."""

    def __init__(self, tool: str, fn: Callable[..., Any], *, method: bool = False) -> None:
        self.tool = tool
        self.read = tuple(_read_parameters(tool, fn))[method:]
        texts = parameter_texts(docstring_of(fn))
        fields = {each.field: _build_field(each, texts) for each in self.read if each.field}
        try:
            self._model, self.schema = _build_model(fields)
        except Exception as error:
            raise self._find_culprit(fields, error) from error

    def bind_arguments(
        self,
        given: Mapping[str, Any],
        context: ToolContext,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Check arguments, and return them as the function is to be called with them."""
        data = thaw(given)
        try:
            checked = self._model.model_validate(data)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            known = list(self.schema["properties"])
            raise ToolError(describe_problems(self.tool, problems, data, known)) from None
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for each in self.read:
            value = _argument_value(each, checked, context)
            if each.positional:
                positional.append(value)
            elif value is not EMPTY:
                named[each.name] = value
        return positional, named

    def _find_culprit(self, fields: Mapping[str, Any], error: Exception) -> ToolRefusedError:
        """Find the parameter that cannot be described: the first without which all goes well."""
        *others, last = [each for each in self.read if each.field]
        tried: dict[str, Any] = {}
        for each in others:
            tried[str(each.field)] = fields[str(each.field)]
            try:
                _build_model(tried)
            except Exception as its:  # noqa: BLE001 - annotations are the user's
                return _unfit_type_error(self.tool, each, its)
        return _unfit_type_error(self.tool, last, error)


def _unfit_type_error(tool: str, parameter: Parameter, error: Exception) -> ToolRefusedError:
    why = re.split(r"\.\s|\n", str(error))[0]
    shown = inspect.formatannotation(parameter.hint)
    problem = f"the type of its parameter {parameter.name!r}, {shown}, cannot be checked: {why}"
    remedy = "Use types that JSON can hold, dataclasses or pydantic models"
    return ToolRefusedError(tool, problem, remedy)


def _read_parameters(tool: str, fn: Callable[..., Any]) -> Iterator[Parameter]:
    try:
        signature = inspect.signature(fn)
    except (ValueError, TypeError) as error:
        remedy = "Wrap it in a function of your own, with annotations"
        raise ToolRefusedError(tool, f"its parameters cannot be read ({error})", remedy) from None
    namespace = getattr(unwrap_function(fn), "__globals__", {})
    given = _partial_names(fn)
    for number, each in enumerate(signature.parameters.values()):
        if each.kind in STARRED:
            stars, instead = STARRED[each.kind]
            remedy = f"Models give arguments by their names: take {instead}"
            raise ToolRefusedError(tool, f"it takes {stars}{each.name}", remedy)
        if each.name in given:
            continue
        hint = _resolve_hint(tool, each, namespace)
        positional = each.kind is inspect.Parameter.POSITIONAL_ONLY
        field = None if _is_context(hint) else f"argument_{number}"
        yield Parameter(each.name, hint, each.default, positional, field)


def _partial_names(fn: Any) -> set[str]:
    """Return the names that a partial has filled in: models neither see nor change them."""
    names: set[str] = set()
    while isinstance(fn, partial):
        names |= fn.keywords.keys()
        fn = fn.func
    return names


def _resolve_hint(tool: str, parameter: inspect.Parameter, namespace: dict[str, Any]) -> Any:
    if parameter.annotation is EMPTY:
        return Any
    name = parameter.name
    holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
    try:
        return get_type_hints(holder, globalns=namespace, include_extras=True)[name]
    except Exception as error:
        problem = f"the annotation of its parameter {name!r} cannot be read: {error}"
        remedy = "Define or import its types at the top of the module, outside TYPE_CHECKING"
        raise ToolRefusedError(tool, problem, remedy) from error


def _is_context(hint: Any) -> bool:
    wraps = get_origin(hint) in (Union, types.UnionType, Annotated)
    return hint is ToolContext or (wraps and ToolContext in get_args(hint))


def _build_field(parameter: Parameter, texts: Mapping[str, str]) -> tuple[Any, Any]:
    """Write a parameter as a field of a model: what is said in place goes before the docstring."""
    default = ... if parameter.default is EMPTY else parameter.default
    notes = getattr(parameter.hint, "__metadata__", ())
    said = [note for note in (*notes, default) if isinstance(note, FieldInfo) and note.description]
    words = next((note for note in notes if isinstance(note, str)), texts.get(parameter.name))
    alias: dict[str, Any] = {"alias": parameter.name}
    own = Field(**alias) if said or words is None else Field(**alias, description=words)
    return Annotated[parameter.hint, own], default


def _build_model(fields: Mapping[str, Any]) -> tuple[type[BaseModel], Mapping[str, Any]]:
    config = ConfigDict(extra="forbid")
    made: Any = create_model
    model: type[BaseModel] = made("Arguments", __config__=config, **fields)
    schema = model.model_json_schema(schema_generator=_Schema)
    for name, each in [("Arguments", schema), *schema.get("$defs", {}).items()]:
        if each.get("title") == name:
            del each["title"]
    return model, freeze({"type": "object", "properties": {}} | schema)


def _argument_value(parameter: Parameter, checked: BaseModel, context: ToolContext) -> Any:
    """Return what is passed for a parameter; the function's own default is left to it."""
    if parameter.field is None:
        return context
    if parameter.field in checked.model_fields_set or isinstance(parameter.default, FieldInfo):
        return getattr(checked, parameter.field)
    return parameter.default if parameter.positional else EMPTY
