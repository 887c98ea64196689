"""What pydantic refuses, read from its errors: where it stands, and what would have been right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DataPath = tuple[str | int, ...]

_PREFIXES = ("Input should be ", "Value error, ", "Assertion failed, ")


def expected_text(problem: ErrorDetails) -> str:
    """Return what was expected, without the words that pydantic puts around it."""
    message = problem["msg"]
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message.partition(", unable to")[0]


def data_path(problem: ErrorDetails, data: Any) -> DataPath:
    """Return where a problem stands, without the names of union members: the data has none."""
    path: list[str | int] = []
    for part in problem["loc"]:
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, Sequence) and not isinstance(data, str) and isinstance(part, int):
            data = data[part] if part < len(data) else None
        elif not (problem["type"] == "missing" and part == problem["loc"][-1]):
            continue
        path.append(part)
    return tuple(path)


def shorten_repr(given: Any, most: int = 80) -> str:
    """Return the `repr` of a value, cut to a few words."""
    text = repr(given)
    return text if len(text) <= most else f"{text[:most]}..."
