"""Going through every text in a value."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkrail.engine.values import ToolResult, Value
from checkrail.turns import TooLargeError

Change = Callable[[str | None, str], str]
"""Given a text and the key under which it stands, gives what is to stand there."""

Paths = tuple[tuple[str, ...], ...]

_CALL_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id"})
_TOOL_ROLES = frozenset({"tool", "function"})
_TOOL_TYPES = ("tool_use", "_call")


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    """A kind of object in a conversation: which of its texts a protocol needs as they are.

    `handles` are the keys of those texts, `inner` are the zones of objects below some keys. All
    other texts are somebody's, and what is below other keys is in no zone.
    """

    handles: frozenset[str] = frozenset()
    inner: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tool_names: bool = False

    def keeps(self, key: str, item: Any, at: Callable[[str], Any]) -> bool:
        """Return whether the text of a key stays; `at` reads other keys of the same object."""
        if not isinstance(item, str):  # no protocol has anything else there: it is somebody's
            return False
        return key in self.handles or (key == "name" and self.tool_names and _is_of_tool(at))


def _is_of_tool(at: Callable[[str], Any]) -> bool:
    """Return whether an object is a tool call or a tool's result, so that its name is a tool's."""
    kind = at("type")
    if at("role") in _TOOL_ROLES or kind in _TOOL_ROLES:
        return True
    return isinstance(kind, str) and kind.endswith(_TOOL_TYPES)


_TOOL_PARTS = {"function": "tool", "custom": "tool", "tools": "tool", "allowed_tools": "tool"}

ZONES: dict[str, Zone] = {
    "data": Zone(),
    "free": Zone(),
    "request": Zone(
        frozenset({"model", "previous_response_id", "conversation"}),
        {
            **dict.fromkeys(("messages", "input"), "message"),
            **dict.fromkeys(("tools", "functions", "tool_choice", "function_call"), "tool"),
            **dict.fromkeys(("prompt", "conversation"), "named"),
            "system": "part",
        },
    ),
    "message": Zone(
        _CALL_IDS | {"role", "type"},
        {"content": "part", "tool_calls": "call", "function_call": "tool", "audio": "named"},
        tool_names=True,
    ),
    "part": Zone(_CALL_IDS | {"type"}, {"content": "part"}, tool_names=True),
    "call": Zone(_CALL_IDS | {"type", "name"}, _TOOL_PARTS),
    "tool": Zone(frozenset({"type", "name"}), _TOOL_PARTS),
    "named": Zone(frozenset({"id"})),
    "value": Zone(
        frozenset(
            {
                *("channel", "context", "id", "model", "name", "provider", "session_id"),
                *("status", "stop_reason", "thread_id", "user_id"),
            }
        ),
        {
            "content": "part",
            "messages": "message",
            "tool_calls": "call",
            "tools": "tool",
            **dict.fromkeys(("params", "raw"), "request"),
        },
    ),
}
"""What redaction leaves alone so that the protocol holds; docs/builtin-hooks.md lists it.

`data` is what runs and tools are given and give; a list of messages may be anywhere in it.
"""

_A_TEXT = 50
"""Every text costs as much as so many characters, however short it is."""


def path_of(text: str) -> tuple[str, ...]:
    """Read a path such as `messages[*].content`."""
    return tuple(re.findall(r"[^.\[\]]+", text))


def within(most: int, change: Change) -> Change:
    """Return a change that raises `TooLargeError` once it was given more than so much text."""
    left = most

    def counted(key: str | None, text: str) -> str:
        nonlocal left
        left -= len(text) + _A_TEXT
        if left < 0:
            raise TooLargeError
        return change(key, text)

    return counted


def rewritten(value: Any, change: Change, paths: Paths | None = None) -> Any:
    """Return a value with its texts changed, or the same object if none of them was.

    With paths, only what lies beneath one of them.
    """
    return _walk(value, _Step(change, paths, None, "data"))


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """Where the walk stands: below which key, and in which zone of a conversation."""

    change: Change
    paths: Paths | None
    key: str | None
    zone: str

    def into(self, key: str, item: Any, zone: str, at: Callable[[str], Any]) -> _Step | None:
        """Return the step to a key, or None if nothing there is to be changed.

        A path that names a text comes before what a protocol needs.
        """
        if self.paths is None:
            keeps = ZONES[self.zone].keeps(key, item, at)
            return None if keeps else _Step(self.change, None, key, zone)
        rests = tuple(path[1:] for path in self.paths if path[0] in (key, "*"))
        if not rests:
            return None
        return _Step(self.change, None if () in rests else rests, key, zone)


def _walk(value: Any, step: _Step) -> Any:
    if isinstance(value, str):
        return step.change(step.key, value) if step.paths is None else value
    if isinstance(value, Mapping):
        return _mapping(value, step)
    if isinstance(value, (list, tuple)):
        return _items(value, step)
    if isinstance(value, (set, frozenset)):
        changed = frozenset(_walk(item, step) for item in value)
        return value if changed == value else changed
    if isinstance(value, Value):
        return _value(value, step)
    return _object(value, step)


def _mapping(value: Mapping[Any, Any], step: _Step) -> Any:
    found = {
        key: _walk(item, deeper)
        for key, item in value.items()
        if (deeper := step.into(str(key), item, _zone(str(key), item, step), value.get)) is not None
    }
    new = {key: item for key, item in found.items() if item is not value[key]}
    return {**value, **new} if new else value


def _zone(key: str, item: Any, step: _Step) -> str:
    if step.zone != "data":
        return ZONES[step.zone].inner.get(key, "free")
    has_messages = key == "messages" and isinstance(item, (list, tuple))
    return "message" if has_messages and any(map(_is_message, item)) else "data"


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and ("role" in item or "type" in item)


def _items(value: list[Any] | tuple[Any, ...], step: _Step) -> Any:
    found = [_item(number, item, step) for number, item in enumerate(value)]
    if all(new is old for new, old in zip(found, value, strict=True)):
        return value
    if isinstance(value, list):
        return found
    return type(value)(*found) if hasattr(value, "_fields") else tuple(found)


def _item(number: int, item: Any, step: _Step) -> Any:
    if step.paths is None:
        return _walk(item, step)
    deeper = step.into(str(number), item, step.zone, lambda _: None)
    return item if deeper is None else _walk(item, deeper)


def _value(value: Value, step: _Step) -> Any:
    inner = {} if isinstance(value, ToolResult) else ZONES["value"].inner
    new = _attributes(value, value.__slots__, dataclasses.replace(step, zone="value"), inner)
    return dataclasses.replace(value, **new) if new else value  # type: ignore[type-var]


def _object(value: Any, step: _Step) -> Any:
    """Change a copy of a pydantic model or a dataclass; other objects are let be."""
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        names = [*fields, *(getattr(value, "model_extra", None) or ())]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in dataclasses.fields(value)]
    else:
        return value
    is_message = "content" in names and {"role", "type"} & {*names} != set()
    zone = "message" if is_message else "data" if step.zone == "data" else "free"
    new = _attributes(value, names, dataclasses.replace(step, zone=zone), ZONES[zone].inner)
    if not new:
        return value
    if fields is not None:
        return value.model_copy(update=new)
    changed = copy.copy(value)
    for name, item in new.items():
        object.__setattr__(changed, name, item)
    return changed


def _attributes(
    value: Any, names: Iterable[str], step: _Step, inner: Mapping[str, str]
) -> dict[str, Any]:
    below = "data" if step.zone == "data" else "free"
    new = {}
    for name in names:
        old = getattr(value, name)
        zone = inner.get(name, below)
        deeper = step.into(name, old, zone, lambda key: getattr(value, key, None))
        found = old if deeper is None else _walk(old, deeper)
        if found is not old:
            new[name] = found
    return new
