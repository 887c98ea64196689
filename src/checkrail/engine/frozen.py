"""Containers that cannot be changed, and are still dicts and lists to everybody else.

They keep a hook from changing what others see by mistake. They are no sandbox: what writes into
dicts and lists from C (`heapq`, `exec` with a dict of its own) and what goes around a class
(`dict.__setitem__`, `object.__setattr__`) cannot be refused by a subclass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class FrozenError(TypeError):
    """Somebody tried to change a value that was handed out frozen."""


set_field = object.__setattr__
"""Sets a field of a `FrozenObject`, in its constructor."""


class FrozenObject:
    """The base of what cannot be changed once it is made."""

    __slots__ = ()
    frozen_hint = ""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"this {type(self).__name__} is frozen: {name!r} cannot be set{self.frozen_hint}"
        raise FrozenError(message)

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenError(f"this {type(self).__name__} is frozen: {name!r} cannot be deleted")


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    message = (
        f"this {kind} is frozen and cannot be changed. Make a copy with {kind}(x) or "
        f"copy.deepcopy(x); a hook that wants another value returns Continue(copy)"
    )
    raise FrozenError(message)


class FrozenDict(dict[_K, _V]):
    """A dict whose contents are fixed when it is made; copies of it are plain dicts."""

    __slots__ = ()

    def __new__(cls, items: Mapping[_K, _V]) -> Self:
        """Fill it, once."""
        self = super().__new__(cls)
        dict.update(self, items)
        return self

    def __init__(self, items: Mapping[_K, _V]) -> None:
        """Filled by `__new__`, so that a second call changes nothing."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    __setattr__ = __delattr__ = _refuse  # another `__class__` would have methods that change it
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _memo: object) -> dict[_K, _V]:
        return thaw(self)  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type[FrozenDict[_K, _V]], tuple[dict[_K, _V]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[_V]):
    """A list whose contents are fixed when it is made; copies of it are plain lists."""

    __slots__ = ()

    def __new__(cls, items: list[_V]) -> Self:
        """Fill it, once."""
        self = super().__new__(cls)
        list.extend(self, items)
        return self

    def __init__(self, items: list[_V]) -> None:
        """Filled by `__new__`, so that a second call changes nothing."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    __setattr__ = __delattr__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _memo: object) -> list[_V]:
        return thaw(self)  # type: ignore[no-any-return]

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[type, tuple[list[_V]]]:
        return FrozenList, (list(self),)


DEEPEST = 128
"""How deeply data may nest: hooks that walk it go as deep, several calls a level."""

_ATOMS = frozenset({str, int, float, bool, type(None), bytes, complex, FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """Return a deeply frozen copy of plain data; what is frozen already is returned as it is.

    Objects of other classes are passed on by reference: only data can be frozen.
    """
    if type(value) in _ATOMS:
        return value
    return _freeze(value, DEEPEST)


def may_be_deep(text: str) -> bool:
    """Return whether what is written as JSON may nest too deeply to be frozen."""
    return text.count("[") + text.count("{") >= DEEPEST


def _freeze(value: Any, levels: int) -> Any:
    if levels == 0:
        raise ValueError(f"the value contains itself, or nests deeper than {DEEPEST} levels")
    levels -= 1
    if isinstance(value, Mapping):
        return FrozenDict(
            {
                key: item if type(item) in _ATOMS else _freeze(item, levels)
                for key, item in value.items()
            }
        )
    if isinstance(value, (list, tuple)):
        items = [item if type(item) in _ATOMS else _freeze(item, levels) for item in value]
        return FrozenList(items) if isinstance(value, list) else _tuple_like(value, items)
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def thaw(value: Any) -> Any:
    """Return a plain, changeable deep copy of frozen data."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    if isinstance(value, tuple):
        return _tuple_like(value, map(thaw, value))
    return value


def _tuple_like(value: tuple[Any, ...], items: Iterable[Any]) -> Any:
    """Return a tuple of the same kind with other items; a named one keeps its names."""
    make = getattr(value, "_make", None)
    if make is not None:
        return make(items)
    return tuple(items) if type(value) is tuple else value
