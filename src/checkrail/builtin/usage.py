"""What an answer used, under the names that providers give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS = (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))


def total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Find the total of tokens; None: it is not said."""
    usage = usage or {}
    if (total := _count(usage.get("total_tokens"))) is not None:
        return int(total)
    for names in PARTS:
        counts = [_count(usage.get(name)) for name in names]
        if None not in counts:
            return int(sum(count for count in counts if count is not None))
    return None


def cost(usage: Mapping[str, Any] | None) -> float | None:
    """Find what it cost in USD; None: it is not said."""
    return _count((usage or {}).get("cost"))


def _count(given: Any) -> float | None:
    """Return a number that can be added up."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    return given if 0 <= given < float("inf") else None
