"""Usage: the tokens of several model calls, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PARTS = (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))


def total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Return the total of tokens; None: it is not reported."""
    usage = usage or {}
    if (total := _valid_number(usage.get("total_tokens"))) is not None:
        return int(total)
    for names in PARTS:
        counts = [_valid_number(usage.get(name)) for name in names]
        if None not in counts:
            return int(sum(count for count in counts if count is not None))
    return None


def total_cost(usage: Mapping[str, Any] | None) -> float | None:
    """Return the cost in USD; None: it is not reported."""
    return _valid_number((usage or {}).get("cost"))


def _valid_number(given: Any) -> float | None:
    """Return a number that can be added up."""
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    return given if 0 <= given < float("inf") else None


Meter = Callable[[str, Mapping[str, Any]], None]
"""Is told what each answer has used, by the model's name, when it is known; from any thread."""


def sum_usage(total: Mapping[str, Any], more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add up two usages, number by number; what is no number is taken from the later one."""
    summed = dict(total)
    for name, value in (more or {}).items():
        known = summed.get(name)
        if isinstance(value, Mapping):
            summed[name] = sum_usage(known if isinstance(known, Mapping) else {}, value)
        elif _is_number(value) and _is_number(known):
            summed[name] = known + value
        elif value is not None:
            summed[name] = value
    return summed


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
