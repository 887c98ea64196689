"""Arguments of tool calls: a text that a model wrote, which may or may not be a JSON object."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any

from checkrail.engine.frozen import freeze, may_be_deep
from checkrail.engine.text import UNPARSED
from checkrail.engine.values import ToolCall


def read_calls(written: Iterable[tuple[str, str, Any]]) -> tuple[list[ToolCall], dict[str, Any]]:
    """Read tool calls given as id, name and arguments: the calls, and metadata for what is no JSON.

    Some endpoints give no ids, or the same one twice: such a call is given one of its own.
    """
    calls: dict[str, ToolCall] = {}
    unparsed: dict[str, str] = {}
    for given, name, arguments in written:
        own = given if given and given not in calls else f"call_{secrets.token_hex(12)}"
        calls[own], text = _parse_call(own, name, arguments)
        if text is not None:
            unparsed[own] = text
    return [*calls.values()], {UNPARSED: unparsed} if unparsed else {}


def json_object(arguments: Any) -> dict[str, Any]:
    """Parse arguments as a JSON object, or raise ValueError; an empty text is an empty object."""
    found = arguments
    if isinstance(arguments, str):
        try:
            found = json.loads(arguments) if arguments.strip() else {}
        except RecursionError:
            raise ValueError("arguments nest too deeply") from None
        if may_be_deep(arguments):
            freeze(found)  # which refuses what is too deep for hooks
    if not isinstance(found, dict):
        raise ValueError(f"arguments are a JSON object, not {type(found).__name__}")  # noqa: TRY004 - the value is wrong
    return found


def _parse_call(id: str, name: str, arguments: Any) -> tuple[ToolCall, str | None]:
    try:
        return ToolCall(id, name, json_object(arguments)), None
    except ValueError:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return ToolCall(id, name), text
