"""What was said of tool results: clients send them again with every request of a conversation."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from checkrail.engine.chain import Chain
from checkrail.engine.event import Context
from checkrail.engine.values import ToolCall, ToolResult, plain
from checkrail.recent import RecentEntries

KEPT = 20_000
"""How many results are remembered."""

WEIGHT = 64 * 1024 * 1024
"""How much of what hooks made of results is kept, in characters."""

PASSING = frozenset({"request_id", "tool_call_id", "attempt", "iteration"})
"""Ids that differ each time the same conversation is sent."""

Hooks = tuple[Chain | None, ...]
"""The chains that spoke: when hooks are loaded anew they are other ones, and are asked again."""


@dataclass(frozen=True, slots=True)
class ToolResultVerdict:
    """What hooks made of a result: its replacement, if any, and the messages that follow it."""

    result: ToolResult | None = None
    inject: Sequence[Mapping[str, Any]] = ()

    @property
    def memory_size(self) -> int:
        """The approximate number of bytes it takes."""
        return len(_canonical_json([self.result and plain(self.result), self.inject]))


class ToolMemory:
    """Remembers verdicts on tool results, and which of them observers have seen, up to a limit.

    And the names of called tools, for APIs whose callers send the results alone.
    """

    def __init__(self, kept: int = KEPT, weight: int = WEIGHT) -> None:
        self._verdicts: RecentEntries[tuple[Hooks, ToolResultVerdict, int]] = RecentEntries(kept)
        self._observed: RecentEntries[None] = RecentEntries(kept)
        self._names: RecentEntries[str] = RecentEntries(kept)
        self._weight = weight
        self._weighs = 0

    def find_verdict(self, key: bytes, hooks: Hooks) -> ToolResultVerdict | None:
        """Return the verdict of these hooks on a result, if it is known."""
        found = self._verdicts.get(key)
        if found is None or not _same_hooks(found[0], hooks):
            return None
        return found[1]

    def store_verdict(self, key: bytes, hooks: Hooks, settled: ToolResultVerdict) -> None:
        """Remember the verdict of these hooks on a result."""
        weight = 0 if settled == ToolResultVerdict() else settled.memory_size
        if weight > self._weight:
            return
        for _, _, gone in self._verdicts.put(key, (hooks, settled, weight)):
            self._weighs -= gone
        self._weighs += weight
        while self._weighs > self._weight:
            self._weighs -= self._verdicts.pop_oldest()[2]

    def mark_seen(self, key: bytes) -> bool:
        """Return whether observers have not seen a result yet, and mark it as seen."""
        known = self._observed.get(key, known=False)
        self._observed.put(key, None)
        return known is False

    def mark_unseen(self, key: bytes) -> None:
        """Note that observers have not seen a result after all."""
        self._observed.drop(key)

    def store_tool_names(self, context: Context, calls: Sequence[ToolCall]) -> None:
        """Remember which tools somebody's model called."""
        for call in calls:
            self._names.put(_call_key(context, call.id), call.name)

    def find_tool_name(self, context: Context, id: str) -> str:
        """Return the name of the tool that was called under an id, if it is known."""
        return str(self._names.get(_call_key(context, id), known=""))


def result_key(context: Context, result: ToolResult, call: Any) -> bytes:
    """Return the key of a result: what it is, of which call, and for whom."""
    whose = [plain(getattr(context, name)) for name in Context.__slots__ if name not in PASSING]
    what = [result.id, result.name, result.content, result.is_error, call]
    return blake2b(
        _canonical_json([whose, what]).encode(errors="surrogatepass"), digest_size=20
    ).digest()


def _call_key(context: Context, id: str) -> Hashable:
    user = context.user and context.user.identity
    return user, context.metadata.get("api_key"), context.session_id, id


def _canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _same_hooks(known: Hooks, hooks: Hooks) -> bool:
    return len(known) == len(hooks) and all(a is b for a, b in zip(known, hooks, strict=True))
