"""Messages as the protocol tells them: a start, blocks that grow, and an end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from checkrail.server.streams.blocks import Block, blocks_of, delta_of, finished, joined, opened
from checkrail.server.streams.partials import is_chunk

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
    """The messages of one run that are being spoken.

    What a tool answered is left out: the tools channel and the state have it.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Speaking] = {}
        self._stands_for: dict[str, str] = {}

    def feed(self, ns: Namespace, data: Any) -> list[Told]:
        """Take in a message or a piece of one, with its metadata."""
        message, metadata = data
        role = _ROLES.get(str(message.get("type")))
        if role is None:
            return []
        told = self._piece if is_chunk(message) else self._whole
        return [(ns, event) for event in told(ns, role, message, metadata)]

    def close(self, ns: Namespace | None = None, *, error: str | None = None) -> list[Told]:
        """End what is still open, in one namespace or everywhere; badly, if an error is given."""
        names = [name for name, one in self._open.items() if ns is None or one.ns == ns]
        found: list[Told] = []
        for name in names:
            one = self._open.pop(name)
            ends = one.end() if error is None else one.fail(error)
            found += ((one.ns, event) for event in ends)
        return found

    def _piece(
        self, ns: Namespace, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        name = self._name(ns, message, metadata)
        if name is None:
            return
        speaking = self._open.get(name)
        if speaking is None:
            speaking = self._open[name] = _Speaking(ns, name, _call(metadata))
            yield _start(name, role, message, metadata)
        yield from speaking.add(message)
        if message.get("chunk_position") == "last":
            del self._open[name]
            yield from speaking.end()

    def _name(
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
        same = (ns, _call(metadata))
        others = [each for each, one in self._open.items() if (one.ns, one.call) == same]
        others = [each for each in others if not each.startswith(_STAND_IN)]
        if len(others) == 1:
            return self._stands_for.setdefault(name, others[0])
        return None if others and not any(blocks_of(message)) else name

    def _whole(
        self, ns: Namespace, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        name = str(message.get("id"))
        if name in self._open:
            yield from self._open.pop(name).end()
            return
        speaking = _Speaking(ns, name)
        yield _start(name, role, message, metadata)
        yield from speaking.add(message)
        yield from speaking.end()


def _call(metadata: Mapping[str, Any]) -> Hashable:
    """Return what tells the calls of one node's model from those of others."""
    return tuple(str(metadata.get(key)) for key in ("langgraph_checkpoint_ns", "ls_model_name"))


class _Speaking:
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
        _sum(self._usage, message.get("usage_metadata") or {})
        for key, block in blocks_of(message):
            yield from self._block(key, block)

    def _block(self, key: Hashable, block: Block) -> Iterator[dict[str, Any]]:
        known = self._blocks.get(key)
        if known is None:
            index = len(self._blocks)
            self._blocks[key] = (index, block)
            yield self._event("content-block-start", index=index, content=opened(block))
        else:
            index = known[0]
            self._blocks[key] = (index, joined(known[1], block))
        delta = delta_of(block)
        if delta is not None:
            yield self._event("content-block-delta", index=index, delta=delta)

    def end(self) -> Iterator[dict[str, Any]]:
        for index, block in self._blocks.values():
            yield self._event("content-block-finish", index=index, content=finished(block))
        known = {"usage": self._usage, "metadata": self._metadata}
        yield self._event("message-finish", **{key: value for key, value in known.items() if value})

    def fail(self, error: str) -> Iterator[dict[str, Any]]:
        yield self._event("error", message=error)

    def _event(self, event: str, **data: Any) -> dict[str, Any]:
        return {"event": event, "message_id": self._name, **data}


def _start(
    name: str, role: str, message: Mapping[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    known = {new: metadata[old] for old, new in _KEPT.items() if metadata.get(old) is not None}
    answer = message.get("response_metadata") or {}
    for old, new in (("model_provider", "provider"), ("model_name", "model")):
        if old in answer:
            known[new] = answer[old]
    return {"event": "message-start", "role": role, "id": name, "metadata": known}


def _sum(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping):
            _sum(total.setdefault(key, {}), value)
        elif isinstance(value, (int, float)):
            total[key] = total.get(key, 0) + value
