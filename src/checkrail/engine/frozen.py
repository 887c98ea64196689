"""Containers that cannot be changed, and are still dicts and lists to everybody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Self, SupportsIndex, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class FrozenError(TypeError):
    """Somebody tried to change a value that was handed out frozen."""


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
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _memo: object) -> list[_V]:
        return thaw(self)  # type: ignore[no-any-return]

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[type, tuple[list[_V]]]:
        return FrozenList, (list(self),)


_ATOMS = frozenset({str, int, float, bool, type(None), bytes, complex, FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """Give a deeply frozen copy of plain data; what is frozen already is returned as it is.

    Objects of other classes are passed on by reference: only data can be frozen.
    """
    if type(value) in _ATOMS:
        return value
    try:
        return _freeze(value)
    except RecursionError:
        message = "the value contains itself, or nests too deeply to be frozen"
        raise ValueError(message) from None


def _freeze(value: Any) -> Any:
    if type(value) in _ATOMS:
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: _freeze(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenList([_freeze(item) for item in value])
    if type(value) is tuple:
        return tuple(_freeze(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def thaw(value: Any) -> Any:
    """Give a plain, changeable deep copy of frozen data."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    if type(value) is tuple:
        return tuple(thaw(item) for item in value)
    return value
