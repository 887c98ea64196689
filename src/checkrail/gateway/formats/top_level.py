"""The top level of a request: what is no message and no tool is a parameter."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from checkrail.engine.frozen import FrozenDict, freeze, thaw
from checkrail.engine.values import ModelRequest
from checkrail.gateway.formats.base import Body, UnreadableError

OURS = frozenset({"model", "stream"})
CONVERSATION = ("messages", "input", "system", "tools", "functions")
NAMES = frozenset(
    {"model", "messages", "input", "system", "instructions", "tools", "functions", "stream"}
    | {"role", "content", "type", "text", "name", "function", "custom", "output", "arguments"}
    | {"tool_calls", "tool_call_id", "tool_use_id", "function_call"}
)
"""What hooks go by."""

CHOOSING = ("tool_choice", "parallel_tool_calls", "function_call")
"""What an API refuses where there is no tool to choose."""


def opened(body: Body) -> FrozenDict[str, Any]:
    """Freeze a body once, for everything that is read from it. Raises `UnreadableError`."""
    try:
        raw = freeze(body)
    except ValueError as error:
        raise UnreadableError(f"the request cannot be read: {error}") from error
    if not isinstance(raw, FrozenDict):
        raise UnreadableError("a request is a JSON object")
    if not isinstance(raw.get("model"), str | None):
        raise UnreadableError("`model` should be a text")
    for given in _objects(raw):
        _check_spelling(given)
    return raw


def _objects(raw: Body) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that make up a request, without what is somebody's own in them."""
    yield raw
    for name in CONVERSATION:
        listed = raw.get(name)
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict):
                yield item
                for key, inner in item.items():
                    named = (inner,) if key in ("function", "custom") else ()
                    parts = inner if isinstance(inner, list) else named
                    yield from (part for part in parts if isinstance(part, dict))


def _check_spelling(given: Mapping[str, Any]) -> None:
    """Refuse names in capitals, which some upstreams take for others: hooks do not look there."""
    for name in given:
        plain = name.casefold()
        if plain != name and (plain in NAMES or plain in given):
            raise UnreadableError(f"`{plain}` is spelled in another way")


def objects_in(raw: Body, name: str) -> list[Any]:
    """Return a list of objects, which may be absent."""
    found = raw.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise UnreadableError(f"`{name}` should be a list of objects")
    return found


def tool_names(tools: Iterable[Any]) -> frozenset[str]:
    """Return the names of the tools of a request, whatever their types."""
    found = (
        inner.get("name")
        for tool in tools
        if isinstance(tool, Mapping)
        for inner in (tool, tool.get("function"), tool.get("custom"))
        if isinstance(inner, Mapping)
    )
    return frozenset(name for name in found if isinstance(name, str))


def params_of(raw: Body, apart: Container[str]) -> dict[str, Any]:
    """Return all the fields that are no part of the conversation."""
    return {name: raw[name] for name in raw if name not in OURS and name not in apart}


def with_params(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
    """Write the model and the parameters that hooks changed."""
    written = dict(body)
    if after.model != before.model:
        written["model"] = after.model
    if after.stream != before.stream:
        written["stream"] = after.stream
    for name in before.params:
        if name not in after.params:
            del written[name]
    for name, value in after.params.items():
        if name not in before.params or before.params[name] != value:
            written[name] = thaw(value)
    if before.tools and not after.tools:
        for name in CHOOSING:
            written.pop(name, None)
    return written
