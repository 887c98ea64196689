"""Requests of the chat API: hooks see them as they are, but for what was called a function once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.llm.chat.tool_calls import LEGACY, show_call, write_call
from checkrail.llm.request_fields import (
    find_objects,
    freeze_request,
    read_params,
    write_params,
)
from checkrail.llm.wire_format import Body, UnreadableError

Message = Mapping[str, Any]


def require_calls(message: Message) -> list[Any]:
    """Return the calls of a message. Raises `UnreadableError`."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnreadableError("`tool_calls` of a message should be a list of objects")
    return calls


def require_function_call(message: Message) -> Any:
    """Return the legacy function call of a message. Raises `UnreadableError`."""
    found = message.get(LEGACY)
    if not isinstance(found, dict | None):
        raise UnreadableError(f"`{LEGACY}` of a message should be an object")
    return found


def legacy_prefix(messages: Iterable[Message]) -> str:
    """Return a prefix for the ids of calls without one, which no other id has."""
    taken = [str(call.get("id")) for message in messages for call in require_calls(message)]
    prefix = f"{LEGACY}_"
    while any(other.startswith(prefix) for other in taken):
        prefix += "_"
    return prefix


def write_messages(
    body: Body, messages: Sequence[Message], only: Sequence[Message] | None = None
) -> list[Body]:
    """Write messages, or `only` some of them, for the API that this body came for."""
    came = find_objects(body, "messages")
    writer = _MessageWriter(
        legacy=legacy_prefix(came),
        custom=_custom_tool_names(find_objects(body, "tools")),
        names={
            str(call.get("id")): _tool_name(call, "function")
            for message in messages
            for call in message.get("tool_calls") or ()
        },
        marks_errors=any("is_error" in message for message in came),
    )
    return [writer.write_message(message) for message in (messages if only is None else only)]


class _MessageWriter:
    """Knows how calls and results are written in one conversation."""

    def __init__(
        self, *, legacy: str, custom: set[str], names: Mapping[str, str], marks_errors: bool
    ) -> None:
        self._legacy = legacy
        self._custom = custom
        self._names = names
        self._marks_errors = marks_errors

    def write_message(self, message: Message) -> Body:
        written: Body = thaw(dict(message))
        if message.get("role") == "tool":
            return self._write_result(written)
        if message.get("role") == "assistant" and isinstance(written.get("content"), list):
            written["content"] = _first_choice_parts(written["content"])
        calls = written.get("tool_calls")
        if isinstance(calls, list):
            self._write_calls(written, calls)
        return written

    def _write_result(self, written: Body) -> Body:
        if not self._marks_errors:  # the API has no such field, and refuses what it does not know
            written.pop("is_error", None)
        called = str(written.get("tool_call_id"))
        if not self._is_legacy(called):
            return written
        del written["tool_call_id"]
        named = {"name": self._names[called]} if called in self._names else {}
        return named | written | {"role": "function"}

    def _write_calls(self, written: Body, calls: list[Any]) -> None:
        legacy = [call for call in calls if self._is_legacy(str(call.get("id")))]
        others = [write_call(self._add_call_type(call)) for call in calls if call not in legacy]
        if legacy:
            written[LEGACY] = legacy[0]["function"]
        if others or not legacy:
            written["tool_calls"] = others
        else:
            del written["tool_calls"]

    def _add_call_type(self, call: Message) -> Message:
        """Return a call that was added as one of a custom tool, if its tool is one."""
        return {**call, "type": "custom"} if _tool_name(call, "function") in self._custom else call

    def _is_legacy(self, id: str) -> bool:
        return id == LEGACY or id.startswith(self._legacy)


def _custom_tool_names(tools: list[Any]) -> set[str]:
    """Return the names of custom tools that no function has."""
    custom, functions = (
        {_tool_name(tool, form) for tool in tools} for form in ("custom", "function")
    )
    return custom - functions - {""}


def _tool_name(given: Message, form: str) -> str:
    """Return the name of a tool or of the tool that a call calls."""
    inner = given.get(form)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def _first_choice_parts(parts: list[Any]) -> list[Any]:
    """Return the parts of the first choice, of an answer that had several."""
    return [
        {key: part[key] for key in part if key != "choice"} if isinstance(part, dict) else part
        for part in parts
        if not isinstance(part, dict) or part.get("choice") in (None, 0)
    ]


APART = frozenset({"messages", "tools", "functions"})


def read_request(body: Body) -> ModelRequest:
    """Read a request. Raises `UnreadableError`."""
    raw = freeze_request(body)
    messages = find_objects(raw, "messages")
    functions = [_wrap_function(function) for function in find_objects(raw, "functions")]
    return ModelRequest(
        model=raw.get("model"),
        messages=_show_messages(messages),
        tools=find_objects(raw, "tools") + functions if functions else find_objects(raw, "tools"),
        params=read_params(raw, APART),
        stream=bool(raw.get("stream")),
        raw=raw,
    )


def write_request(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
    """Write what hooks changed in a request."""
    written = write_params(body, before, after)
    if after.messages != before.messages:
        written["messages"] = _write_changed(body, before.messages, after.messages)
    if after.tools != before.tools:
        _write_tools(written, after)
    return written


def _write_changed(body: Body, before: Sequence[Message], after: Sequence[Message]) -> list[Body]:
    """Write messages; where none was added or left out, those left alone stay as they came."""
    came = find_objects(body, "messages")
    if not len(came) == len(before) == len(after):
        return write_messages(body, after)
    same = [new is old for new, old in zip(after, before, strict=True)]
    changed = [message for message, is_same in zip(after, same, strict=True) if not is_same]
    written = iter(write_messages(body, after, changed))
    return [old if is_same else next(written) for old, is_same in zip(came, same, strict=True)]


def _show_messages(messages: list[Any]) -> list[Any]:
    """Return messages as hooks see them; most of them are unchanged."""
    if not any(_needs_conversion(message) for message in messages):
        return messages
    shown: list[Any] = []
    prefix, called = legacy_prefix(messages), ""
    for place, message in enumerate(messages):
        if message.get("role") == "function":
            shown.append({**message, "role": "tool", "tool_call_id": called or prefix})
            continue
        calls = [show_call(call) for call in require_calls(message)]
        kept = dict(message)
        if legacy := require_function_call(message):
            called = f"{prefix}{place}"
            calls.append({"id": called, "type": "function", "function": legacy})
            del kept[LEGACY]
        shown.append(kept | {"tool_calls": calls} if calls else message)
    return shown


def _needs_conversion(message: Message) -> bool:
    return (
        message.get("role") == "function"
        or bool(require_function_call(message))
        or any(call.get("type") == "custom" for call in require_calls(message))
    )


def _wrap_function(function: Any) -> dict[str, Any]:
    return {"type": "function", "function": function}


def _write_tools(written: Body, after: ModelRequest) -> None:
    """Write tools to where they stood; the API takes legacy functions only as such."""
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
