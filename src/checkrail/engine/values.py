"""The values that flow through the points: frozen, with these fields and no hidden ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Self

from checkrail.engine.containment import ends_process
from checkrail.engine.frozen import FrozenDict, FrozenList, freeze

WRITTEN = frozenset(
    {
        *("Decimal", "UUID", "date", "datetime", "time", "UserString"),
        *("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"),
    },
)
"""What is not JSON, but has one written form that everybody knows."""
LONGEST_NUMBER = 10_000
"""Bits; Python refuses to write numbers that are much longer in decimal digits."""
_LISTS = (Sequence, AbstractSet, ValuesView)


def _opaque(value: Any) -> str:
    return f"<{type(value).__qualname__}>"


def _identity(value: Any) -> str:
    return f"<{type(value).__qualname__} {id(value)}>"


def _empty_dict() -> Mapping[str, Any]:
    return FrozenDict({})


def _empty_list() -> Sequence[Any]:
    return FrozenList([])


class Value:
    """What all value types share: their containers are frozen when they are made."""

    __slots__: ClassVar[tuple[str, ...]] = ()

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __post_init__(self) -> None:
        for name in self.__slots__:
            given = getattr(self, name)
            frozen = freeze(given)
            if frozen is not given:
                object.__setattr__(self, name, frozen)


class TextValue(Value):
    """A value that says something: what a search should look at is its `text`."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """All text in it, whatever its shape: parts, thoughts, lists of words, nested data."""
        from checkrail.engine.text import text_of  # which knows all the values

        return text_of(self)


@dataclass(frozen=True, slots=True)
class User(Value):
    """Who is acting."""

    identity: str
    email: str | None = None
    org_id: str | None = None
    permissions: Sequence[str] = field(default_factory=_empty_list)
    extras: Mapping[str, Any] = field(default_factory=_empty_dict)


@dataclass(frozen=True, slots=True)
class Session(Value):
    """One user on one channel, from the first message to the end."""

    session_id: str
    user_id: str | None = None
    channel: str | None = None
    parent_session_id: str | None = None
    thread_ids: Sequence[str] = field(default_factory=_empty_list)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InboundMessage(TextValue):
    """What a user said."""

    user_id: str | None
    channel: str | None
    content: str
    thread_id: str | None = None
    attachments: Sequence[Any] = field(default_factory=_empty_list)
    metadata: Mapping[str, Any] = field(default_factory=_empty_dict)


@dataclass(frozen=True, slots=True)
class OutboundMessage(TextValue):
    """What is about to be said to a user."""

    user_id: str | None
    channel: str | None
    content: str
    thread_id: str | None = None
    attachments: Sequence[Any] = field(default_factory=_empty_list)
    metadata: Mapping[str, Any] = field(default_factory=_empty_dict)


@dataclass(frozen=True, slots=True)
class ModelRequest(TextValue):
    """What is about to be sent to a model."""

    model: str | None = None
    provider: str | None = None
    messages: Sequence[Mapping[str, Any]] = field(default_factory=_empty_list)
    tools: Sequence[Mapping[str, Any]] = field(default_factory=_empty_list)
    params: Mapping[str, Any] = field(default_factory=_empty_dict)
    stream: bool = False
    raw: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall(TextValue):
    """One tool that is about to be executed."""

    id: str = ""
    name: str = ""
    args: Mapping[str, Any] = field(default_factory=_empty_dict)
    context: str = "chat"

    def __post_init__(self) -> None:
        """Freeze it, and refuse arguments that are still a text."""
        given: object = self.args
        if isinstance(given, str):
            message = "args of a ToolCall are a dict: json.loads what your API gives as a text"
            raise TypeError(message)
        Value.__post_init__(self)


@dataclass(frozen=True, slots=True)
class ToolResult(TextValue):
    """What one tool gave back, well or badly."""

    id: str = ""
    name: str = ""
    content: Any = ""
    is_error: bool = False
    error: str | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class AssistantMessage(TextValue):
    """What a model answered: text or parts, and the tools that it wants called."""

    content: str | Sequence[Any] = ""
    tool_calls: Sequence[ToolCall] = field(default_factory=_empty_list)
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=_empty_dict)


@dataclass(frozen=True, slots=True)
class AgentResponse(TextValue):
    """What an agent loop ended with; `finish` is the stop reason of its last answer."""

    content: str | Sequence[Any] = ""
    output: Any = None
    messages: Sequence[Mapping[str, Any]] = field(default_factory=_empty_list)
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None
    error: str | None = None
    finish: str | None = None


AssistantResponse = AgentResponse


@dataclass(frozen=True, slots=True)
class RunResult(TextValue):
    """A run that ended in success, or was interrupted."""

    status: str = "success"
    output: Any = None
    input: Any = None
    usage: Mapping[str, Any] | None = None
    duration_ms: float | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class RunError(TextValue):
    """A run that ended in error, timeout, block or cancel."""

    status: str = "error"
    error: str | None = None
    error_type: str | None = None
    input: Any = None
    usage: Mapping[str, Any] | None = None
    duration_ms: float | None = None
    attempt: int = 1


def plain(value: Any, opaque: Callable[[Any], str] = _opaque) -> Any:
    """Give a value as plain JSON data: what goes on the wire and into records.

    `opaque` names what JSON has no form for.
    """
    if isinstance(value, Enum):
        return plain(value.value, opaque)
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        return hex(value)
    if value is None or isinstance(value, (str, int, float)):
        finite = not isinstance(value, float) or math.isfinite(value)
        return value if finite else str(value)
    if isinstance(value, Value):
        return {name: plain(getattr(value, name), opaque) for name in value.__slots__}
    if isinstance(value, Mapping):
        return {str(key): plain(item, opaque) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, opaque) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(item, opaque) for item in value]
    return _foreign(value, opaque)


def _foreign(value: Any, opaque: Callable[[Any], str]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {item.name: plain(getattr(value, item.name), opaque) for item in fields}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode(errors="backslashreplace")
    if type(value).__name__ in WRITTEN:
        return str(value)
    try:
        if isinstance(value, _LISTS) and not isinstance(value, range):  # a range may be endless
            return [plain(item, opaque) for item in value]
        dump = getattr(value, "model_dump", None)
        return plain(dump(mode="json"), opaque) if callable(dump) else opaque(value)
    except BaseException as error:
        if ends_process(error):
            raise
        return opaque(value)


def digest(value: Any) -> str:
    """Name a value by a hash of its content."""
    import hashlib  # slow to import, and most programs never need it
    import json

    text = json.dumps(plain(value, _identity), sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
