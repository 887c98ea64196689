"""Requests of the chat API: hooks see them as they are, but for what was called a function once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.gateway.formats.base import Body
from checkrail.gateway.formats.chat_calls import LEGACY, shown_call
from checkrail.gateway.formats.chat_messages import (
    calls_in,
    function_call_in,
    legacy_prefix,
    written_messages,
)
from checkrail.gateway.formats.top_level import objects_in, opened, params_of, with_params

APART = frozenset({"messages", "tools", "functions"})

Message = Mapping[str, Any]


def read_request(body: Body) -> ModelRequest:
    """Read a request. Raises `UnreadableError`."""
    raw = opened(body)
    messages = objects_in(raw, "messages")
    functions = [_tool(function) for function in objects_in(raw, "functions")]
    return ModelRequest(
        model=raw.get("model"),
        messages=_shown(messages),
        tools=objects_in(raw, "tools") + functions if functions else objects_in(raw, "tools"),
        params=params_of(raw, APART),
        stream=bool(raw.get("stream")),
        raw=raw,
    )


def write_request(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
    """Write what hooks changed in a request."""
    written = with_params(body, before, after)
    if after.messages != before.messages:
        written["messages"] = written_messages(body, after.messages)
    if after.tools != before.tools:
        _write_tools(written, after)
    return written


def _shown(messages: list[Any]) -> list[Any]:
    """Show messages to hooks; most of them are as they see them already."""
    if not any(_differs(message) for message in messages):
        return messages
    shown: list[Any] = []
    prefix, called = legacy_prefix(messages), ""
    for place, message in enumerate(messages):
        if message.get("role") == "function":
            shown.append({**message, "role": "tool", "tool_call_id": called or prefix})
            continue
        calls = [shown_call(call) for call in calls_in(message)]
        kept = dict(message)
        if legacy := function_call_in(message):
            called = f"{prefix}{place}"
            calls.append({"id": called, "type": "function", "function": legacy})
            del kept[LEGACY]
        shown.append(kept | {"tool_calls": calls} if calls else message)
    return shown


def _differs(message: Message) -> bool:
    return (
        message.get("role") == "function"
        or bool(function_call_in(message))
        or any(call.get("type") == "custom" for call in calls_in(message))
    )


def _tool(function: Any) -> dict[str, Any]:
    return {"type": "function", "function": function}


def _write_tools(written: Body, after: ModelRequest) -> None:
    """Write tools to where they stood; the API takes functions of the old kind alone."""
    tools, functions = written.pop("tools", None), written.pop("functions", None)
    old = {function.get("name") for function in functions or ()}
    left: list[Any] = []
    kept: list[Any] = []
    for tool in after.tools:
        function = tool.get("function")
        named = function.get("name") if isinstance(function, Mapping) else None
        is_old = functions and isinstance(function, Mapping) and (named in old or not tools)
        (kept if is_old else left).append(thaw(function if is_old else tool))
    if left or tools == []:
        written["tools"] = left
    if kept:
        written["functions"] = kept
