"""All text in a value, whatever its shape: what rules and hooks search."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    TextValue,
    ToolCall,
    ToolResult,
    plain,
)

_SPOKEN = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Parts that are what is said, and where in them it stands."""

_PARTS = frozenset(
    {
        *_SPOKEN,
        *("thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text"),
        *("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "server_tool_call"),
        *("function", "function_call", "custom_tool_call", "mcp_call"),
        *("tool_result", "mcp_tool_result", "function_call_output", "server_tool_result"),
        *("image", "image_url", "input_image", "audio", "input_audio", "video", "file"),
        *("input_file", "document", "search_result", "resource", "resource_link", "text-plain"),
        *("message", "human", "ai", "system", "tool", "base64", "url", "citation"),
    },
)
"""The types of parts and messages that the model APIs, LangChain and MCP know."""

_ROLES = frozenset({"assistant", "developer", "function", "system", "tool", "user"})
_OPAQUE = frozenset({"cache_control", "encrypted_content", "signature"})
"""What nobody can read."""

_FIELDS = frozenset(
    {
        *("annotations", "arguments", "args", "audio", "base64", "blob", "citations", "cited_text"),
        *("call_id", "choice", "content", "context", "data", "file", "file_data", "filename"),
        *("format", "function", "function_call", "id", "image_url", "index", "input"),
        *("input_audio", "media_type", "mime_type", "mimeType", "name", "output", "reasoning"),
        *("reasoning_content", "refusal", "resource", "role", "source", "summary", "text"),
        *("thinking", "title", "tool_call_id", "tool_calls", "tool_use_id", "transcript", "type"),
        *("uri", "url"),
    },
)
"""Fields of parts and messages; any other name in one is text as well."""

_DATA = frozenset({"args", "arguments", "input", "output"})
"""Where the data of a tool begins."""

_MEDIA_TYPES = ("media_type", "mimeType", "mime_type", "format")
_BINARY = frozenset({"data", "base64", "blob", "file_data"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\-\r\n]*")


AddRest = Callable[[Mapping[Any, Any], list[str]], None]
"""Adds what a part has besides what it says."""


def text_of(value: Any) -> str:
    """Return all text in a value, each piece on a line of its own.

    What is said comes first, then what stands beside it (thoughts, tool calls, citations), then
    the keys of data. Text parts that follow each other are one text; a list of words is one line.
    Left out are signatures, and the base64 data of images, audio and files.
    """
    if isinstance(value, str):
        return value
    found = _Texts()
    found.add(value)
    return "\n".join(text for text in (*found.said, *found.beside, *found.keys) if text)


class _Texts:
    """The texts of one value, as they are found."""

    __slots__ = ("beside", "keys", "said")

    def __init__(self) -> None:
        self.said: list[str] = []
        self.beside: list[str] = []
        self.keys: list[str] = []

    def add(self, value: Any) -> None:
        """Add a value of a point, or any other data."""
        match value:
            case InboundMessage() | OutboundMessage():
                self._add_content(value.content, self.said)
                self._add_data(value.attachments, self.beside)
            case ModelRequest():
                self._add_content(value.messages, self.said)
                self._add_data([value.tools, value.params], self.beside)
            case AssistantMessage():
                self._add_content(value.content, self.said)
                self._add_data([_name_and_args(call) for call in value.tool_calls], self.beside)
                self._add_data([*value.metadata.values()], self.beside)
            case ToolCall():
                self._add_data(value.args, self.said)
            case ToolResult():
                self._add_content(value.content, self.said)
                self._add_data(value.error, self.beside)
            case AgentResponse():
                self._add_content(value.content, self.said)
                self._add_data([value.output, value.error], self.beside)
            case RunResult():
                self._add_data(value.output, self.said)
            case RunError():
                self._add_data(value.error, self.said)
            case _:
                self._add_content([value] if is_message(value) else value, self.said)

    def _add_content(self, content: Any, into: list[str]) -> None:
        if isinstance(content, (list, tuple)) and any(map(_is_part, content)):
            self._add_parts(content, into, "", self._add_part)
        else:
            self._add_data(content, into)

    def _add_parts(self, parts: Any, into: list[str], between: str, add_rest: AddRest) -> None:
        """Add what parts say, those that follow each other as one text, and the rest of each.

        `between` is what separates the texts that stand among them as they are.
        """
        spoken: list[str] = []
        for part in parts:
            text = _spoken(part)
            if text is not None:
                spoken.append(between + text if isinstance(part, str) and spoken else text)
            elif spoken:
                into.append("".join(spoken))
                spoken.clear()
            if _is_part(part):
                spoken_field = None if text is None else _SPOKEN[part["type"]]
                add_rest({key: part[key] for key in part if key != spoken_field}, into)
            elif not isinstance(part, str):
                self._add_data(part, into)
        into.append("".join(spoken))

    def _add_part(self, part: Mapping[Any, Any], into: list[str]) -> None:
        for key, item in part.items():
            if _is_silent(key, item):
                continue
            if key not in _FIELDS:
                self.keys.append(str(key))
                self._add_data(item, self.beside)
            elif key == "content":
                self._add_content(item, into)
            elif isinstance(item, str):
                self._add_field(part, key, item)
            elif key in _DATA:
                self._add_data(item, self.beside)
            elif isinstance(item, Mapping) and not _is_part(item):
                self._add_part(item, self.beside)
            else:
                self._add_content([item] if _is_part(item) else item, self.beside)

    def _add_field(self, part: Mapping[Any, Any], key: str, text: str) -> None:
        if key in ("arguments", "input"):
            self._add_data(_parsed(text), self.beside)
        elif not _is_binary(part, key, text):
            self.beside.append(text)

    def _add_data(self, data: Any, into: list[str]) -> None:
        written = _written(data)
        if written is not None:
            into.append(written)
        elif isinstance(data, Mapping):
            for key, item in data.items():
                self.keys.append(str(key))
                self._add_data(item, into)
                if key == "arguments" and isinstance(item, str):
                    self._add_data(_parsed(item), into)
        elif isinstance(data, (list, tuple, set, frozenset)):
            words = [_written(item) for item in data]
            if None not in words:
                into.append(" ".join(word for word in words if word))
            else:
                self._add_parts(data, into, " ", self._add_data)
        elif isinstance(data, TextValue):
            self.add(data)
        else:
            self._add_data(plain(data), into)


def is_message(data: Any) -> bool:
    """Return whether this is a message of a conversation, as data."""
    if not isinstance(data, Mapping) or not {"content", "parts", "tool_calls"} & data.keys():
        return False
    return isinstance(data.get("role"), str) or _is_known(data.get("type"), _PARTS)


def _is_part(part: Any) -> bool:
    is_typed = isinstance(part, Mapping) and _is_known(part.get("type"), _PARTS)
    return is_typed or is_message(part)


def _is_known(name: Any, names: frozenset[str]) -> bool:
    return isinstance(name, str) and name in names


def _is_silent(key: str, item: Any) -> bool:
    """Return whether a field only says what kind of part it is, or cannot be read."""
    if key == "type":
        return _is_known(item, _PARTS)
    return key in _OPAQUE or (key == "role" and _is_known(item, _ROLES))


def _name_and_args(call: Any) -> Any:
    return (call.name, call.args) if isinstance(call, ToolCall) else call


def _spoken(part: Any) -> str | None:
    """Return what a part says, if it is one that says something."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get(_SPOKEN[kind]) if isinstance(kind, str) and kind in _SPOKEN else None
    return text if isinstance(text, str) else None


def _is_binary(part: Mapping[Any, Any], key: str, text: str) -> bool:
    if text.startswith("data:") and ";base64," in text:
        text = text.partition(";base64,")[2]
    elif key not in _BINARY or not _is_encoded(part):
        return False
    return _BASE64.fullmatch(text) is not None


def _is_encoded(part: Mapping[Any, Any]) -> bool:
    media = (part.get(name) for name in _MEDIA_TYPES)
    return part.get("type") == "base64" or any(
        isinstance(name, str) and not name.startswith("text/") for name in media
    )


def _parsed(text: str) -> Any:
    """Return what the JSON of a tool's arguments says, or the text if it is none."""
    import json  # slow to import, and most programs never need it

    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return data if isinstance(data, (dict, list)) else text


def _written(data: Any) -> str | None:
    """Return the text of what is no container, or None."""
    if isinstance(data, str):
        return data
    if data is None:
        return ""
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int):
        return str(data) if data.bit_length() < _LONGEST_NUMBER else hex(data)
    if isinstance(data, float):
        return repr(data)
    if isinstance(data, (bytes, bytearray)):
        return data.decode(errors="backslashreplace")
    return None


_LONGEST_NUMBER = 10_000
"""Bits; Python refuses to write numbers that are much longer in decimal digits."""
