"""A mapping that keeps what was used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class RecentEntries(Generic[V]):
    """The entries that were used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, known: Any = None) -> V | Any:
        """Return an entry, and count that as a use of it."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:
            return known

    def put(self, key: Hashable, value: V) -> list[V]:
        """Add an entry, and return those that were evicted for it."""
        gone = [self._entries.pop(key)] if key in self._entries else []
        self._entries[key] = value
        if len(self._entries) > self._size:
            gone.append(self.pop_oldest())
        return gone

    def pop_oldest(self) -> V:
        """Remove and return the entry that was not used for the longest time."""
        return self._entries.popitem(last=False)[1]

    def drop(self, key: Hashable) -> None:
        """Remove an entry, if it is there."""
        self._entries.pop(key, None)
