"""JSON as it passes: read and written quickly, and still where it is odd.

An object that has a name twice is not read: one parser takes the first of the two and another the
last, so that hooks might see what nobody else does.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from checkrail.llm.wire_format import UnreadableError


def read_json(data: bytes | str, what: str) -> Any:
    """Read JSON that came over a wire; `what` names it. Raises `UnreadableError`."""
    given = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    try:
        found = orjson.loads(given)
        again = orjson.dumps(found)
        if again == given or _strip_whitespace(again) == _strip_whitespace(
            given
        ):  # no name stands there twice
            return found
    except (ValueError, TypeError):
        pass
    return _read_lenient(given, what)


def read_object(data: bytes | str, what: str) -> dict[str, Any]:
    """Read a JSON object that came over a wire. Raises `UnreadableError`."""
    found = read_json(data, what)
    if not isinstance(found, dict):
        raise UnreadableError(f"{what} is no JSON object")
    return found


def is_json(data: bytes) -> bool:
    """Return whether this is JSON, however it may be read."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def has_duplicate_names(text: str) -> bool:
    """Return whether this is JSON of which an object has a name twice."""
    try:
        json.loads(text, object_pairs_hook=_unique_object)
    except _DuplicateNameError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def write_json(value: Any) -> bytes:
    """Write JSON in as few bytes as it takes."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):  # half a letter, or a number beyond 64 bits
        return json.dumps(value, separators=(",", ":")).encode()


def to_json_text(value: Any) -> str:
    """Write JSON as a text within JSON: the arguments of a tool call."""
    return write_json(value).decode()


def _read_lenient(data: bytes | str, what: str) -> Any:
    """Read what Python and most clients take for JSON: lone surrogates, numbers such as NaN."""
    try:
        return json.loads(data, object_pairs_hook=_unique_object)
    except _DuplicateNameError:
        raise UnreadableError(f"{what} has an object that has a name twice") from None
    except (ValueError, RecursionError):
        raise UnreadableError(f"{what} is no JSON") from None


def _strip_whitespace(data: bytes) -> bytes:
    """Return JSON without its white space, that of texts too."""
    return data.translate(None, b" \t\r\n")


class _DuplicateNameError(ValueError):
    """An object has a name twice."""


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateNameError
    return found
