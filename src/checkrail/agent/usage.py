"""Usage: the tokens of several model calls, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Meter = Callable[[str, Mapping[str, Any]], None]
"""Is told what each answer has used, by the model's name, when it is known; from any thread."""


def added(total: Mapping[str, Any], more: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add up two usages, number by number; what is no number is taken from the later one."""
    summed = dict(total)
    for name, value in (more or {}).items():
        known = summed.get(name)
        if isinstance(value, Mapping):
            summed[name] = added(known if isinstance(known, Mapping) else {}, value)
        elif _is_number(value) and _is_number(known):
            summed[name] = known + value
        elif value is not None:
            summed[name] = value
    return summed


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
