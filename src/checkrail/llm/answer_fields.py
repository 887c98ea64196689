"""What is read from an answer: it came over a wire, and may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.llm.answer_errors import InvalidAnswer


def text_in(value: Any, what: str) -> str:
    """Return a text, which may be absent."""
    if value is None or isinstance(value, str):
        return value or ""
    raise InvalidAnswer(f"{what} should be a text")


def object_in(value: Any, what: str) -> Mapping[str, Any]:
    """Return an object, which may be absent."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise InvalidAnswer(f"{what} should be an object")


def list_in(value: Any, what: str) -> list[Any]:
    """Return a list, which may be absent."""
    if value is None or isinstance(value, list):
        return value or []
    raise InvalidAnswer(f"{what} should be a list")


def count_in(value: Any) -> int:
    """Return a count; without one, nothing was counted."""
    return value if isinstance(value, int) else 0


def counts_in(value: Any) -> dict[str, int]:
    """Return the values of an object that are counts."""
    if not isinstance(value, Mapping):
        return {}
    return {name: found for name, found in value.items() if isinstance(found, int)}
