"""What people fill in, read and described: JSON, schemas, messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from checkrail.dashboard import shown
from checkrail.dashboard.api import ApiError


def parse_json(text: str, what: str) -> Any:
    """Return what a field holds, or raise an error that says where it breaks."""
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise ApiError(
            422, {"error": "invalid", "message": f"{what} is no JSON: {error}"}
        ) from None


def describe_message(message: Any) -> dict[str, Any]:
    """Return a message of a conversation as it is shown; all of it is text."""
    if not isinstance(message, Mapping):
        return {"role": "", "text": shown.text_of(message), "calls": []}
    role = str(message.get("role") or message.get("type") or "")
    role = {"human": "user", "ai": "assistant"}.get(role, role)
    calls = message.get("tool_calls")
    return {
        "role": role,
        "text": _message_text(message.get("content")),
        "calls": [_describe_call(call) for call in calls] if isinstance(calls, list) else [],
        "name": message.get("name") or message.get("tool_call_id") or "",
    }


def _message_text(content: Any) -> str:
    if isinstance(content, list):
        parts = [
            part["text"]
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
        return "\n".join(shown.text_of(part) for part in parts)
    return "" if content is None else shown.text_of(content)


def _describe_call(call: Any) -> dict[str, str]:
    if not isinstance(call, Mapping):
        return {"name": "", "args": shown.text_of(call)}
    function = call.get("function")
    if isinstance(function, Mapping):
        return {"name": str(function.get("name")), "args": shown.text_of(function.get("arguments"))}
    return {"name": str(call.get("name")), "args": shown.text_of(call.get("args"), None)}
