"""How much work a JSON Schema makes of a value.

The package that checks values holds all threads until it has an answer. So what a check would take
is estimated first, and a value is refused that would take too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkrail.regex import LARGEST, PatternError, compile_pattern

MOST_CHECKS = 15_000_000
"""Weights of schemas times parts of a value that they are asked about: at worst 10 ns each."""

MOST_STEPS = 25_000_000
"""Steps of patterns times characters of the texts that they search: at worst 5 ns each."""

_MOST_VISITS = 20_000
_WEIGHT = 3
_WEIGHTS = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), 45),
    "const": 60,
    "multipleOf": 100,
    "uniqueItems": 20,
}
"""What a schema and its costly keywords weigh, as measured with the numbers that take longest."""

_LISTED = 15
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_OF_NAMES = ("dependentSchemas", "dependencies")
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OF_OTHERS = ("additionalProperties", "unevaluatedProperties")


class LargeValueError(ValueError):
    """A value that is too large to be checked by its schema."""


class SchemaWork:
    """Estimates what a schema of so many schemas makes of a value.

    `returns` is how many references in it lead back. With more than one there is no estimate:
    those are in files alone, requests may not bring them.
    """

    def __init__(self, schema: Any, size: int, returns: int) -> None:
        self._schema = schema
        self._steps: dict[int, int] = {}
        self._most: dict[int, tuple[int, int]] = {}
        self._is_bounded = returns <= 1
        self._total = self._steps_in(schema) if self._is_bounded else 0
        self._checks = size * _LISTED if returns else max(self._most_at_one_part(schema))

    def check(self, value: Any) -> None:
        """Raise `LargeValueError` for a value that would take too long."""
        if not self._is_bounded:
            return
        parts, characters = _measure_value(value)
        if parts * self._checks > MOST_CHECKS:
            raise LargeValueError(f"it has {parts} parts, too many for its schema")
        if characters * self._total > MOST_STEPS and self._estimate_work(value) > MOST_STEPS:
            raise LargeValueError("its texts are too long for the patterns of its schema")

    def _estimate_work(self, value: Any) -> int:
        """Return steps times characters, looking at which pattern searches which text."""
        work = visits = 0
        waiting = [(self._schema, value)]
        texts = _Texts()
        while waiting and work <= MOST_STEPS:
            node, item = waiting.pop()
            visits += 1
            if visits > _MOST_VISITS:
                return MOST_STEPS + 1
            if not isinstance(node, Mapping) or not self._steps_in(node):
                continue
            if isinstance(item, str):
                work += len(item) * _own_steps(node)
            elif isinstance(item, Mapping):
                names = texts.characters_of_names(item)
                work += names * sum(map(_steps_of, _member_schemas(node, "patternProperties")))
                work += names * self._steps_in(node.get("propertyNames"))
            waiting += _inner_schemas(self._schema, node, item, texts)
        return work

    def _most_at_one_part(self, node: Any) -> tuple[int, int]:
        """Return the weight of the schemas that apply to a value, or to one part of it."""
        if not isinstance(node, Mapping):
            return _WEIGHT, 0
        if (known := self._most.get(id(node))) is not None:
            return known
        own = _WEIGHT + sum(weight for key, weight in _WEIGHTS.items() if key in node)
        own += _LISTED * _compared_values(node.get("enum"))
        by_name = _member_schemas(node, "properties").values()
        within = max((max(self._most_at_one_part(each)) for each in by_name), default=0)
        others = _member_schemas(node, "patternProperties").values()
        for each in (*others, *_listed_schemas(node, (*_OF_ITEMS, *_OF_OTHERS))):
            within += max(self._most_at_one_part(each))
        for each in _in_place(self._schema, node):
            at, inside = self._most_at_one_part(each)
            own, within = own + at, within + inside
        self._most[id(node)] = own, within
        return own, within

    def _steps_in(self, node: Any) -> int:
        """Return the steps of all patterns in a schema, each reference counted as what it names."""
        if not isinstance(node, (Mapping, list)):
            return 0
        if id(node) in self._steps:
            return self._steps[id(node)]
        self._steps[id(node)] = 0  # where a reference leads back
        if isinstance(node, list):
            found = sum(map(self._steps_in, node))
        else:
            found = _own_steps(node) + sum(map(self._steps_in, node.values()))
            found += sum(map(_steps_of, _member_schemas(node, "patternProperties")))
            found += self._steps_in(_referred_schema(self._schema, node))
        self._steps[id(node)] = found
        return found


def _measure_value(value: Any) -> tuple[int, int]:
    """Return how many parts and characters a value has."""
    parts = characters = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        parts += 1
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, Mapping):
            characters += sum(map(len, map(str, item)))
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
    return parts, characters


def _compared_values(listed: Any) -> int:
    """Return how many values of an `enum` are compared one by one: not those of one plain type."""
    if not isinstance(listed, list):
        return 0
    is_plain = len({*map(type, listed)}) == 1 and isinstance(listed[0], (str, int))
    return 1 if is_plain else len(listed)


def _own_steps(node: Mapping[str, Any]) -> int:
    """Return the steps of what a schema itself searches a text for."""
    pattern = node.get("pattern")
    steps = _steps_of(pattern) if isinstance(pattern, str) else 0
    return steps + 10 * ("format" in node)


def _steps_of(pattern: str) -> int:
    try:
        return compile_pattern(pattern).size
    except PatternError:  # another engine takes it, which knows a little more
        return LARGEST


class _Texts:
    """Where texts are in a value: each part is gone through once, for however many schemas."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Any]] = {}
        self._names: dict[int, int] = {}

    def parts_of(self, item: Mapping[str, Any] | list[Any]) -> list[Any]:
        """Return those parts in which a pattern may have something to search."""
        if id(item) not in self._parts:
            parts = item.values() if isinstance(item, Mapping) else item
            kinds = (str, list, Mapping)
            self._parts[id(item)] = [part for part in parts if isinstance(part, kinds)]
        return self._parts[id(item)]

    def characters_of_names(self, item: Mapping[str, Any]) -> int:
        """Return how long the names of an object are together."""
        if id(item) not in self._names:
            self._names[id(item)] = sum(map(len, item))
        return self._names[id(item)]


def _inner_schemas(
    root: Any, node: Mapping[str, Any], item: Any, texts: _Texts
) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas within one, each with the parts of a value that it applies to."""
    yield from ((each, item) for each in _in_place(root, node))
    if isinstance(item, Mapping):
        known = _member_schemas(node, "properties")
        yield from ((known[name], item[name]) for name in known.keys() & item.keys())
        more = [
            *_member_schemas(node, "patternProperties").values(),
            *_listed_schemas(node, _OF_OTHERS),
        ]
        yield from ((each, part) for each in more for part in texts.parts_of(item))
    elif isinstance(item, list):
        items = _listed_schemas(node, _OF_ITEMS)
        yield from ((each, part) for each in items for part in texts.parts_of(item))


def _in_place(root: Any, node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas that apply to the same value."""
    yield from _listed_schemas(node, _IN_PLACE)
    for key in _OF_NAMES:
        yield from _member_schemas(node, key).values()
    if (named := _referred_schema(root, node)) is not None:
        yield named


def _listed_schemas(node: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Any]:
    for key in keys:
        found = node.get(key)
        yield from found if isinstance(found, list) else () if found is None else (found,)


def _member_schemas(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = node.get(key)
    return found if isinstance(found, Mapping) else {}


def _referred_schema(root: Any, node: Mapping[str, Any]) -> Any:
    where = node.get("$ref")
    return find_referred(root, where) if isinstance(where, str) else None


def find_referred(root: Any, where: str) -> Any:
    """Return what a reference within a schema refers to, or None."""
    if where == "#":
        return root
    if not where.startswith("#/"):
        return None
    node = root
    for step in where.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        node = node.get(name) if isinstance(node, dict) else None
    return node
