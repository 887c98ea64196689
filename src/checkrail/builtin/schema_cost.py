"""What a JSON Schema may cost whoever checks values by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from checkrail.builtin.schema_work import SchemaWork, find_referred

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MOST = 1000
"""How many schemas one may consist of, each reference counted as what it refers to."""

_MOST_ERRORS = 6000
_ELSEWHERE = ("$dynamicRef", "$recursiveRef", "$id", "id")
_LITERAL = frozenset({"const", "enum", "default", "examples"})
_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
"""Where schemas stand under names of their own, which may be any."""


class CostlySchemaError(ValueError):
    """A schema that may take for ever, or of which that cannot be seen."""


def check_schema(schema: Any) -> None:
    """Refuse a schema that takes more than a time that grows with the value alone."""
    size, returns = _Counter(schema).count(schema)
    if size > MOST:
        raise CostlySchemaError(f"it consists of {size} schemas; {MOST} is the limit")
    if returns > 1:
        raise CostlySchemaError("it refers to itself in more than one place")


class BoundedValidator:
    """A compiled schema, which refuses values that would take long to be checked."""

    def __init__(self, validator: Validator, schema: Any) -> None:
        self._validator = validator
        try:
            self._size, self._returns = _Counter(schema).count(schema)
        except CostlySchemaError:
            self._size = self._returns = MOST
        self._work = SchemaWork(schema, self._size, self._returns)

    def find_errors(self, data: Any) -> Iterable[ValidationError]:
        """Return what does not fit; of what could be very much, the first alone.

        All errors are made before the first is seen, and each costs more than the check itself.
        Raises `LargeValueError`, and another `ValueError` for what is no JSON data.
        """
        self._work.check(data)
        if self._validator.is_valid(data):
            return []
        if self._returns <= 1 and not _has_more(data, _MOST_ERRORS // max(1, self._size)):
            return self._validator.iter_errors(data)
        try:
            self._validator.validate(data)
        except ValueError as error:
            if hasattr(error, "instance_path"):
                return [cast("ValidationError", error)]
            raise
        return []


def _has_more(data: Any, parts: int) -> bool:
    waiting = [data]
    while waiting:
        item = waiting.pop()
        parts -= 1
        if parts < 0:
            return True
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


def _schemas_in(node: dict[str, Any]) -> Iterable[Any]:
    for key, item in node.items():
        if key in _NAMED and isinstance(item, dict):
            yield from item.values()
        elif key not in _LITERAL:
            yield item


class _Counter:
    """Counts schemas, and the references that lead back to where they stand."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, tuple[int, int] | None] = {"#": None}

    def count(self, node: Any) -> tuple[int, int]:
        """Return how many schemas there are in one, and how many references lead back."""
        if isinstance(node, list):
            return self._sum_counts(node)
        if not isinstance(node, dict):
            return 0, 0
        size, returns = self._sum_counts(_schemas_in(node))
        for key in _ELSEWHERE:
            if isinstance(node.get(key), str):
                raise CostlySchemaError(f"it has `{key}`: refer to #/$defs/name")
        if isinstance(node.get("$ref"), str):
            more, back = self._count_referred(node["$ref"])
            return size + more + 1, returns + back
        return size + 1, returns

    def _sum_counts(self, nodes: Iterable[Any]) -> tuple[int, int]:
        size = returns = 0
        for item in nodes:
            more, back = self.count(item)
            size, returns = size + more, returns + back
        return size, returns

    def _count_referred(self, where: str) -> tuple[int, int]:
        if where in self._known:
            return self._known[where] or (1, 1)  # it is being counted: the reference leads back
        self._known[where] = None
        self._known[where] = found = self.count(self._resolve_reference(where))
        return found

    def _resolve_reference(self, where: str) -> Any:
        node = find_referred(self._root, where)
        if node is None:
            raise CostlySchemaError(f"it refers to {where[:60]!r}: refer to #/$defs/name")
        return node
