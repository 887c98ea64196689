"""JSON as it is on the wire and in the database: written by orjson, whatever a graph hands over."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import math
from collections import deque
from collections.abc import Callable, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from typing import Any

import orjson

from checkrail.engine.containment import ends_process

loads = orjson.loads
Fragment = orjson.Fragment
"""JSON that is written already, and is taken as it is into what is written around it."""

_QUICK = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SERIALIZE_NUMPY
_KEYED = _QUICK | orjson.OPT_NON_STR_KEYS
_DEEPEST = 100
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_TIMES = (dt.date, dt.time)
_SCALARS = (str, int, float, bool, type(None))


def dumps(value: Any) -> bytes:
    """Write a value as JSON; what JSON cannot represent is written as text."""
    try:
        return orjson.dumps(value, _to_plain, _QUICK)
    except TypeError:
        return _dumps_odd(value)


def jsonable(value: Any) -> Any:
    """Return a value as JSON has it, and as it is now: nothing in it is shared."""
    if type(value) is str or value is None or type(value) is bool:
        return value if type(value) is not str else _encodable_text(value)
    return loads(dumps(value))


def _dumps_odd(value: Any) -> bytes:
    try:
        return orjson.dumps(value, _to_plain, _KEYED)
    except TypeError:
        return orjson.dumps(_rebuild(value, ()))


def _to_plain(value: Any) -> Any:
    """Return what stands for a value that orjson does not know."""
    kind = type(value)
    convert = _KNOWN.get(kind)
    if convert is None:
        convert = _KNOWN[kind] = _find_conversion(kind)
        if len(_KNOWN) > 10_000:  # classes that are made anew in each run must not pile up
            _KNOWN.clear()
    try:
        return convert(value)
    except BaseException as error:
        if ends_process(error):
            raise
        return _type_name(value)


def _find_conversion(kind: type) -> Callable[[Any], Any]:
    for base, convert in _CONVERSIONS:
        if issubclass(kind, base):
            return convert
    if dataclasses.is_dataclass(kind):
        return _dataclass_fields
    return next((convert for name, convert in _METHODS if callable(getattr(kind, name, None))), str)


def _dataclass_fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _render_error(value: BaseException) -> dict[str, str]:
    return {"error": type(value).__name__, "message": str(value)}


def _from_decimal(value: Decimal) -> int | float | str:
    if not value.is_finite():
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


def _to_base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def _type_name(value: Any) -> str:
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _encodable_text(value: str) -> str:
    """Return text that can be encoded: half of a surrogate pair cannot."""
    return value if value.isascii() else value.encode(errors="replace").decode()


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (type, repr),
    (BaseException, _render_error),
    ((bytes, bytearray, memoryview), _to_base64),
    (dt.timedelta, dt.timedelta.total_seconds),
    (Decimal, _from_decimal),
    (Enum, lambda value: value.value),
    (Mapping, dict),
    ((AbstractSet, deque, range, ValuesView), list),
)

_METHODS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("model_dump", lambda value: value.model_dump(warnings=False)),
    ("_asdict", lambda value: value._asdict()),
)

_KNOWN: dict[type, Callable[[Any], Any]] = {}


def _rebuild(value: Any, above: tuple[int, ...]) -> Any:
    """Rebuild a value in which something is beyond orjson: huge numbers, circles, odd text."""
    if type(value) is str:
        return _encodable_text(value)
    if isinstance(value, _SCALARS):
        return _to_scalar(value)
    if isinstance(value, Fragment):
        return loads(orjson.dumps(value))
    if id(value) in above or len(above) > _DEEPEST:
        return _type_name(value)
    within = (*above, id(value))
    if isinstance(value, Mapping):
        return {_to_key(key): _rebuild(item, within) for key, item in value.items()}
    if isinstance(value, (list, tuple, AbstractSet)) and not hasattr(value, "_asdict"):
        return [_rebuild(item, within) for item in value]
    if isinstance(value, _TIMES):
        return value.isoformat()
    return _rebuild(_to_plain(value), within)


def _to_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return _encodable_text(str.__str__(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return int.__repr__(value)
    return value


def _to_key(key: Any) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return _encodable_text(str.__str__(key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, _TIMES):
        return key.isoformat()
    try:
        return _encodable_text(str(key))
    except BaseException as error:
        if ends_process(error):
            raise
        return _type_name(key)
