"""The top level of a request: what is no message and no tool is a parameter."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from checkrail.engine.frozen import FrozenDict, freeze, thaw
from checkrail.engine.values import ModelRequest
from checkrail.llm.wire_format import Body, UnreadableError

OURS = frozenset({"model", "stream"})
CONVERSATION = ("messages", "input", "system", "tools", "functions")
NAMES = frozenset(
    {"model", "messages", "input", "system", "instructions", "tools", "functions", "stream"}
    | {"role", "content", "type", "text", "name", "function", "custom", "output", "arguments"}
    | {"tool_calls", "tool_call_id", "tool_use_id", "function_call"}
)
"""What hooks go by."""

NESTED = ("function", "custom")
"""Fields of an object that hold another one; lists are gone through as well."""

KINDS = ("role", "type")
WORDS = frozenset(
    {"system", "developer", "user", "assistant", "tool", "function", "custom", "message", "text"}
    | {"tool_result", "tool_use", "function_call", "function_call_output", "input_text"}
    | {"output_text", "custom_tool_call", "custom_tool_call_output", "mcp", "web_search"}
)
"""What hooks go by in these two."""

CHOOSING = ("tool_choice", "parallel_tool_calls", "function_call")
"""What an API refuses where there is no tool to choose."""


def freeze_request(body: Body) -> FrozenDict[str, Any]:
    """Freeze a body once, for everything that is read from it. Raises `UnreadableError`."""
    try:
        raw = freeze(body)
    except ValueError as error:
        raise UnreadableError(f"the request cannot be read: {error}") from error
    if not isinstance(raw, FrozenDict):
        raise UnreadableError("a request is a JSON object")
    if not isinstance(raw.get("model"), str | None):
        raise UnreadableError("`model` should be a text")
    for given in _iter_objects(raw):
        _check_spelling(given)
    return raw


def _iter_objects(raw: Body) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that make up a request, without free-form ones."""
    yield raw
    left: list[Any] = [raw.get(name) for name in CONVERSATION]
    while left:
        given = left.pop()
        if isinstance(given, dict):
            yield given
            left += [each for key, each in given.items() if _holds_parts(key, each)]
        elif isinstance(given, list):
            left += given


def _holds_parts(key: str, value: Any) -> bool:
    """Return whether a field of an object holds more of the conversation."""
    return isinstance(value, list) or (isinstance(value, dict) and key in NESTED)


def _check_spelling(given: Mapping[str, Any]) -> None:
    """Refuse names in capitals, which some upstreams take for others: hooks do not look there."""
    for name in given:
        plain = _fold(name)
        if plain != name and (plain in NAMES or plain in given):
            raise UnreadableError(f"`{plain}` is spelled in another way")
    for name in KINDS:
        said = given.get(name)
        if isinstance(said, str) and _fold(said) != said and _fold(said) in WORDS:
            raise UnreadableError(f"the {name} `{_fold(said)}` is spelled in another way")


def _fold(name: str) -> str:
    """Return a name as a lenient reader may take it."""
    plain = name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()
    if plain.isascii() and plain.isprintable() and " " not in plain:
        return plain
    return "".join(filter(_is_seen, plain))


def _is_seen(letter: str) -> bool:
    return letter.isprintable() and not letter.isspace()


def find_objects(raw: Body, name: str) -> list[Any]:
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


def read_params(raw: Body, apart: Container[str]) -> dict[str, Any]:
    """Return all the fields that are not part of the conversation."""
    return {name: raw[name] for name in raw if name not in OURS and name not in apart}


def write_params(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
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
