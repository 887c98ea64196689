"""JSON as it passes: read and written quickly, and still where it is odd."""

from __future__ import annotations

import json
from typing import Any

import orjson

from checkrail.gateway.formats.base import UnreadableError


def read_json(data: bytes | str, what: str) -> Any:
    """Read JSON that came over a wire; `what` names it. Raises `UnreadableError`."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _read_odd(data, what)


def read_object(data: bytes | str, what: str) -> dict[str, Any]:
    """Read a JSON object that came over a wire. Raises `UnreadableError`."""
    found = read_json(data, what)
    if not isinstance(found, dict):
        raise UnreadableError(f"{what} is no JSON object")
    return found


def write_json(value: Any) -> bytes:
    """Write JSON in as few bytes as it takes."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):  # half a letter, or a number beyond 64 bits
        return json.dumps(value, separators=(",", ":")).encode()


def write_text(value: Any) -> str:
    """Write JSON as a text within JSON: the arguments of a tool call."""
    return write_json(value).decode()


def _read_odd(data: bytes | str, what: str) -> Any:
    """Read what is JSON to Python, and so to most clients: half letters, numbers such as NaN."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UnreadableError(f"{what} is no JSON") from None
