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
    """A filter says something that nobody understands, so it lets nothing through."""


def normal(given: object) -> Filter:
    """Check a filter and bring it into its normal form."""
    if not isinstance(given, Mapping):
        raise FilterError(f"a filter is a dict, not {type(given).__name__}")
    if isinstance(given.get(_METADATA), Mapping):  # it says whose fields they are
        given = {**given[_METADATA], **{key: of for key, of in given.items() if key != _METADATA}}
    return {_name(key): _condition(key, value) for key, value in given.items()}


def matches(wanted: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> bool:
    """Return whether metadata holds what a filter wants; nothing wanted is always held."""
    return _matches(normal(wanted), metadata or {})


def _name(key: object) -> str:
    if not isinstance(key, str):
        raise FilterError(f"a filter's fields are text, not {type(key).__name__}")
    return key


def _condition(key: str, value: Any) -> Any:
    if key in _JOINING:
        if not isinstance(value, (list, tuple)):
            raise FilterError(f"{key} takes a list of filters")
        return [normal(part) for part in value]
    if key.startswith("$"):
        raise FilterError(f"{key} is no field; around fields there are $and and $or")
    if not isinstance(value, Mapping):
        return {"$eq": _scalar(key, value)}
    if not value:
        raise FilterError(f"{key!r} has no operator; there are $eq, $contains, $in")
    return {_operator(key, name): _operand(key, name, of) for name, of in value.items()}


def _operator(key: str, name: object) -> str:
    if name not in ("$eq", "$contains", "$in"):
        raise FilterError(f"{name!r} at {key!r} is no operator; there are $eq, $contains, $in")
    return str(name)


def _operand(key: str, operator: object, value: Any) -> Any:
    if operator == "$eq":
        return _scalar(key, value)
    if isinstance(value, (list, tuple)):
        return [_scalar(key, item) for item in value]
    if operator == "$in":
        raise FilterError(f"$in at {key!r} takes a list")
    return [_scalar(key, value)]


def _scalar(key: str, value: Any) -> Any:
    if not isinstance(value, _SCALARS):
        kind = type(value).__name__
        raise FilterError(f"{key!r} is compared with text, numbers, bools and null, not {kind}")
    return value


def _matches(wanted: Filter, metadata: Mapping[str, Any]) -> bool:
    return all(_holds(key, value, metadata) for key, value in wanted.items())


def _holds(key: str, value: Any, metadata: Mapping[str, Any]) -> bool:
    if key == "$and":
        return all(_matches(part, metadata) for part in value)
    if key == "$or":
        return any(_matches(part, metadata) for part in value)
    if key not in metadata:
        return False
    return all(_satisfies(operator, of, metadata[key]) for operator, of in value.items())


def _satisfies(operator: str, operand: Any, found: Any) -> bool:
    if operator == "$eq":
        return _same(operand, found)
    if operator == "$in":
        return _has(operand, found)
    return isinstance(found, (list, tuple)) and all(_has(found, item) for item in operand)


def _has(items: list[Any] | tuple[Any, ...], wanted: Any) -> bool:
    return any(_same(item, wanted) for item in items)


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does, where true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
