"""All text in a value, whatever its shape: what rules and hooks search."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, pairwise
from typing import Any

from checkrail.engine.frozen import freeze, may_be_deep
from checkrail.engine.values import (
    LONGEST_NUMBER,
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

_THOUGHTS = {
    "thinking": "thinking",
    "reasoning": "reasoning",
    "reasoning_text": "text",
    "summary_text": "text",
}
"""Parts that are what is thought, and where in them it stands."""

_ROLES = frozenset({"assistant", "developer", "function", "system", "tool", "user"})
_OPAQUE = frozenset({"encrypted_content", "signature"})
"""What nobody can read, as long as it is base64."""

_FIELDS = frozenset(
    {
        *("annotations", "arguments", "args", "audio", "base64", "blob", "citations", "cited_text"),
        *("cache_control", "call_id", "choice", "content", "context", "data", "file", "file_data"),
        *("filename", "format", "function", "function_call", "id", "image_url", "index", "input"),
        *("input_audio", "media_type", "mime_type", "mimeType", "name", "output", "reasoning"),
        *("reasoning_content", "refusal", "resource", "role", "source", "summary", "text"),
        *("thinking", "title", "tool_call_id", "tool_calls", "tool_use_id", "transcript", "type"),
        *("uri", "url"),
    },
)
"""Fields of parts and messages; any other name in one is text as well."""

_DATA = frozenset({"args", "arguments", "input", "output"})
"""Where the data of a tool begins."""

UNPARSED = "unparsed_arguments"
"""Where the metadata of an answer has arguments that are no JSON object, by the ids of calls."""

_MEDIA_TYPES = ("media_type", "mimeType", "mime_type", "format")
_BINARY = frozenset({"data", "base64", "blob", "file_data"})
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\-\r\n]*")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(;[\w.+-]+=[\w.+-]*)*;base64,", re.ASCII)
_STANDARD = str.maketrans("-_", "+/")


AddRest = Callable[[Mapping[Any, Any], list[str]], None]
"""Adds what a part has besides what it says."""


def text_of(value: Any) -> str:
    """Return all text in a value, each piece on a line of its own.

    What is said comes first, then what stands beside it (thoughts, tool calls, citations), then
    the keys of data, then other readings: parts may be read as one text or as several. Left out
    are signatures, and the base64 data of images, audio and files that is no text.
    """
    if isinstance(value, str):
        return value
    found = _Texts()
    found.add(value)
    pieces = (*found.said, *found.beside, *found.keys, *found.readings)
    return "\n".join(text for text in pieces if text)


class _Texts:
    """The texts of one value, as they are found."""

    __slots__ = ("beside", "keys", "readings", "said")

    def __init__(self) -> None:
        self.said: list[str] = []
        self.beside: list[str] = []
        self.keys: list[str] = []
        self.readings: list[str] = []

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
                self._add_part(value.metadata, self.beside)
                self._add_unparsed(value.metadata.get(UNPARSED))
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
            case _ if _is_words(value) or (isinstance(value, Mapping) and not is_message(value)):
                self._add_data(value, self.said)  # outside of a message, words are a command line
            case _:
                self._add_content(value, self.said)

    def _add_unparsed(self, arguments: Any) -> None:
        """Add what arguments say that are no JSON object, but may be other JSON."""
        for text in arguments.values() if isinstance(arguments, Mapping) else ():
            if isinstance(text, str) and (parsed := _parsed(text)) is not text:
                self._add_data(parsed, self.beside)

    def _add_content(self, content: Any, into: list[str]) -> None:
        content = [content] if _is_part(content) else content
        is_list = isinstance(content, (list, tuple))
        if is_list and (_is_words(content) or any(map(_is_part, content))):
            self._add_parts(content, into, self._add_part)
        else:
            self._add_data(content, into)

    def _add_parts(self, parts: Any, into: list[str], add_rest: AddRest) -> None:
        """Add what parts say, those that follow each other as one text, and the rest of each."""
        start = len(into)
        spoken: list[str] = []
        was_word = False
        for part in parts:
            word = _written(part)
            text = _spoken(part) if word is None else word
            if text:
                spoken.append(f" {text}" if was_word and word else text)
                was_word = word is not None
            elif text is None:
                into.append("".join(spoken))
                spoken.clear()
                was_word = False
            if _is_part(part):
                spoken_field = None if text is None else _SPOKEN[part["type"]]
                add_rest({key: part[key] for key in part if key != spoken_field}, into)
            elif word is None:
                self._add_data(part, into)
        into.append("".join(spoken))
        self._add_readings([text for part in parts if (text := _text_in(part))], into[start:])
        self._add_readings([text for part in parts if (text := _field_of(part, _THOUGHTS))])

    def _add_readings(self, texts: list[str], known: Sequence[str] = ()) -> None:
        """Add texts as one and as several, whatever stands between them."""
        if len(texts) > 1:
            readings = dict.fromkeys(("".join(texts), _spaced(texts)))
            self.readings += (reading for reading in readings if reading not in known)

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
                self._add_content(item, self.beside)

    def _add_field(self, part: Mapping[Any, Any], key: str, text: str) -> None:
        if key in ("arguments", "input"):
            self._add_data(_parsed(text), self.beside)
            return
        encoded = _encoded(part, key, text)
        if encoded is None or _is_text_media(part):
            self.beside.append(text)
        if encoded is not None:
            self.beside.append(_decoded(encoded))

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
                elif isinstance(item, str) and (encoded := _encoded(data, key, item)):
                    into.append(_decoded(encoded))
        elif isinstance(data, (list, tuple, set, frozenset)):
            self._add_list(data, into)
        elif isinstance(data, TextValue):
            self.add(data)
        else:
            self._add_data(plain(data), into)

    def _add_list(self, data: Collection[Any], into: list[str]) -> None:
        words = [_written(item) for item in data]
        if None not in words:
            into.append(" ".join(word for word in words if word))
        elif any(_is_part(item) or (isinstance(item, Mapping) and _text_in(item)) for item in data):
            self._add_parts(data, into, self._add_data)
        else:
            for is_word, items in groupby(data, lambda item: _written(item) is not None):
                for piece in [[*items]] if is_word else items:
                    self._add_data(piece, into)


def is_message(data: Any) -> bool:
    """Return whether this is a message of a conversation, as data."""
    if not isinstance(data, Mapping) or not {"content", "parts", "tool_calls"} & data.keys():
        return False
    return isinstance(data.get("role"), str) or _is_known(data.get("type"), _PARTS)


def _is_part(part: Any) -> bool:
    is_typed = isinstance(part, Mapping) and _is_known(part.get("type"), _PARTS)
    return is_typed or is_message(part)


def _is_words(content: Any) -> bool:
    return isinstance(content, (list, tuple)) and all(
        word is None or isinstance(word, str) for word in content
    )


def _is_known(name: Any, names: frozenset[str]) -> bool:
    return isinstance(name, str) and name in names


def _is_silent(key: str, item: Any) -> bool:
    """Return whether a field only says what kind of part it is, or cannot be read."""
    if key == "type":
        return _is_known(item, _PARTS)
    if key in _OPAQUE:
        return isinstance(item, str) and _BASE64.fullmatch(item) is not None
    return key == "role" and _is_known(item, _ROLES)


def _name_and_args(call: Any) -> Any:
    return (call.name, call.args) if isinstance(call, ToolCall) else call


def _spoken(part: Any) -> str | None:
    """Return what a part says, if it is one that says something."""
    return _field_of(part, _SPOKEN)


def _field_of(part: Any, fields: Mapping[str, str]) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get(fields[kind]) if isinstance(kind, str) and kind in fields else None
    return text if isinstance(text, str) else None


def _text_in(part: Any) -> str | None:
    """Return what a text or a part says, also one without a type, or of one that nobody knows."""
    if isinstance(part, Mapping) and not _is_known(part.get("type"), _PARTS):
        text = part.get("text")
        return text if isinstance(text, str) else None
    return _spoken(part) if isinstance(part, Mapping) else _written(part)


def _spaced(texts: list[str]) -> str:
    """Return texts as one, with a space where none is between them."""
    pieces = [texts[0]]
    for before, text in pairwise(texts):
        is_apart = before[-1].isspace() or text[0].isspace()
        pieces.append(text if is_apart else f" {text}")
    return "".join(pieces)


def _encoded(part: Mapping[Any, Any], key: str, text: str) -> str | None:
    """Return what is base64 in a field of a part, or None."""
    if address := _DATA_URL.match(text):
        text = text[address.end() :]
    elif key not in _BINARY or not _is_media(part):
        return None
    return text if _BASE64.fullmatch(text) else None


def _is_media(part: Mapping[Any, Any]) -> bool:
    is_base64 = part.get("type") in ("base64", "redacted_thinking")
    return is_base64 or any(isinstance(part.get(name), str) for name in _MEDIA_TYPES)


def _is_text_media(part: Mapping[Any, Any]) -> bool:
    """Return whether data beside this type may also be a text as it stands."""
    media = (part.get(name) for name in _MEDIA_TYPES)
    return part.get("type") != "base64" and any(
        isinstance(name, str) and name.startswith("text/") for name in media
    )


def _decoded(encoded: str) -> str:
    """Return the text that base64 data is, or nothing if it is another kind of data."""
    import base64  # few messages need it

    try:
        return base64.b64decode(encoded.translate(_STANDARD) + "==").decode()
    except ValueError:
        return ""


def _parsed(text: str) -> Any:
    """Return what the JSON of a tool's arguments says, or the text if it is none."""
    import json  # slow to import, and most programs never need it

    try:
        data = json.loads(text, object_pairs_hook=_all_pairs)
    except RecursionError:
        return _strings_in(text)
    except ValueError:
        return text
    if may_be_deep(text):
        try:
            freeze(data)
        except ValueError:
            return _strings_in(text)
    return data if isinstance(data, (dict, list, str)) else text


def _strings_in(text: str) -> list[str]:
    """Return JSON that nests too deeply to be gone through, and each text that is written in it."""
    import json  # as above

    said = [text]
    for written in _STRING.findall(text):
        with suppress(ValueError):
            said.append(json.loads(written, strict=False))
    return said


def _all_pairs(pairs: list[tuple[str, Any]]) -> Any:
    """Return an object of JSON; where it has a name twice, nobody knows which one is read."""
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else pairs


def _written(data: Any) -> str | None:
    """Return the text of what is no container, or None."""
    if isinstance(data, str):
        return data
    if data is None:
        return ""
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int):
        return str(data) if data.bit_length() <= LONGEST_NUMBER else hex(data)
    if isinstance(data, float):
        return repr(data)
    if isinstance(data, (bytes, bytearray)):
        return data.decode(errors="backslashreplace")
    return None
