"""A form made from a JSON schema, and the values that were filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.dashboard import shown
from checkrail.dashboard.forms import parse_json

_SIMPLE = ("string", "number", "integer", "boolean")
_PREFIX = "p."
_WHOLE = "json"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form."""

    name: str
    path: str
    kind: str
    label: str
    help: str = ""
    is_required: bool = False
    options: tuple[str, ...] = ()
    value: str = ""


def build_fields(schema: Any, form: Mapping[str, Any] | None) -> list[Field]:
    """Return the fields for a schema; without one it is a single field of JSON."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        value = "{}" if form is None else str(form.get(_WHOLE) or "{}")
        return [Field(_WHOLE, "", "json", "Parameters", "JSON", value=value)]
    return [*_build_object(schema, "", form, 0)]


def _build_object(
    schema: Mapping[str, Any], path: str, form: Mapping[str, Any] | None, depth: int
) -> Iterator[Field]:
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, one in schema.get("properties", {}).items():
        inner = f"{path}{name}"
        spec = one if isinstance(one, Mapping) else {}
        if spec.get("type") == "object" and spec.get("properties") and depth == 0:
            yield from _build_object(spec, f"{inner}.", form, depth + 1)
        else:
            yield _build_field(inner, spec, form, is_required=name in needed)


def _build_field(
    path: str, spec: Mapping[str, Any], form: Mapping[str, Any] | None, *, is_required: bool
) -> Field:
    kind, options = _kind_of(spec)
    default = spec.get("default")
    value = "" if default is None else shown.text_of(default, None)
    if kind == "boolean":
        value = "true" if default else ""
    if form is not None:
        value = str(form.get(f"{_PREFIX}{path}") or "")
    told = str(spec.get("description") or "")
    if kind == "json":
        told = f"{told} JSON".strip()
    return Field(f"{_PREFIX}{path}", path, kind, path, told, is_required, options, value)


def _kind_of(spec: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    choices = spec.get("enum")
    if isinstance(choices, list) and all(isinstance(each, str) for each in choices):
        return "choice", tuple(choices)
    kind = spec.get("type")
    if kind == "string" and spec.get("format") in ("date", "date-time"):
        return ("date" if spec["format"] == "date" else "string"), ()
    if kind == "array" and isinstance(spec.get("items"), Mapping):
        return ("list", ()) if spec["items"].get("type") == "string" else ("json", ())
    return (kind if kind in _SIMPLE else "json"), ()


def read_values(schema: Any, form: Mapping[str, Any]) -> Any:
    """Return the parameters that a form holds; what is left empty is left out."""
    fields = build_fields(schema, form)
    if fields and fields[0].name == _WHOLE:
        return parse_json(fields[0].value, "The parameters")
    values: dict[str, Any] = {}
    for field in fields:
        if not field.value and field.kind != "boolean":
            continue
        place = values
        *outer, last = _split(schema, field.path)
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = _read_value(field)
    return values


def _split(schema: Any, path: str) -> list[str]:
    """Return the names of a path; a name may have dots of its own."""
    properties = schema.get("properties", {})
    if path in properties:
        return [path]
    outer, _, inner = path.partition(".")
    return [outer, inner]


def _read_value(field: Field) -> Any:
    text = field.value
    if field.kind == "boolean":
        return text == "true"
    if field.kind in ("integer", "number"):
        try:
            return int(text) if field.kind == "integer" else float(text)
        except ValueError:
            return text  # the API says what it expected
    if field.kind == "list":
        return [line.strip() for line in text.splitlines() if line.strip()]
    return parse_json(text, field.path) if field.kind == "json" else text
