"""Going through every text in a value."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from checkrail.engine.values import ToolResult, Value

Change = Callable[[str | None, str], str]
"""Given a text and the key under which it stands, gives what is to stand there."""

Paths = tuple[tuple[str, ...], ...]

HANDLES = frozenset(
    {
        "call_id",
        "channel",
        "context",
        "id",
        "model",
        "name",
        "provider",
        "role",
        "session_id",
        "status",
        "stop_reason",
        "thread_id",
        "tool_call_id",
        "tool_use_id",
        "type",
        "user_id",
    },
)
"""What messages, tools and values are known by: without these the conversation would break."""

DATA = frozenset({"args", "arguments", "input", "metadata", "output"})
"""Where the data of a tool or a user begins, in which such a name means nothing special."""

CONVERSATION = frozenset({"content", "messages", "params", "raw", "tool_calls", "tools"})


def path_of(text: str) -> tuple[str, ...]:
    """Read a path such as `messages[*].content`."""
    return tuple(re.findall(r"[^.\[\]]+", text))


def rewritten(value: Any, change: Change, paths: Paths | None = None) -> Any:
    """Give a value with its texts changed, or the same object if none of them was.

    With paths, only what lies beneath one of them.
    """
    return _walk(value, _Step(change, paths, None, wired=False))


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """Where the walk stands: `wired` in a conversation, whose handles are not to be touched."""

    change: Change
    paths: Paths | None
    key: str | None
    wired: bool

    def into(self, key: str, *, wired: bool) -> _Step | None:
        """Go one key deeper, or not if nothing there is to be changed."""
        if self.paths is None:
            return None if self.wired and key in HANDLES else self._at(key, None, wired)
        rests = tuple(path[1:] for path in self.paths if path[0] in (key, "*"))
        if not rests:
            return None
        return self._at(key, None if () in rests else rests, wired)

    def _at(self, key: str, paths: Paths | None, wired: bool) -> _Step:  # noqa: FBT001
        return _Step(self.change, paths, key, wired)


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
        if (deeper := step.into(str(key), wired=_wired(str(key), item, step))) is not None
    }
    new = {key: item for key, item in found.items() if item is not value[key]}
    return {**value, **new} if new else value


def _wired(key: str, item: Any, step: _Step) -> bool:
    if step.wired:
        return key not in DATA
    return key == "messages" and isinstance(item, (list, tuple)) and any(map(_is_message, item))


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
    deeper = step.into(str(number), wired=step.wired)
    return item if deeper is None else _walk(item, deeper)


def _value(value: Value, step: _Step) -> Any:
    handles = dataclasses.replace(step, wired=True)
    new = _attributes(
        value,
        value.__slots__,
        handles,
        lambda name: name in CONVERSATION and not isinstance(value, ToolResult),
    )
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
    told = dataclasses.replace(
        step, wired="content" in names and {"role", "type"} & {*names} != set()
    )
    new = _attributes(value, names, told, lambda name: told.wired and name not in DATA)
    if not new:
        return value
    if fields is not None:
        return value.model_copy(update=new)
    changed = copy.copy(value)
    for name, item in new.items():
        object.__setattr__(changed, name, item)
    return changed


def _attributes(
    value: Any,
    names: Iterable[str],
    step: _Step,
    wired: Callable[[str], bool],
) -> dict[str, Any]:
    new = {}
    for name in names:
        old = getattr(value, name)
        deeper = step.into(name, wired=wired(name))
        found = old if deeper is None else _walk(old, deeper)
        if found is not old:
            new[name] = found
    return new
