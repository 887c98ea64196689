"""Requests of the messages API, shown to hooks as a conversation of the chat API, and written back.

The system prompt is a system message. A turn of a user is one message for each result of a tool and
one for what stands between them; one of an assistant has its uses of tools as calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import ModelRequest
from checkrail.llm.diff import match_items
from checkrail.llm.messages.blocks import (
    PlacedBlock,
    merge_blocks,
    place_parts,
    show_call,
    show_content,
    show_part,
    to_block,
    to_tool_use,
)
from checkrail.llm.messages.conversation import OPENING, SYSTEM, anthropic_messages
from checkrail.llm.request_fields import (
    find_objects,
    freeze_request,
    read_params,
    write_params,
)
from checkrail.llm.wire_format import Body, UnreadableError

Message = Mapping[str, Any]
Turn = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as hooks see it, the turn that it came from, and the places of its blocks there."""

    message: Message
    turn: int | None
    places: tuple[int, ...]


Pair = tuple[Message, ShownMessage | None]
"""A message after hooks, and what it was; None if it is new."""


def write_turns(
    turns: Sequence[Turn], came: Sequence[ShownMessage], pairs: list[Pair]
) -> list[Turn]:
    """Write messages as turns; one that hooks left alone stays as it came."""
    whole: dict[int | None, list[Message]] = {}
    for shown in came:
        whole.setdefault(shown.turn, []).append(shown.message)
    written: list[Turn] = []
    for turn, group in groupby(
        _move_behind_results(pairs), key=lambda pair: pair[1] and pair[1].turn
    ):
        members = [*group]
        if turn is None:
            written += _build_turns([message for message, _ in members])
        elif [message for message, _ in members] == whole[turn]:
            written.append(turns[turn])
        else:
            written += _rewrite_turn(turns[turn], members)
    return written


def _move_behind_results(pairs: list[Pair]) -> list[Pair]:
    """Move what is new behind the results that it would separate from their calls or each other."""
    following: list[ShownMessage | None] = [None] * len(pairs)
    for place in range(len(pairs) - 1, 0, -1):
        following[place - 1] = pairs[place][1] or following[place]
    settled: list[Pair] = []
    waiting: list[Pair] = []
    reached: int | None = None
    for pair, ahead in zip(pairs, following, strict=True):
        shown = pair[1]
        if shown is not None:
            reached = shown.turn
        parts = ahead is not None and reached is not None and ahead.turn == reached
        if shown is None:
            results = ahead is not None and ahead.message.get("role") == "tool"
            (waiting if parts or results else settled).append(pair)
            continue
        settled.append(pair)
        if not parts:
            settled += waiting
            waiting = []
    return settled + waiting


def _build_turns(messages: list[Message]) -> list[Turn]:
    said = [
        {**message, "role": "user"} if message.get("role") in SYSTEM else message
        for message in messages
    ]
    _, turns = anthropic_messages(said)
    opening = {"role": "user", "content": [{"type": "text", "text": OPENING}]}
    return turns[1:] if turns[0] == opening else turns


def _rewrite_turn(turn: Turn, members: list[Pair]) -> Iterator[Turn]:
    fields = {name: turn[name] for name in turn if name != "content"}
    for message, _ in members:
        if message.get("role") != "tool":
            fields = _without_keys(message, "content", "tool_calls")
    content: Any = []
    if isinstance(turn.get("content"), list):
        for message, shown in members:
            content += _write_blocks(message, turn["content"], shown)
    else:
        content = _write_content(members[0][0])
    if content:
        yield {**thaw(fields), "content": content}


def _write_content(message: Message) -> str | list[Any]:
    """Write the content of a turn that came as a text."""
    content: Any = message.get("content") or ""
    calls = message.get("tool_calls")
    if isinstance(content, str) and not calls:
        return content
    parts = ([content] if content else []) if isinstance(content, str) else content
    return [*map(to_block, parts), *map(to_tool_use, calls or ())]


def _write_blocks(
    message: Message, content: Sequence[Any], shown: ShownMessage | None
) -> list[Any]:
    came = [PlacedBlock(content[place], place) for place in (shown.places if shown else ())]
    if message.get("role") == "tool":
        return [_write_result(message, came[0].block, shown)]
    said = [placed for placed in came if placed.block.get("type") != "tool_use"]
    uses = [placed for placed in came if placed.block.get("type") == "tool_use"]
    before = [show_part(placed.block) for placed in said]
    parts = place_parts(said, before, message.get("content") or "")
    return [
        placed.block
        for placed in merge_blocks(parts, _place_tool_uses(uses, message.get("tool_calls") or ()))
    ]


def _place_tool_uses(came: list[PlacedBlock], calls: Sequence[Message]) -> Iterator[PlacedBlock]:
    before = [show_call(placed.block) for placed in came]
    for call, origin in zip(calls, match_items(before, calls, _same_id), strict=True):
        if origin is None:
            yield PlacedBlock(to_tool_use(call), None)
        elif before[origin] == call:
            yield came[origin]
        else:
            yield PlacedBlock(to_tool_use(call), came[origin].origin)


def _same_id(before: Message, after: Message) -> bool:
    return bool(before.get("id") == after.get("id"))


def _write_result(message: Message, block: Message, shown: ShownMessage | None) -> Message:
    was = shown.message if shown else {}
    if message == was:
        return block
    written: Turn = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    content = message.get("content")
    if content == was.get("content"):
        written |= {"content": block["content"]} if "content" in block else {}
    elif isinstance(content, str):
        written["content"] = content
    else:
        blocks = block["content"] if isinstance(block.get("content"), list) else []
        came = [PlacedBlock(one, place) for place, one in enumerate(blocks)]
        parts = place_parts(came, was["content"] if blocks else [], content or [])
        written["content"] = [placed.block for placed in parts]
    if message.get("is_error") or "is_error" in block:
        written["is_error"] = bool(message.get("is_error"))
    others = _without_keys(message, "role", "tool_call_id", "content", "is_error", "name")
    return written | thaw(others)  # type: ignore[no-any-return]


def _without_keys(given: Message, *names: str) -> Turn:
    return {name: value for name, value in given.items() if name not in names}


APART = frozenset({"messages", "system", "tools"})
OF_FUNCTION = ("name", "description", "strict")


def read_request(body: Body) -> ModelRequest:
    """Read a request. Raises `UnreadableError`."""
    raw = freeze_request(body)
    return ModelRequest(
        model=raw.get("model"),
        messages=[shown.message for shown in _show_messages(raw)],
        tools=[_show_tool(tool) for tool in find_objects(raw, "tools")],
        params=read_params(raw, APART),
        stream=bool(raw.get("stream")),
        raw=raw,
    )


def write_request(body: Body, before: ModelRequest, after: ModelRequest) -> Body:
    """Write what hooks changed in a request."""
    written = write_params(body, before, after)
    if after.messages != before.messages:
        _write_messages(written, body, after)
    if after.tools != before.tools:
        _write_tools(written, body, after)
    return written


def _show_messages(raw: Body) -> Iterator[ShownMessage]:
    system = raw.get("system")
    if system is not None:
        _check_content(system, "`system`")
        yield ShownMessage({"role": "system", "content": system}, None, ())
    for turn, message in enumerate(find_objects(raw, "messages")):
        content = message.get("content")
        _check_content(content, "`content` of a message")
        if not isinstance(content, list):
            yield ShownMessage(message, turn, ())
        elif message.get("role") == "assistant":
            yield _show_assistant(message, turn)
        else:
            yield from _show_user(message, turn)


def _check_content(content: Any, what: str) -> None:
    if isinstance(content, str | None):
        return
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UnreadableError(f"{what} should be a text or a list of blocks")


def _show_assistant(message: Message, turn: int) -> ShownMessage:
    content = message["content"]
    parts = [show_part(block) for block in content if block.get("type") != "tool_use"]
    calls = [show_call(block) for block in content if block.get("type") == "tool_use"]
    shown = {**message, "content": parts or ""} | ({"tool_calls": calls} if calls else {})
    return ShownMessage(shown, turn, tuple(range(len(content))))


def _show_user(message: Message, turn: int) -> Iterator[ShownMessage]:
    between: list[int] = []
    content = message["content"]
    for place, block in enumerate(content):
        if block.get("type") != "tool_result":
            between.append(place)
            continue
        if between:
            yield _show_parts(message, turn, between)
            between = []
        yield ShownMessage(_show_result(block), turn, (place,))
    has_more = message.get("role") != "user" or message.keys() - {"role", "content"}
    if between or not content or has_more:
        yield _show_parts(message, turn, between)


def _show_parts(message: Message, turn: int, places: list[int]) -> ShownMessage:
    parts = [show_part(message["content"][place]) for place in places]
    return ShownMessage({**message, "content": parts}, turn, tuple(places))


def _show_result(block: Message) -> dict[str, Any]:
    content = block.get("content")
    _check_content(content, "`content` of a tool result")
    others = {
        name: block[name]
        for name in block
        if name not in ("type", "tool_use_id", "content", "is_error")
    }
    shown = {"role": "tool", "tool_call_id": block.get("tool_use_id")}
    failed = {"is_error": True} if block.get("is_error") else {}
    said = "" if content is None else show_content(content)
    return {**shown, "content": said, **failed, **others}


def _write_messages(written: Body, body: Body, after: ModelRequest) -> None:
    came = [*_show_messages(body)]
    origins = match_items([shown.message for shown in came], after.messages, _same_message)
    pairs = [
        (message, came[origin] if origin is not None else None)
        for message, origin in zip(after.messages, origins, strict=True)
    ]
    system: list[Message] = []
    while pairs and _is_leading_system(*pairs[0]):
        system.append(pairs.pop(0)[0])
    was = [shown.message for shown in came if shown.turn is None]
    if system != was:
        _write_system(written, system)
    written["messages"] = write_turns(body["messages"], came, pairs)


def _is_leading_system(message: Message, shown: ShownMessage | None) -> bool:
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
        written["system"] = [to_block(part) for parts in lists for part in parts]


def _same_message(before: Message, after: Message) -> bool:
    return all(before.get(name) == after.get(name) for name in ("role", "tool_call_id"))


def _show_tool(tool: Message) -> Message:
    """Return a tool as hooks see it; one of Anthropic's own stays as it came."""
    if "input_schema" not in tool or tool.get("type") not in (None, "custom"):
        return tool
    function = {name: tool[name] for name in OF_FUNCTION if name in tool}
    function["parameters"] = tool["input_schema"]
    apart = ("type", "input_schema", *OF_FUNCTION)
    others = {name: tool[name] for name in tool if name not in apart}
    return {"type": "function", "function": function, **others}


def _write_tools(written: Body, body: Body, after: ModelRequest) -> None:
    came = find_objects(body, "tools")
    shown = [_show_tool(tool) for tool in came]
    tools: list[Any] = []
    for tool, origin in zip(after.tools, match_items(shown, after.tools, _same_name), strict=True):
        was = came[origin] if origin is not None else {}
        same = origin is not None and shown[origin] == tool
        tools.append(was if same else _write_tool(tool, was))
    if tools:
        written["tools"] = tools
    else:
        written.pop("tools", None)


def _same_name(before: Message, after: Message) -> bool:
    return bool(_tool_name(before) == _tool_name(after) is not None)


def _tool_name(tool: Message) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool.get("name")


def _write_tool(tool: Message, was: Message) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return thaw(dict(tool))  # type: ignore[no-any-return]
    kept = {"type": was["type"]} if "type" in was else {}
    named = {name: function[name] for name in OF_FUNCTION if name in function}
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    others = {name: tool[name] for name in tool if name not in ("type", "function")}
    return thaw({**kept, **named, "input_schema": schema, **others})  # type: ignore[no-any-return]
