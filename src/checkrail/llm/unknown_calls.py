"""Tool calls in an answer where its API has none: in blocks, fields and events that nobody knows.

Whatever carries a name and an input may be a call to somebody. Hooks judge it as one, and what is
blocked is left out together with the block, the field or the event that it stands in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.engine.values import AssistantMessage, ToolCall, plain
from checkrail.llm.json_bytes import has_duplicate_names, to_json_text
from checkrail.llm.other_fields import CALL_FIELDS, ITEM_FIELDS, OTHER_FIELDS, UNKNOWN
from checkrail.llm.tool_arguments import json_object

Path = tuple[str | int, ...]

NAMES = ("name", "tool_name", "function_name", "tool", "function")
INPUTS = ("input", "arguments", "args", "parameters", "params", "tool_input")
MARKS = frozenset({*NAMES, *INPUTS})
"""Fields by which a call may begin."""

OF_PROVIDER = frozenset(
    {"server_tool_use", "mcp_tool_use"}
    | {"code_interpreter_call", "file_search_call", "image_generation_call", "mcp_call"}
    | {"web_search_call", "tool_search_call", "mcp_list_tools"}
)
"""Blocks and items that tell of tools at the provider: nobody is to call these."""

_FIELDS = {OTHER_FIELDS: 1, "fields": 1, "choice_fields": 1}
_FIELDS |= {CALL_FIELDS: 2, ITEM_FIELDS: 2, "choices": 3}
"""Where metadata has what an API does not know, and how many names further a field stands."""


@dataclass(frozen=True, slots=True)
class UnknownCall:
    """A call, and where in an answer it stands; `unparsed` are arguments that are no JSON."""

    call: ToolCall
    path: Path
    unparsed: bool

    @property
    def owner(self) -> Path:
        """The path of what is left out with it."""
        if self.path[0] == "content":
            return self.path[:2]
        names = 2 if UNKNOWN in self.path[:3] else _FIELDS[str(self.path[1])]
        return self.path[: 2 + names]


def find_unknown_calls(message: AssistantMessage) -> list[UnknownCall]:
    """Return what may be calls in an answer beside its tool calls."""
    found: list[UnknownCall] = []
    taken = {call.id for call in message.tool_calls}
    for path, given in _iter_unknown(message):
        for place, candidate in _iter_calls(given):
            id_ = str(candidate.get("id") or candidate.get("call_id") or "")
            if not id_ or id_ in taken:
                id_ = next(
                    f"unknown_{n}" for n in range(len(taken) + 1) if f"unknown_{n}" not in taken
                )
            taken.add(id_)
            args, unparsed = _read_input(candidate)
            call = ToolCall(id_, _find_name(candidate) or "", args)
            found.append(UnknownCall(call, (*path, *place), unparsed))
    return found


def has_call(value: Any) -> bool:
    """Return whether anything in a value may be a call."""
    return next(_iter_calls(value), None) is not None


def begins_call(value: Any) -> bool:
    """Return whether anything in a value may become a call when more of it has come."""
    if isinstance(value, Mapping) and _is_of_provider(value):
        return False
    return any(not MARKS.isdisjoint(each) for _, each in _iter_objects(value))


def without_calls(message: AssistantMessage, calls: Iterable[UnknownCall]) -> AssistantMessage:
    """Return an answer without what these calls stand in."""
    for path in sorted({each.owner for each in calls}, key=_place_key, reverse=True):
        message = _replace_at(message, path, None, drop=UNKNOWN not in path)
    return message


def rewrite_call(message: AssistantMessage, was: UnknownCall, now: ToolCall) -> AssistantMessage:
    """Return an answer with a call as hooks left it."""
    given = _value_at(message, was.path)
    names = {key: now.name for key in NAMES if isinstance(given.get(key), str)}
    args = plain(now.args)
    inputs = {
        key: to_json_text(args) if isinstance(given[key], str) else args
        for key in INPUTS
        if given.get(key) is not None
    }
    return _replace_at(message, was.path, {**given, **names, **inputs}, drop=False)


def _is_of_provider(part: Mapping[str, Any]) -> bool:
    type_ = part.get("type")
    return isinstance(type_, str) and type_ in OF_PROVIDER


def _iter_unknown(message: AssistantMessage) -> Iterator[tuple[Path, Any]]:
    """Yield the parts of an answer, and the fields that its API does not know."""
    content = message.content
    for place, part in enumerate(() if isinstance(content, str) else content):
        if not isinstance(part, Mapping) or not _is_of_provider(part):
            yield ("content", place), part
    for name in _FIELDS:
        if name in message.metadata:
            yield ("metadata", name), message.metadata[name]


def _iter_calls(value: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path, given in _iter_objects(value):
        if _find_name(given) and any(given.get(key) is not None for key in INPUTS):
            yield path, given


def _iter_objects(value: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the objects in a value, without going through the inputs of calls."""
    left: list[tuple[Path, Any]] = [((), value)]
    while left:
        path, given = left.pop()
        if isinstance(given, Mapping):
            yield path, given
            is_call = _find_name(given) is not None
            inner = [(key, each) for key, each in given.items() if not (is_call and key in INPUTS)]
        elif isinstance(given, list | tuple):
            inner = [*enumerate(given)]
        else:
            continue
        left += [((*path, key), each) for key, each in inner if not isinstance(each, str)]


def _find_name(given: Mapping[str, Any]) -> str | None:
    named = (given.get(key) for key in NAMES)
    return next((name for name in named if isinstance(name, str) and name), None)


def _read_input(given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the arguments of a call, and whether they cannot be read."""
    found = [plain(given[key]) for key in INPUTS if given.get(key) is not None]
    try:
        args = json_object(found[0])
    except ValueError:
        return {}, True
    twice = isinstance(found[0], str) and has_duplicate_names(found[0])
    return ({}, True) if len(found) > 1 or twice else (args, False)


def _place_key(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (0, step) for step in path)


def _value_at(message: AssistantMessage, path: Path) -> Any:
    value: Any = getattr(message, str(path[0]))
    for step in path[1:]:
        value = value[step]
    return value


def _replace_at(message: AssistantMessage, path: Path, new: Any, *, drop: bool) -> AssistantMessage:
    field = str(path[0])
    changed = _with_value(getattr(message, field), path[1:], new, drop=drop)
    return dataclasses.replace(message, **{field: changed})


def _with_value(value: Any, path: Sequence[str | int], new: Any, *, drop: bool) -> Any:
    """Return a value with something else at a path, or, with `drop`, with nothing there."""
    if not path:
        return new
    step = path[0]
    if drop and len(path) == 1:
        if isinstance(value, Mapping):
            return {key: each for key, each in value.items() if key != step}
        return [each for place, each in enumerate(value) if place != step]
    if isinstance(value, Mapping):
        return {**value, str(step): _with_value(value[step], path[1:], new, drop=drop)}
    left = [*value]
    left[int(step)] = _with_value(value[step], path[1:], new, drop=drop)
    return left
