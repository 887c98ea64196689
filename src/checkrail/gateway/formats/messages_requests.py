"""Requests of the messages API, shown to hooks as a conversation of the chat API, and written back.

The system prompt is a system message. A turn of a user is one message for each result of a tool and
one for what stands between them; one of an assistant has its uses of tools as calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.agent.models.anthropic_messages import SYSTEM
from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.gateway.formats.aligning import aligned
from checkrail.gateway.formats.base import Body, UnreadableError
from checkrail.gateway.formats.messages_blocks import (
    block_of,
    shown_call,
    shown_content,
    shown_part,
)
from checkrail.gateway.formats.messages_turns import Shown, written_turns
from checkrail.gateway.formats.top_level import objects_in, opened, params_of, with_params

APART = frozenset({"messages", "system", "tools"})
OF_FUNCTION = ("name", "description", "strict")

Message = Mapping[str, Any]


def read_request(body: Body) -> ModelRequest:
    """Read a request. Raises `UnreadableError`."""
    raw = opened(body)
    return ModelRequest(
        model=raw.get("model"),
        messages=[shown.message for shown in _shown(raw)],
        tools=[_shown_tool(tool) for tool in objects_in(raw, "tools")],
        params=params_of(raw, APART),
        stream=bool(raw.get("stream")),
        raw=raw,
    )


def write_request(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
    """Write what hooks changed in a request."""
    written = with_params(body, before, after)
    if after.messages != before.messages:
        _write_messages(written, body, after)
    if after.tools != before.tools:
        _write_tools(written, body, after)
    return written


def _shown(raw: Body) -> Iterator[Shown]:
    system = raw.get("system")
    if system is not None:
        _check(system, "`system`")
        yield Shown({"role": "system", "content": system}, None, ())
    for turn, message in enumerate(objects_in(raw, "messages")):
        content = message.get("content")
        _check(content, "`content` of a message")
        if not isinstance(content, list):
            yield Shown(message, turn, ())
        elif message.get("role") == "assistant":
            yield _assistant(message, turn)
        else:
            yield from _user(message, turn)


def _check(content: Any, what: str) -> None:
    if isinstance(content, str | None):
        return
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UnreadableError(f"{what} should be a text or a list of blocks")


def _assistant(message: Message, turn: int) -> Shown:
    content = message["content"]
    parts = [shown_part(block) for block in content if block.get("type") != "tool_use"]
    calls = [shown_call(block) for block in content if block.get("type") == "tool_use"]
    shown = {**message, "content": parts or ""} | ({"tool_calls": calls} if calls else {})
    return Shown(shown, turn, tuple(range(len(content))))


def _user(message: Message, turn: int) -> Iterator[Shown]:
    between: list[int] = []
    content = message["content"]
    for place, block in enumerate(content):
        if block.get("type") != "tool_result":
            between.append(place)
            continue
        if between:
            yield _between(message, turn, between)
            between = []
        yield Shown(_result(block), turn, (place,))
    if between or not content:
        yield _between(message, turn, between)


def _between(message: Message, turn: int, places: list[int]) -> Shown:
    parts = [shown_part(message["content"][place]) for place in places]
    return Shown({**message, "content": parts}, turn, tuple(places))


def _result(block: Message) -> dict[str, Any]:
    content = block.get("content")
    _check(content, "`content` of a tool result")
    others = {
        name: block[name]
        for name in block
        if name not in ("type", "tool_use_id", "content", "is_error")
    }
    shown = {"role": "tool", "tool_call_id": block.get("tool_use_id")}
    failed = {"is_error": True} if block.get("is_error") else {}
    said = "" if content is None else shown_content(content)
    return {**shown, "content": said, **failed, **others}


def _write_messages(written: Body, body: Body, after: ModelRequest) -> None:
    came = [*_shown(body)]
    origins = aligned([shown.message for shown in came], after.messages, _alike)
    pairs = [
        (message, came[origin] if origin is not None else None)
        for message, origin in zip(after.messages, origins, strict=True)
    ]
    system: list[Message] = []
    while pairs and _leads(*pairs[0]):
        system.append(pairs.pop(0)[0])
    was = [shown.message for shown in came if shown.turn is None]
    if system != was:
        _write_system(written, system)
    written["messages"] = written_turns(body["messages"], came, pairs)


def _leads(message: Message, shown: Shown | None) -> bool:
    return message.get("role") in SYSTEM and (shown is None or shown.turn is None)


def _write_system(written: Body, system: list[Message]) -> None:
    contents: list[Any] = [message.get("content") for message in system]
    given = [content for content in contents if content]
    if not given:
        written.pop("system", None)
    elif len(given) == 1 and isinstance(given[0], str):
        written["system"] = given[0]
    else:
        lists = ([content] if isinstance(content, str) else content for content in given)
        written["system"] = [block_of(part) for parts in lists for part in parts]


def _alike(before: Message, after: Message) -> bool:
    return all(before.get(name) == after.get(name) for name in ("role", "tool_call_id"))


def _shown_tool(tool: Message) -> Message:
    """Show a tool; one that Anthropic made stays as it came."""
    if "input_schema" not in tool or tool.get("type") not in (None, "custom"):
        return tool
    function = {name: tool[name] for name in OF_FUNCTION if name in tool}
    function["parameters"] = tool["input_schema"]
    apart = ("type", "input_schema", *OF_FUNCTION)
    others = {name: tool[name] for name in tool if name not in apart}
    return {"type": "function", "function": function, **others}


def _write_tools(written: Body, body: Body, after: ModelRequest) -> None:
    came = objects_in(body, "tools")
    shown = [_shown_tool(tool) for tool in came]
    tools: list[Any] = []
    for tool, origin in zip(after.tools, aligned(shown, after.tools, _same_name), strict=True):
        was = came[origin] if origin is not None else {}
        same = origin is not None and shown[origin] == tool
        tools.append(was if same else _wire_tool(tool, was))
    if tools:
        written["tools"] = tools
    else:
        written.pop("tools", None)


def _same_name(before: Message, after: Message) -> bool:
    return bool(_name(before) == _name(after) is not None)


def _name(tool: Message) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool.get("name")


def _wire_tool(tool: Message, was: Message) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return thaw(dict(tool))  # type: ignore[no-any-return]
    kept = {"type": was["type"]} if "type" in was else {}
    named = {name: function[name] for name in OF_FUNCTION if name in function}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    others = {name: tool[name] for name in tool if name not in ("type", "function")}
    return thaw({**kept, **named, "input_schema": schema, **others})  # type: ignore[no-any-return]
