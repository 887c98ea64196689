"""Streams of the messages API: read as they pass, and written on where hooks changed the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.agent.models.checked import list_in, object_in
from checkrail.agent.models.sdk_errors import InvalidAnswer
from checkrail.engine.values import AssistantMessage
from checkrail.gateway.formats.base import Body, Kind, UnreadableError
from checkrail.gateway.formats.endings import counts_differ
from checkrail.gateway.formats.gathered import Gathered
from checkrail.gateway.formats.growing import Growing, merged
from checkrail.gateway.formats.json_bytes import read_object, write_json
from checkrail.gateway.formats.messages_answers import DETAILS, read_answer, written_answer
from checkrail.gateway.formats.messages_block_draft import (
    BlockDraft,
    block_event,
    cited,
    text_delta,
    written_block,
)
from checkrail.gateway.formats.messages_blocks import Placed
from checkrail.gateway.formats.other_fields import UNKNOWN, with_others
from checkrail.gateway.formats.provider_errors import WRONG, unreadable
from checkrail.gateway.sse import Piece, event

EVENTS = frozenset(
    {"message_start", "message_delta", "message_stop", "ping", "error"}
    | {"content_block_start", "content_block_delta", "content_block_stop"}
)


OF_DELTA = frozenset({"type", "delta", "usage"})


class MessagesReading(Gathered):
    """A streamed answer. It has ended when its stop reason was told."""

    def __init__(self) -> None:
        super().__init__(read_answer)
        self._start = Growing()
        self._blocks: dict[int, BlockDraft] = {}
        self._deltas = Growing()
        self._stop = Growing()
        self._unknown = Growing()

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its end."""
        return self._error is None and bool(self._stop.pieces or self._stop_reason)

    @property
    def _stop_reason(self) -> Any:
        told = (object_in(delta.get("delta"), "a delta") for delta in self._deltas.pieces)
        return next(filter(None, (delta.get("stop_reason") for delta in told)), None)

    def take(self, piece: Piece) -> Kind:
        """Read one piece. Raises `UnreadableError`."""
        if not piece.data or piece.data.isspace():
            return "quiet"
        told = read_object(piece.data, "a piece of the model's stream")
        kind = told.get("type")
        if kind is not None and piece.event in EVENTS and piece.event != kind:
            raise UnreadableError("an event of the model's stream is named otherwise than its type")
        if kind == "ping":
            return "quiet"
        if self._stop.pieces or self._error is not None:
            raise UnreadableError("the stream of the model went on after its end")
        self._answer = None
        if kind == "error" or piece.event == "error":
            self._error = told.get("error") or told
            return "error"
        try:
            return self._take(kind, told, piece)
        except WRONG as error:
            raise unreadable("stream", error) from error

    def _take(self, kind: Any, told: Body, piece: Piece) -> Kind:
        match kind:
            case "content_block_delta":
                block = self._block(told.get("index"))
                self._touched += block.add(object_in(told.get("delta"), "a delta"))
                return _about(block)
            case "content_block_start":
                return _about(self._open(told.get("index"), told.get("content_block")))
            case "content_block_stop":
                block = self._block(told.get("index"))
                self._grow(block.closed, told)
                return "tool" if block.type == "tool_use" else "quiet"
            case "message_start":
                return self._begin(object_in(told.get("message"), "its message"))
            case "message_delta":
                object_in(told.get("delta"), "a delta")
                self._grow(self._deltas, told)
                return "quiet"
            case "message_stop":
                self._grow(self._stop, told)
                return "end"
        self._grow(self._unknown, (piece, told))
        return "text"

    def _begin(self, message: Mapping[str, Any]) -> Kind:
        if self._start.pieces:
            raise InvalidAnswer("it begins twice")
        self._grow(self._start, message)
        blocks = list_in(message.get("content"), "its content")
        for index, block in enumerate(blocks):
            self._grow(self._open(index, block).closed, block)
        kinds: set[Kind] = {_about(block) for block in self._blocks.values()}
        return "tool" if "tool" in kinds else "text" if kinds else "quiet"

    def _open(self, index: Any, given: Any) -> BlockDraft:
        if not isinstance(index, int) or index in self._blocks:
            raise InvalidAnswer("its blocks are not numbered")
        block = BlockDraft(index, object_in(given, "a block of its content"))
        self._blocks[index] = block
        self._touched.append(block.opened)
        return block

    def _block(self, index: Any) -> BlockDraft:
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            raise InvalidAnswer("a piece of it belongs to no block")
        return block

    def _grow(self, growing: Growing, piece: Any) -> None:
        growing.pieces.append(piece)
        self._touched.append(growing)

    def _body(self) -> Body:
        body: Body = dict(self._start.pieces[0]) if self._start.pieces else {"type": "message"}
        usage = _counts(body.get("usage"))
        for told in self._deltas.pieces:
            body |= {name: told[name] for name in told if name not in OF_DELTA}
            body |= told.get("delta") or {}
            body["usage"] = usage = {**usage, **_counts(told.get("usage"))}
        body["content"] = [block.whole() for block in self._blocks.values()]
        if self._unknown.pieces:
            body[UNKNOWN] = [told for _, told in self._unknown.pieces]
        return body

    def rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was passed."""
        body, before = self._read()
        written, blocks = written_answer(body, before, after)
        others = written.pop(UNKNOWN, [])
        if not self._start.begun:
            start = self._start.pieces[0] if self._start.pieces else {}
            yield _start(with_others(start, before, after), written)
        yield from self._blocks_after(blocks)
        yield from self._unknown_after(others)
        if not self._deltas.begun:
            told: Body = merged(self._deltas.pieces) or {"type": "message_delta"}
            told = with_others(told, before, after)
            told["delta"] = with_others(told.get("delta") or {}, before, after)
            yield _ending(told, written, counted=counts_differ(before.usage, after.usage))
        if not self._stop.begun:
            yield event(write_json({"type": "message_stop"}), "message_stop")

    def _unknown_after(self, others: Any) -> Iterator[bytes]:
        """Write events that nobody knows as hooks left them, as far as they are still events."""
        after = others if isinstance(others, list) else []
        pieces = [*zip(self._unknown.pieces, after, strict=False)]
        for (piece, told), now in pieces[self._unknown.sent :]:
            if now == told:
                yield piece.raw
            elif isinstance(now, dict):
                yield event(write_json(now), piece.event or "")

    def _blocks_after(self, blocks: list[Placed]) -> Iterator[bytes]:
        """Go on after the blocks that were passed, the last of which may be open still."""
        left = [*blocks]
        index = 0
        for place, draft in enumerate(self._blocks.values()):
            if not draft.opened.begun:
                continue
            index = draft.index + 1
            torn = _take_text(left, draft) if draft.type == "text" else _take_block(left, place)
            if draft.closed.begun:
                continue
            if draft.type == "text":
                yield from _more_text(left, draft, torn=torn is not None)
            elif torn is not None:
                yield from draft.more(torn)
            yield block_event("content_block_stop", draft.index)
        for placed in left:
            if placed.block.get("type") != "text" or placed.block.get("text"):
                yield from written_block(index, placed.block)
                index += 1


def written_stream(body: Body) -> Iterator[bytes]:
    """Write a whole answer as a stream."""
    yield _start({}, body)
    for index, block in enumerate(body["content"]):
        yield from written_block(index, block)
    delta = {name: body[name] for name in ("stop_reason", "stop_sequence")}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    told = {"type": "message_delta", "delta": delta, "usage": usage}
    yield event(write_json(told), "message_delta")
    yield event(write_json({"type": "message_stop"}), "message_stop")


def _ending(told: Body, written: Body, *, counted: bool) -> bytes:
    delta = {"stop_sequence": None} | told["delta"]
    delta["stop_reason"] = written.get("stop_reason")
    if DETAILS in written:
        delta[DETAILS] = written[DETAILS]
    usage = told.get("usage") or {"output_tokens": 0}
    if counted:
        usage |= {name: written["usage"][name] for name in usage if name in written["usage"]}
    ended = told | {"type": "message_delta", "delta": delta, "usage": usage}
    return event(write_json(ended), "message_delta")


def _start(message: Mapping[str, Any], written: Body) -> bytes:
    begun: Body = {"stop_reason": None, "stop_sequence": None, "content": []}
    told = {**written, **message, **begun, "model": written.get("model")}
    return event(write_json({"type": "message_start", "message": told}), "message_start")


def _counts(usage: Any) -> Body:
    given = usage.items() if isinstance(usage, Mapping) else ()
    return {name: count for name, count in given if count is not None}


def _about(block: BlockDraft) -> Kind:
    return "tool" if block.type == "tool_use" else "text"


def _take_block(left: list[Placed], origin: int) -> Mapping[str, Any] | None:
    """Take the block that was passed out of those that are left."""
    for place, placed in enumerate(left):
        if placed.origin == origin:
            return left.pop(place).block
    return None


def _take_text(left: list[Placed], draft: BlockDraft) -> Mapping[str, Any] | None:
    """Take a text that was passed out of those that are left; give the one that it tore apart."""
    said = draft.passed("text")
    while said and left and left[0].block.get("type") == "text":
        block = left[0].block
        text = block["text"]
        if said.startswith(text):
            said = said[len(text) :]
            left.pop(0)
        elif text.startswith(said):
            rest = {**block, "text": text[len(said) :]}
            if block.get("citations"):
                rest["citations"] = block["citations"][draft.cited :]
            left[0] = Placed(rest, left[0].origin)
            return rest
        else:  # it was changed after it had been passed: it cannot be said again
            left.pop(0)
            said = ""
    return None


def _more_text(left: list[Placed], draft: BlockDraft, *, torn: bool) -> Iterator[bytes]:
    """Write the rest of a text into its block, which is open still."""
    fits = left and left[0].block.get("type") == "text"
    if fits and (torn or not draft.passed("text")):
        block = left.pop(0).block
        yield from cited(draft.index, block.get("citations") or ())
        yield text_delta(draft.index, block["text"])
