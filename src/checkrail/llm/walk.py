"""Going through every text in a value."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from checkrail.engine.frozen import FrozenList
from checkrail.engine.outcomes import Reject
from checkrail.engine.values import ToolResult, Value

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

    def keeps_text(self, key: str, item: Any, at: Callable[[str], Any]) -> bool:
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


_ITEM = re.compile(r"\*|-?\d+")


def path_of(text: str) -> tuple[str, ...]:
    """Read a path such as `messages[*].content`."""
    return tuple(re.findall(r"[^.\[\]]+", text))


def rewrite_texts(
    value: Any, change: Change, paths: Paths | None = None, zone: str = "data"
) -> Any:
    """Return a value with its texts changed, or the same object if none of them was.

    With paths, only what lies beneath one of them. Where a path goes on at a list without an item,
    it is about all items; where it goes on at a text, about the text. What nests too deeply to be
    gone through is refused.
    """
    try:
        return _walk(value, _Step(change, paths, None, zone, {}))
    except RecursionError:
        raise too_deep() from None


def too_deep() -> Reject:
    """Return the refusal of what nobody can look through."""
    return Reject("The value nests too deeply to be looked through for secrets")


class _Step(NamedTuple):
    """Where the walk stands: below which key, and in which zone of a conversation.

    `known` are frozen lists that it has been through: the messages of a request stand in what the
    wire carried too.
    """

    change: Change
    paths: Paths | None
    key: str | None
    zone: str
    known: dict[tuple[int, str | None, str], Any]

    def step_into(self, key: str, item: Any, zone: str, at: Callable[[str], Any]) -> _Step | None:
        """Return the step to a key, or None if nothing there is to be changed.

        A path that names a text comes before what a protocol needs.
        """
        if self.paths is None:
            keeps = ZONES[self.zone].keeps_text(key, item, at)
            return None if keeps else _Step(self.change, None, key, zone, self.known)
        rests = tuple(path[1:] for path in self.paths if path[0] in (key, "*"))
        return self._narrow(rests, key, zone)

    def step_to_item(self, number: int, length: int) -> _Step | None:
        """Return the step to an item of a list, or None if no path leads there."""
        if self.paths is None:
            return self
        here = ("*", str(number), str(number - length))
        rests = [path[1:] for path in self.paths if path[0] in here]
        rests += [path for path in self.paths if not _ITEM.fullmatch(path[0])]
        return self._narrow(tuple(rests), self.key, self.zone)

    def _narrow(self, rests: Paths, key: str | None, zone: str) -> _Step | None:
        if not rests:
            return None
        return _Step(self.change, None if () in rests else rests, key, zone, self.known)


_LEAVES = frozenset({int, float, bool, type(None)})


def _walk(value: Any, step: _Step) -> Any:
    if isinstance(value, str):
        return step.change(step.key, value)
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Mapping):
        return _walk_mapping(value, step)
    if isinstance(value, FrozenList) and step.paths is None:
        place = (id(value), step.key, step.zone)
        if place not in step.known:
            step.known[place] = _walk_items(value, step)
        return step.known[place]
    if isinstance(value, (list, tuple)):
        return _walk_items(value, step)
    if isinstance(value, (set, frozenset)):
        changed = frozenset(_walk(item, step) for item in value)
        return value if changed == value else changed
    if isinstance(value, Value):
        return _walk_engine_value(value, step)
    return _walk_object(value, step)


def _walk_mapping(value: Mapping[Any, Any], step: _Step) -> Any:
    new: dict[Any, Any] = {}
    keeps_text, at = ZONES[step.zone].keeps_text, value.get
    for key, item in value.items():
        name = str(key)
        if type(item) in _LEAVES:
            continue
        if step.paths is None and isinstance(item, str):
            found = item if keeps_text(name, item, at) else step.change(name, item)
        else:
            deeper = step.step_into(name, item, _zone_of(name, item, step), at)
            found = item if deeper is None else _walk(item, deeper)
        if found is not item:
            new[key] = found
    return {**value, **new} if new else value


def _zone_of(key: str, item: Any, step: _Step) -> str:
    if step.zone != "data":
        return ZONES[step.zone].inner.get(key, "free")
    has_messages = key == "messages" and isinstance(item, (list, tuple))
    return "message" if has_messages and any(map(_is_message, item)) else "data"


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and ("role" in item or "type" in item)


def _walk_items(value: list[Any] | tuple[Any, ...], step: _Step) -> Any:
    found = [_walk_item(number, len(value), item, step) for number, item in enumerate(value)]
    if all(new is old for new, old in zip(found, value, strict=True)):
        return value
    if isinstance(value, list):
        return found
    return type(value)(*found) if hasattr(value, "_fields") else tuple(found)


def _walk_item(number: int, length: int, item: Any, step: _Step) -> Any:
    deeper = step.step_to_item(number, length)
    return item if deeper is None else _walk(item, deeper)


def _walk_engine_value(value: Value, step: _Step) -> Any:
    inner = {} if isinstance(value, ToolResult) else ZONES["value"].inner
    new = _changed_attributes(value, value.__slots__, step._replace(zone="value"), inner)
    return dataclasses.replace(value, **new) if new else value  # type: ignore[type-var]


def _walk_object(value: Any, step: _Step) -> Any:
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
    new = _changed_attributes(value, names, step._replace(zone=zone), ZONES[zone].inner)
    if not new:
        return value
    if fields is not None:
        return value.model_copy(update=new)
    changed = copy.copy(value)
    for name, item in new.items():
        object.__setattr__(changed, name, item)
    return changed


def _changed_attributes(
    value: Any, names: Iterable[str], step: _Step, inner: Mapping[str, str]
) -> dict[str, Any]:
    below = "data" if step.zone == "data" else "free"
    new = {}
    for name in names:
        old = getattr(value, name)
        zone = inner.get(name, below)
        deeper = step.step_into(name, old, zone, lambda key: getattr(value, key, None))
        found = old if deeper is None else _walk(old, deeper)
        if found is not old:
            new[name] = found
    return new
