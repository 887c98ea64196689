"""Content blocks: what a message, or a piece of one, consists of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import orjson

from checkrail.server.streams.partials import is_chunk, is_plain, message_of

Block = dict[str, Any]

_GROWS = {
    "text": ("text", "text-delta"),
    "reasoning": ("reasoning", "reasoning-delta"),
    "tool_call_chunk": ("args", "tool-call-delta"),
    "server_tool_call_chunk": ("args", "tool-call-delta"),
}
_FINAL = {"tool_call_chunk": "tool_call", "server_tool_call_chunk": "server_tool_call"}
_HEAVY = frozenset({"args", "data", "base64", "output", "transcript", "value"})
_EMPTY: dict[str, tuple[str, Any]] = {
    "tool_call": ("args", {}),
    "server_tool_call": ("args", {}),
    "non_standard": ("value", {}),
}


def blocks_of(message: Mapping[str, Any]) -> list[tuple[Hashable, Block]]:
    """List a message's blocks, each with a key that is the same in every piece of the message.

    A provider's own index tells blocks apart where there is one; it is kept by type, since some
    number text and tool calls each from nought.
    """
    if is_plain(message):
        text = message["content"]
        return [(("text", "at 0"), {"type": "text", "text": text})] if text else []
    found = [dict(block) for block in _of_langchain(message)]
    return [(_key(block, at), block) for at, block in enumerate(found)]


def _of_langchain(message: Mapping[str, Any]) -> list[Any]:
    """Let LangChain read the content, for it knows what each provider means by it."""
    whole = message_of(message)
    if is_chunk(message):
        return [*whole.content_blocks]
    invalid = getattr(whole, "invalid_tool_calls", None) or ()
    return [*whole.content_blocks, *({**call, "type": "invalid_tool_call"} for call in invalid)]


def _key(block: Block, at: int) -> Hashable:
    index = block.get("index")
    return block.get("type"), f"at {at}" if index is None else index


def opened(block: Block) -> Block:
    """Return what a block will be, without what it will hold."""
    kind = str(block.get("type"))
    if kind in _FINAL:
        kept = {key: block[key] for key in ("id", "name", "index") if block.get(key) is not None}
        return {"type": kind, "id": None, "name": None, **kept, "args": ""}
    if kind in _GROWS:
        field = _GROWS[kind][0]
        left = {field, "index", "annotations"}
        return {**{key: value for key, value in block.items() if key not in left}, field: ""}
    light = {key: value for key, value in block.items() if key not in _HEAVY}
    if kind in _EMPTY:
        field, nothing = _EMPTY[kind]
        light[field] = nothing
    return light


def delta_of(block: Block) -> Block | None:
    """Return what a piece adds to its block; None if it adds nothing that grows."""
    growing = _GROWS.get(str(block.get("type")))
    if growing is None:
        data = block.get("data")
        return {"type": "data-delta", "data": data} if data else None
    field, kind = growing
    added = block.get(field)
    return {"type": kind, field: added} if added else None


def joined(whole: Block, piece: Block) -> Block:
    """Add a piece to its block. What does not grow is taken from the newest piece that has it."""
    kind = str(whole.get("type"))
    field = _GROWS[kind][0] if kind in _GROWS else "data"
    known = {key: value for key, value in piece.items() if value is not None}
    grown = {**whole, **known}
    if whole.get(field) is not None and field in known:
        grown[field] = whole[field] + known[field]
    if whole.get("extras") and known.get("extras"):
        grown["extras"] = {**whole["extras"], **known["extras"]}
    return grown


def finished(block: Block) -> Block:
    """Give a block in its last form: the arguments of a call are read now."""
    kind = str(block.get("type"))
    if kind not in _FINAL:
        return block
    left = {"index"} if kind == "tool_call_chunk" else set()
    kept = {key: value for key, value in block.items() if value is not None and key not in left}
    raw = block.get("args") or "{}"
    try:
        args = orjson.loads(raw)
    except orjson.JSONDecodeError:
        why = "Failed to parse tool call arguments as JSON"
        nothing = {"id": None, "name": None}
        return {**nothing, **kept, "type": "invalid_tool_call", "args": raw, "error": why}
    return {"id": "", "name": "", **kept, "type": _FINAL[kind], "args": args}
