"""One block of a messages stream: put together piece by piece, and written on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.agent.models.anthropic_answer import GROWING
from checkrail.agent.models.arguments import json_object
from checkrail.agent.models.checked import list_in, text_in
from checkrail.agent.models.sdk_errors import InvalidAnswer
from checkrail.gateway.formats.base import Body
from checkrail.gateway.formats.growing import Growing, merged
from checkrail.gateway.formats.json_bytes import write_json, write_text
from checkrail.gateway.sse import event

DELTAS = {field: kind for kind, field in GROWING.items()}
"""Which kind of piece makes each field of a block longer."""

FIELDS = {
    "citations_delta": ("citation", "citations"),
    "input_json_delta": ("partial_json", "input"),
}
"""Kinds of pieces that name what they bring otherwise than the block does."""


OWNERS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Of which block a piece is, where that is known: hooks would not look for it in another."""


class BlockDraft:
    """A block that is still coming, and what of it the caller has.

    The input of a tool that the caller runs stays the text that came, JSON or not.
    """

    def __init__(self, index: int, start: Mapping[str, Any]) -> None:
        self.index = index
        self.type = text_in(start.get("type"), "the type of a block")
        self.opened = Growing(start)
        self.closed = Growing()
        self._start = dict(start)
        if self.type == "text":
            self._start["text"] = text_in(start.get("text"), "a text")
        list_in(start.get("citations"), "its citations")
        self._fields: dict[str, Growing] = {}

    def add(self, delta: Mapping[str, Any]) -> list[Growing]:
        """Take a piece of it, and give what has grown."""
        kind = text_in(delta.get("type"), "the type of a delta")
        if self.type in OWNERS.values() and OWNERS.get(kind, self.type) != self.type:
            raise InvalidAnswer(f"a piece of it does not belong into a block of {self.type!r}")
        if kind in GROWING or kind in FIELDS:
            source, field = FIELDS.get(kind) or (GROWING[kind], GROWING[kind])
            value = delta.get(source)
            grown = {field: value if field == "citations" else text_in(value, f"a {source}")}
        else:
            grown = {name: value for name, value in delta.items() if name != "type"}
        touched = []
        for name, value in grown.items():
            growing = self._fields.get(name)
            if growing is None:
                growing = self._fields[name] = Growing()
            growing.pieces.append(value)
            touched.append(growing)
        return touched

    def whole(self) -> Body:
        """Return the block as it stands in a whole answer."""
        block = dict(self._start)
        for name, growing in self._fields.items():
            if name == "input":
                block[name] = self._input(growing.text)
            elif name == "citations":
                block[name] = [*(block.get(name) or ()), *growing.pieces]
            else:
                block[name] = merged([block.get(name), *growing.pieces])
        return block

    def _input(self, text: str) -> Any:
        if self.type == "tool_use":
            return text or self._start.get("input")
        try:
            return json_object(text) if text else self._start.get("input")
        except ValueError:
            return text

    def passed(self, name: str) -> str:
        """Return what the caller has of a field that is a text."""
        start = self._start.get(name)
        growing = self._fields.get(name)
        return (start if isinstance(start, str) else "") + (growing.passed if growing else "")

    @property
    def cited(self) -> int:
        """How many citations the caller has."""
        growing = self._fields.get("citations")
        return len(self._start.get("citations") or ()) + (growing.sent if growing else 0)

    def more(self, block: Mapping[str, Any]) -> Iterator[bytes]:
        """Write what the caller lacks of it; it is open, and is to become this block."""
        for name, value in _texts(block):
            passed = self.passed(name)
            if value.startswith(passed) and len(value) > len(passed):
                yield _delta(self.index, name, value[len(passed) :])


def written_block(index: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    """Write a whole block: its start, what fills it, and its end."""
    start = dict(block)
    texts = _texts(block)
    for name, _ in texts:
        start[name] = {} if name == "input" else ""
    citations = (block.get("citations") or ()) if block.get("type") == "text" else ()
    if citations:
        start["citations"] = []
    yield block_event("content_block_start", index, content_block=start)
    yield from cited(index, citations)
    for name, value in texts:
        if value:
            yield _delta(index, name, value)
    yield block_event("content_block_stop", index)


def cited(index: int, citations: Any) -> Iterator[bytes]:
    """Write citations of a block."""
    for citation in citations:
        delta = {"type": "citations_delta", "citation": citation}
        yield block_event("content_block_delta", index, delta=delta)


def block_event(name: str, index: int, **fields: Any) -> bytes:
    """Write an event about one block."""
    return event(write_json({"type": name, "index": index, **fields}), name)


def text_delta(index: int, text: str) -> bytes:
    """Write more of a text."""
    return _delta(index, "text", text)


def _delta(index: int, name: str, text: str) -> bytes:
    filled = {"type": "input_json_delta", "partial_json": text}
    delta = filled if name == "input" else {"type": DELTAS[name], name: text}
    return block_event("content_block_delta", index, delta=delta)


def _texts(block: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a block that come in pieces."""
    found: list[tuple[str, str]] = []
    match block:
        case {"type": "text", "text": str(text)}:
            found.append(("text", text))
        case {"type": "thinking", "thinking": str(text)}:
            found.append(("thinking", text))
            if isinstance(block.get("signature"), str):
                found.append(("signature", block["signature"]))
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "input": given}:
            text = given if isinstance(given, str) else write_text(given) if given else ""
            found.append(("input", text))
    return found
