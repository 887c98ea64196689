"""What was said of tool results: clients send them again with every request of a conversation."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from checkrail.engine.event import Context
from checkrail.engine.plan import Chain
from checkrail.engine.values import ToolCall, ToolResult, plain

V = TypeVar("V")

KEPT = 20_000
"""How many results are remembered."""

WEIGHT = 64 * 1024 * 1024
"""How much of what hooks made of results is kept, in characters."""

PASSING = frozenset({"request_id", "tool_call_id", "attempt", "iteration"})
"""Ids that differ each time the same conversation is sent."""

Hooks = tuple[Chain | None, ...]
"""The chains that spoke: when hooks are loaded anew they are other ones, and are asked again."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What hooks made of a result: what stands in its place, if anything, and what follows it."""

    result: ToolResult | None = None
    inject: Sequence[Mapping[str, Any]] = ()

    @property
    def weight(self) -> int:
        """About how much memory it takes."""
        return len(_text([self.result and plain(self.result), self.inject]))


class Memory:
    """Remembers verdicts on tool results, and which of them observers have seen; not for ever.

    And the names of called tools, for APIs whose callers send the results alone.
    """

    def __init__(self, kept: int = KEPT, weight: int = WEIGHT) -> None:
        self._verdicts: _Recent[tuple[Hooks, Settled, int]] = _Recent(kept)
        self._observed: _Recent[None] = _Recent(kept)
        self._names: _Recent[str] = _Recent(kept)
        self._weight = weight
        self._weighs = 0

    def recall(self, key: bytes, hooks: Hooks) -> Settled | None:
        """Return what these hooks said of a result, if it is known."""
        found = self._verdicts.get(key)
        if found is None or not _same(found[0], hooks):
            return None
        return found[1]

    def keep(self, key: bytes, hooks: Hooks, settled: Settled) -> None:
        """Remember what these hooks said of a result."""
        weight = 0 if settled == Settled() else settled.weight
        if weight > self._weight:
            return
        for _, _, gone in self._verdicts.put(key, (hooks, settled, weight)):
            self._weighs -= gone
        self._weighs += weight
        while self._weighs > self._weight:
            self._weighs -= self._verdicts.oldest()[2]

    def first(self, key: bytes) -> bool:
        """Return whether observers have not seen a result yet; from now on they have."""
        known = self._observed.get(key, known=False)
        self._observed.put(key, None)
        return known is False

    def unseen(self, key: bytes) -> None:
        """Note that observers have not seen a result after all."""
        self._observed.drop(key)

    def learn(self, context: Context, calls: Sequence[ToolCall]) -> None:
        """Remember which tools somebody's model called."""
        for call in calls:
            self._names.put(_called(context, call.id), call.name)

    def name(self, context: Context, id: str) -> str:
        """Return the name of the tool that was called under an id, if it is known."""
        return str(self._names.get(_called(context, id), known=""))


class _Recent(Generic[V]):
    """The entries that were used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable, known: Any = None) -> V | Any:
        if key not in self._entries:
            return known
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: Hashable, value: V) -> list[V]:
        """Take an entry, and give those that had to go for it."""
        gone = [self._entries.pop(key)] if key in self._entries else []
        self._entries[key] = value
        if len(self._entries) > self._size:
            gone.append(self.oldest())
        return gone

    def oldest(self) -> V:
        """Take away the entry that was not used for the longest time."""
        return self._entries.popitem(last=False)[1]

    def drop(self, key: Hashable) -> None:
        self._entries.pop(key, None)


def key_of(context: Context, result: ToolResult, call: Any) -> bytes:
    """Name a result: what it is, of which call, and for whom."""
    whose = [plain(getattr(context, name)) for name in Context.__slots__ if name not in PASSING]
    what = [result.id, result.name, result.content, result.is_error, call]
    return blake2b(_text([whose, what]).encode(errors="surrogatepass"), digest_size=20).digest()


def _called(context: Context, id: str) -> Hashable:
    user = context.user and context.user.identity
    return user, context.metadata.get("api_key"), context.session_id, id


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _same(known: Hooks, hooks: Hooks) -> bool:
    return len(known) == len(hooks) and all(a is b for a, b in zip(known, hooks, strict=True))
