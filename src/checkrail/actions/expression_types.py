"""Types: what is known of an expression's names, operators and functions before any event."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from checkrail.actions.expression_fields import field_names
from checkrail.engine.points import Contract
from checkrail.engine.values import User, Value

NUMBERS = frozenset({"int", "uint", "double"})
_NAMES: dict[str, str] = {
    "null": "nothing",
    "bool": "true or false",
    **dict.fromkeys(("int", "uint", "double"), "a number"),
    "text": "a text",
    "bytes": "bytes",
    "time": "a time",
    "duration": "a duration",
    "list": "a list",
    "map": "a mapping",
    "object": "an object",
}
_EXACT = {"int": "a whole number", "uint": "an unsigned number", "double": "a decimal number"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value: `items` is what a list or mapping holds, None for anything.

    An object has the fields of its `owner`; `keyed` says that all keys of a mapping are texts.
    """

    name: str
    items: Kinds | None = None
    owner: type[Value] | None = None
    keyed: bool = False


Kinds = frozenset[Kind]
"""What a part of an expression can be."""

ANY: Kinds = frozenset(map(Kind, _NAMES))
BOOL: Kinds = frozenset({Kind("bool")})
NULL: Kinds = frozenset({Kind("null")})
TEXT: Kinds = frozenset({Kind("text")})

_BY_TYPE: dict[Any, Kinds] = {
    Any: ANY,
    object: ANY,
    type(None): NULL,
    bool: BOOL,
    str: TEXT,
    int: frozenset({Kind("int")}),
    float: frozenset({Kind("int"), Kind("double")}),
    datetime: frozenset({Kind("time")}),
}
_EVENT: dict[str, Any] = {
    "user": User,
    "attempt": int,
    "iteration": int,
    "timestamp": datetime,
    "new_messages": Sequence[Mapping[str, Any]],
    "content": str,
    "config": Any,
    "metadata": Any,
}


def names_of(kinds: Iterable[Kind]) -> frozenset[str]:
    """Return the names of kinds, without what they hold."""
    return frozenset(kind.name for kind in kinds)


def describe_kinds(kinds: Kinds, *, exact: bool = False) -> str:
    """Return kinds as a reader knows them: `a text or a number`."""
    found = names_of(kinds)
    told = {**_NAMES, **_EXACT} if exact else _NAMES
    return join_words(dict.fromkeys(told[name] for name in _NAMES if name in found - _nulls(found)))


def _nulls(found: frozenset[str]) -> frozenset[str]:
    return frozenset({"null"}) if found > {"null"} else frozenset()


def join_words(words: Iterable[str]) -> str:
    """Return words with an `or` before the last."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def kinds_of_name(name: str, contracts: Sequence[Contract]) -> Kinds:
    """Return what a name of the event can be at these points."""
    if name in _EVENT:
        return _kinds_of_type(_EVENT[name]) | NULL
    whole = name in ("value", "original")
    found = {item.value for item in contracts if whole or item.wire == name}
    return union(_kinds_of_type(kind) for kind in found or {str}) | NULL


def union(many: Iterable[Kinds]) -> Kinds:
    """Return what one of several can be."""
    return frozenset().union(*many)


@functools.lru_cache(maxsize=256)
def _kinds_of_type(kind: Any) -> Kinds:
    origin = get_origin(kind) or kind
    if origin in _BY_TYPE:
        return _BY_TYPE[origin]
    if origin in (Union, UnionType):
        return union(map(_kinds_of_type, get_args(kind)))
    if issubclass(origin, Value):
        return frozenset({Kind("object", owner=origin)})
    *_, held = get_args(kind) or (Any,)
    is_mapping = issubclass(origin, Mapping)
    name = "map" if is_mapping else "list"
    return frozenset({Kind(name, _kinds_of_type(held), keyed=is_mapping)})


def kinds_of_field(owner: type[Value], field: str) -> Kinds | None:
    """Return what a field of a value can be, or None where it has no such field."""
    if field not in field_names(owner):
        return None
    return TEXT if field == "text" else _kinds_of_type(get_type_hints(owner)[field])


def are_comparable(some: Kinds, others: Kinds) -> bool:
    """Return whether two values can be equal; to compare with null is always right."""
    return NULL in (some, others) or bool(_groups_of(some) & _groups_of(others))


def _groups_of(kinds: Kinds) -> set[str]:
    """Return the names of kinds, with one name for what may be equal to each other."""
    found = names_of(kinds)
    number, mapping = found & NUMBERS, found & {"map", "object"}
    return {*(found - number - mapping), *["int"] * bool(number), *["map"] * bool(mapping)}


_SAME = ("int", "uint", "double")
_OPERATORS: dict[str, dict[tuple[str, str], str]] = {
    "+": {
        **{(name, name): name for name in (*_SAME, "text", "bytes", "list", "duration")},
        ("list", "map"): "list",
        ("list", "object"): "list",
        ("time", "duration"): "time",
    },
    "-": {
        **{(name, name): name for name in (*_SAME, "duration")},
        ("time", "time"): "duration",
        ("time", "duration"): "time",
    },
    "*": {(name, name): name for name in _SAME},
    "/": {(name, name): name for name in _SAME},
    "%": {(name, name): name for name in ("int", "uint")},
    "<": {
        **dict.fromkeys(product(NUMBERS, NUMBERS), "bool"),
        **{(name, name): "bool" for name in ("bool", "text", "bytes", "time", "duration")},
    },
}
for _sign in ("<=", ">", ">="):
    _OPERATORS[_sign] = _OPERATORS["<"]


@functools.lru_cache(maxsize=512)
def kinds_of_operation(sign: str, left: frozenset[str], right: frozenset[str]) -> Kinds:
    """Return what `left sign right` can be; nothing where it fails each time."""
    known = _OPERATORS[sign]
    return frozenset(Kind(known[pair]) for pair in product(left, right) if pair in known)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes, the receiver first, and returns; the last `spare` may be left out."""

    takes: tuple[frozenset[str], ...]
    spare: int
    gives: Kinds


_SIGNATURES = """
    contains(text, text) bool
    endsWith(text, text) bool
    matches(text, text) bool
    startsWith(text, text) bool
    charAt(text, number) text
    indexOf(text, text, int?) int
    lastIndexOf(text, text, int|null?) int
    lowerAscii(text) text
    replace(text, text, text, int?) text
    split(text, text|null, int|null?) list
    substring(text, int, int|null?) text
    trim(text) text
    upperAscii(text) text
    reverse(text|list) text|list
    join(items, text?) text
    text(any) text
    size(text|bytes|list|map) int
    string(number|text|bytes|time|duration) text
    int(number|text|time) int
    uint(number|text) uint
    double(number|text) double
    bool(bool|text) bool
    bytes(text|bytes) bytes
    timestamp(text|time|int) time
    duration(text|duration) duration
    getDate(time) int
    getDayOfMonth(time) int
    getDayOfWeek(time) int
    getDayOfYear(time) int
    getFullYear(time) int
    getHours(time|duration) int
    getMilliseconds(time|duration) int
    getMinutes(time|duration) int
    getMonth(time) int
    getSeconds(time|duration) int
    distinct(items) list
    slice(list|text|bytes, int, int) any
    sort(items) list
    lists.range(int) list
    sets.contains(items, items) bool
    sets.equivalent(items, items) bool
    sets.intersects(items, items) bool
    math.abs(number|duration) any
    math.ceil(number) number
    math.floor(number) number
    math.round(number) number
    math.trunc(number) number
    math.sqrt(number) double
    base64.encode(bytes|text) text
    base64.decode(text) bytes
"""
"""The common functions of the language and its library; any other takes and returns anything."""

_SETS = {
    "number": NUMBERS,
    "int": frozenset({"int", "uint"}),
    "list": frozenset({"list"}),
    "map": frozenset({"map", "object"}),
    "items": frozenset({"list", "map", "object", "text", "bytes"}),
    "any": names_of(ANY),
}


@functools.cache
def load_signatures() -> Mapping[str, Signature]:
    """Return what each function takes and returns."""
    lines = re.findall(r"(\S+)\((.*)\) (\S+)", _SIGNATURES)
    return {name: _parse_signature(takes, gives) for name, takes, gives in lines}


def _parse_signature(takes: str, gives: str) -> Signature:
    parameters = takes.split(", ")
    wanted = tuple(_parse_names(name.rstrip("?")) for name in parameters)
    made = _parse_names(gives) if gives in ("any", "number") else gives.split("|")
    return Signature(wanted, takes.count("?"), frozenset(map(Kind, made)))


def _parse_names(told: str) -> frozenset[str]:
    return frozenset().union(*(_SETS.get(name, frozenset({name})) for name in told.split("|")))
