"""Filters over metadata, as authorization handlers return them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Filter = dict[str, Any]
"""In normal form: `field: {operator: operand}`, and `$and`, `$or` with lists of filters."""

_SCALARS = (str, int, float, bool, type(None))
_JOINING = frozenset({"$and", "$or"})
_METADATA = "metadata"


class FilterError(ValueError):
    """A filter that cannot be understood, so it lets nothing through."""


def normalize_filter(given: object) -> Filter:
    """Check a filter and bring it into its normal form."""
    if not isinstance(given, Mapping):
        raise FilterError(f"a filter is a dict, not {type(given).__name__}")
    if isinstance(given.get(_METADATA), Mapping):  # it says whose fields they are
        given = {**given[_METADATA], **{key: of for key, of in given.items() if key != _METADATA}}
    return {_parse_field(key): _parse_condition(key, value) for key, value in given.items()}


def matches_filter(wanted: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> bool:
    """Return whether metadata holds what a filter wants; nothing wanted is always held."""
    return _matches_all(normalize_filter(wanted), metadata or {})


def _parse_field(key: object) -> str:
    if not isinstance(key, str):
        raise FilterError(f"a filter's fields are text, not {type(key).__name__}")
    return key


def _parse_condition(key: str, value: Any) -> Any:
    if key in _JOINING:
        if not isinstance(value, (list, tuple)):
            raise FilterError(f"{key} takes a list of filters")
        return [normalize_filter(part) for part in value]
    if key.startswith("$"):
        raise FilterError(f"{key} is no field; around fields there are $and and $or")
    if not isinstance(value, Mapping):
        return {"$eq": _parse_scalar(key, value)}
    if not value:
        raise FilterError(f"{key!r} has no operator; there are $eq, $contains, $in")
    return {_parse_operator(key, name): _parse_operand(key, name, of) for name, of in value.items()}


def _parse_operator(key: str, name: object) -> str:
    if name not in ("$eq", "$contains", "$in"):
        raise FilterError(f"{name!r} at {key!r} is no operator; there are $eq, $contains, $in")
    return str(name)


def _parse_operand(key: str, operator: object, value: Any) -> Any:
    if operator == "$eq":
        return _parse_scalar(key, value)
    if isinstance(value, (list, tuple)):
        return [_parse_scalar(key, item) for item in value]
    if operator == "$in":
        raise FilterError(f"$in at {key!r} takes a list")
    return [_parse_scalar(key, value)]


def _parse_scalar(key: str, value: Any) -> Any:
    if not isinstance(value, _SCALARS):
        kind = type(value).__name__
        raise FilterError(f"{key!r} is compared with text, numbers, bools and null, not {kind}")
    return value


def _matches_all(wanted: Filter, metadata: Mapping[str, Any]) -> bool:
    return all(_matches_key(key, value, metadata) for key, value in wanted.items())


def _matches_key(key: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if key == "$and":
        return all(_matches_all(part, metadata) for part in value)
    if key == "$or":
        return any(_matches_all(part, metadata) for part in value)
    if key not in metadata:
        return False
    return all(_matches_operator(operator, of, metadata[key]) for operator, of in value.items())


def _matches_operator(operator: str, operand: Any, found: Any) -> bool:
    if operator == "$eq":
        return _is_same_json(operand, found)
    if operator == "$in":
        return _has_item(operand, found)
    return isinstance(found, (list, tuple)) and all(_has_item(found, item) for item in operand)


def _has_item(items: list[Any] | tuple[Any, ...], wanted: Any) -> bool:
    return any(_is_same_json(item, wanted) for item in items)


def _is_same_json(one: Any, other: Any) -> bool:
    """Compare as JSON does, where true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
