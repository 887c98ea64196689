"""Messages as the protocol tells them: a start, blocks that grow, and an end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import orjson

from checkrail.server.streams.partials import is_chunk, is_plain, revive_message

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
    found = [dict(block) for block in _langchain_blocks(message)]
    return [(_block_key(block, at), block) for at, block in enumerate(found)]


def _langchain_blocks(message: Mapping[str, Any]) -> list[Any]:
    """Let LangChain read the content, for it knows what each provider means by it."""
    whole = revive_message(message)
    if is_chunk(message):
        return [*whole.content_blocks]
    invalid = getattr(whole, "invalid_tool_calls", None) or ()
    return [*whole.content_blocks, *({**call, "type": "invalid_tool_call"} for call in invalid)]


def _block_key(block: Block, at: int) -> Hashable:
    index = block.get("index")
    return block.get("type"), f"at {at}" if index is None else index


def opening_block(block: Block) -> Block:
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


def join_blocks(whole: Block, piece: Block) -> Block:
    """Return a block with a piece added; what does not grow is taken from the newest."""
    kind = str(whole.get("type"))
    field = _GROWS[kind][0] if kind in _GROWS else "data"
    known = {key: value for key, value in piece.items() if value is not None}
    grown = {**whole, **known}
    if whole.get(field) is not None and field in known:
        grown[field] = whole[field] + known[field]
    if whole.get("extras") and known.get("extras"):
        grown["extras"] = {**whole["extras"], **known["extras"]}
    return grown


def finish_block(block: Block) -> Block:
    """Return a block in its last form: the arguments of a call are parsed now."""
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


Namespace = tuple[str, ...]
Told = tuple[Namespace, dict[str, Any]]

_ROLES = {
    "ai": "ai",
    "AIMessageChunk": "ai",
    "human": "human",
    "HumanMessageChunk": "human",
    "system": "system",
    "SystemMessageChunk": "system",
}
_STAND_IN = "lc_run--"
_KEPT = {
    "langgraph_node": "langgraph_node",
    "langgraph_step": "langgraph_step",
    "langgraph_checkpoint_ns": "langgraph_checkpoint_ns",
    "lc_agent_name": "lc_agent_name",
    "thread_id": "thread_id",
    "run_id": "run_id",
    "ls_provider": "provider",
    "ls_model_name": "model",
    "ls_model_type": "model_type",
}


class Messages:
    """The messages of one run that are being streamed.

    What a tool answered is left out: the tools channel and the state have it.
    """

    def __init__(self) -> None:
        self._open: dict[str, _OpenMessage] = {}
        self._stands_for: dict[str, str] = {}

    def feed(self, ns: Namespace, data: Any) -> list[Told]:
        """Take in a message or a piece of one, with its metadata."""
        message, metadata = data
        role = _ROLES.get(str(message.get("type")))
        if role is None:
            return []
        told = self._feed_chunk if is_chunk(message) else self._feed_whole
        return [(ns, event) for event in told(ns, role, message, metadata)]

    def close(self, ns: Namespace | None = None, *, error: str | None = None) -> list[Told]:
        """End what is still open, in one namespace or everywhere; badly, if an error is given."""
        names = [name for name, one in self._open.items() if ns is None or one.ns == ns]
        found: list[Told] = []
        for name in names:
            one = self._open.pop(name)
            ends = one.end() if error is None else one.abort(error)
            found += ((one.ns, event) for event in ends)
        return found

    def _feed_chunk(
        self, ns: Namespace, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        name = self._message_id(ns, message, metadata)
        if name is None:
            return
        speaking = self._open.get(name)
        if speaking is None:
            speaking = self._open[name] = _OpenMessage(ns, name, _call_key(metadata))
            yield _start_event(name, role, message, metadata)
        yield from speaking.add(message)
        if message.get("chunk_position") == "last":
            del self._open[name]
            yield from speaking.end()

    def _message_id(
        self, ns: Namespace, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> str | None:
        """Return the id of the message that a piece belongs to; None if it adds nothing to any.

        Where a model gives an id to some of its pieces only, LangChain gives the others one of its
        own. They belong to the message that the same node and model are at.
        """
        name = str(message.get("id"))
        if name in self._open or not name.startswith(_STAND_IN):
            return name
        if name in self._stands_for:
            return self._stands_for[name]
        same = (ns, _call_key(metadata))
        others = [each for each, one in self._open.items() if (one.ns, one.call) == same]
        others = [each for each in others if not each.startswith(_STAND_IN)]
        if len(others) == 1:
            return self._stands_for.setdefault(name, others[0])
        return None if others and not any(blocks_of(message)) else name

    def _feed_whole(
        self, ns: Namespace, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        name = str(message.get("id"))
        if name in self._open:
            yield from self._open.pop(name).end()
            return
        speaking = _OpenMessage(ns, name)
        yield _start_event(name, role, message, metadata)
        yield from speaking.add(message)
        yield from speaking.end()


def _call_key(metadata: Mapping[str, Any]) -> Hashable:
    """Return what tells the calls of one node's model from those of others."""
    return tuple(str(metadata.get(key)) for key in ("langgraph_checkpoint_ns", "ls_model_name"))


class _OpenMessage:
    """One message on its way. Each event names it: messages of one namespace may be interleaved."""

    def __init__(self, ns: Namespace, name: str, call: Hashable = None) -> None:
        self.ns = ns
        self.call = call
        self._name = name
        self._blocks: dict[Hashable, tuple[int, Block]] = {}
        self._usage: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}

    def add(self, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        self._metadata.update(message.get("response_metadata") or {})
        _add_usage(self._usage, message.get("usage_metadata") or {})
        for key, block in blocks_of(message):
            yield from self._add_block(key, block)

    def _add_block(self, key: Hashable, block: Block) -> Iterator[dict[str, Any]]:
        known = self._blocks.get(key)
        if known is None:
            index = len(self._blocks)
            self._blocks[key] = (index, block)
            yield self._build_event(
                "content-block-start", index=index, content=opening_block(block)
            )
        else:
            index = known[0]
            self._blocks[key] = (index, join_blocks(known[1], block))
        delta = delta_of(block)
        if delta is not None:
            yield self._build_event("content-block-delta", index=index, delta=delta)

    def end(self) -> Iterator[dict[str, Any]]:
        for index, block in self._blocks.values():
            yield self._build_event(
                "content-block-finish", index=index, content=finish_block(block)
            )
        known = {"usage": self._usage, "metadata": self._metadata}
        yield self._build_event(
            "message-finish", **{key: value for key, value in known.items() if value}
        )

    def abort(self, error: str) -> Iterator[dict[str, Any]]:
        yield self._build_event("error", message=error)

    def _build_event(self, event: str, **data: Any) -> dict[str, Any]:
        return {"event": event, "message_id": self._name, **data}


def _start_event(
    name: str, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    known = {new: metadata[old] for old, new in _KEPT.items() if metadata.get(old) is not None}
    answer = message.get("response_metadata") or {}
    for old, new in (("model_provider", "provider"), ("model_name", "model")):
        if old in answer:
            known[new] = answer[old]
    return {"event": "message-start", "role": role, "id": name, "metadata": known}


def _add_usage(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping):
            _add_usage(total.setdefault(key, {}), value)
        elif isinstance(value, (int, float)):
            total[key] = total.get(key, 0) + value
