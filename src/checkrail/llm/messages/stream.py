"""Streams of the messages API: read as they pass, and written on where hooks changed the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.answer_errors import InvalidAnswer
from checkrail.llm.answer_fields import list_in, object_in, text_in
from checkrail.llm.json_bytes import read_object, to_json_text, write_json
from checkrail.llm.messages.answer_draft import GROWING, says_something
from checkrail.llm.messages.blocks import PlacedBlock
from checkrail.llm.messages.response import DETAILS, OF_ANSWER, read_answer, write_placed_answer
from checkrail.llm.other_fields import UNKNOWN, add_earlier, find_earlier, write_other_fields
from checkrail.llm.provider_errors import WRONG, unreadable_error
from checkrail.llm.sse import Piece, write_event
from checkrail.llm.stop_reasons import counts_differ
from checkrail.llm.stream_reader import BufferedStreamReader, StreamBuffer, merge_pieces
from checkrail.llm.tool_arguments import json_object
from checkrail.llm.unknown_calls import OF_PROVIDER, begins_call, has_call
from checkrail.llm.wire_format import Body, Kind, UnreadableError

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
        self.may_call = self.type == "tool_use" or begins_call(start)
        self.opened = StreamBuffer(start)
        self.closed = StreamBuffer()
        self._start = dict(start)
        if self.type == "text":
            self._start["text"] = text_in(start.get("text"), "a text")
        list_in(start.get("citations"), "its citations")
        self._fields: dict[str, StreamBuffer] = {}

    def add(self, delta: Mapping[str, Any]) -> list[StreamBuffer]:
        """Add a piece of it, and return the buffers that have grown."""
        kind = text_in(delta.get("type"), "the type of a delta")
        if self.type in OWNERS.values() and OWNERS.get(kind, self.type) != self.type:
            raise InvalidAnswer(f"a piece of it does not belong into a block of {self.type!r}")
        if kind in GROWING or kind in FIELDS:
            source, field = FIELDS.get(kind) or (GROWING[kind], GROWING[kind])
            value = delta.get(source)
            grown = {field: value if field == "citations" else text_in(value, f"a {source}")}
        else:
            grown = {name: value for name, value in delta.items() if name != "type"}
        is_known = self.type in OF_PROVIDER or kind in GROWING or kind == "citations_delta"
        self.may_call = self.may_call or (not is_known and begins_call(grown))
        touched = []
        for name, value in grown.items():
            growing = self._fields.get(name)
            if growing is None:
                growing = self._fields[name] = StreamBuffer()
            growing.pieces.append(value)
            touched.append(growing)
        return touched

    def to_block(self) -> Body:
        """Return the block as it stands in a whole answer."""
        block = dict(self._start)
        for name, growing in self._fields.items():
            if name == "input" and all(isinstance(piece, str) for piece in growing.pieces):
                block[name] = self._parse_input(growing.text)
            elif name == "citations":
                block[name] = [*(block.get(name) or ()), *growing.pieces]
            else:
                block[name] = merge_pieces([block.get(name), *growing.pieces])
        return block

    def _parse_input(self, text: str) -> Any:
        if self.type == "tool_use":
            return text or self._start.get("input")
        try:
            return json_object(text) if text else self._start.get("input")
        except ValueError:
            return text

    def sent_text(self, name: str) -> str:
        """Return what the caller has of a field that is a text."""
        start = self._start.get(name)
        growing = self._fields.get(name)
        return (start if isinstance(start, str) else "") + (growing.sent_text if growing else "")

    @property
    def sent_citations(self) -> int:
        """How many citations the caller has."""
        growing = self._fields.get("citations")
        return len(self._start.get("citations") or ()) + (growing.sent if growing else 0)

    def write_missing(self, block: Mapping[str, Any]) -> Iterator[bytes]:
        """Write what the caller lacks of it; it is open, and is to become this block."""
        for name, value in _streamed_fields(block):
            passed = self.sent_text(name)
            if value.startswith(passed) and len(value) > len(passed):
                yield _write_delta(self.index, name, value[len(passed) :])


def write_block(index: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    """Write a whole block: its start, what fills it, and its end."""
    start = dict(block)
    texts = _streamed_fields(block)
    for name, _ in texts:
        start[name] = {} if name == "input" else ""
    citations = (block.get("citations") or ()) if block.get("type") == "text" else ()
    if citations:
        start["citations"] = []
    yield write_block_event("content_block_start", index, content_block=start)
    yield from write_citations(index, citations)
    for name, value in texts:
        if value:
            yield _write_delta(index, name, value)
    yield write_block_event("content_block_stop", index)


def write_citations(index: int, citations: Any) -> Iterator[bytes]:
    """Write citations of a block."""
    for citation in citations:
        delta = {"type": "citations_delta", "citation": citation}
        yield write_block_event("content_block_delta", index, delta=delta)


def write_block_event(name: str, index: int, **fields: Any) -> bytes:
    """Write an event about one block."""
    return write_event(write_json({"type": name, "index": index, **fields}), name)


def write_text_delta(index: int, text: str) -> bytes:
    """Write more of a text."""
    return _write_delta(index, "text", text)


def _write_delta(index: int, name: str, text: str) -> bytes:
    filled = {"type": "input_json_delta", "partial_json": text}
    delta = filled if name == "input" else {"type": DELTAS[name], name: text}
    return write_block_event("content_block_delta", index, delta=delta)


def _streamed_fields(block: Mapping[str, Any]) -> list[tuple[str, str]]:
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
            text = given if isinstance(given, str) else to_json_text(given) if given else ""
            found.append(("input", text))
    return found


EVENTS = frozenset(
    {"message_start", "message_delta", "message_stop", "ping", "error"}
    | {"content_block_start", "content_block_delta", "content_block_stop"}
)


COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")

OF_DELTA = frozenset({"type", "delta", "usage"})
OF_ENDING = frozenset({"stop_reason", "stop_sequence", DETAILS, "container"})
OF_EVENTS = {
    "message_start": frozenset({"type", "message"}),
    "content_block_start": frozenset({"type", "index", "content_block"}),
    "content_block_delta": frozenset({"type", "index", "delta"}),
    "content_block_stop": frozenset({"type", "index"}),
    "message_stop": frozenset({"type"}),
}
"""What events have; more of the end of a message is a field of the answer."""

OF_DELTAS = {kind: frozenset({"type", field}) for kind, field in GROWING.items()}
OF_DELTAS |= {kind: frozenset({"type", source}) for kind, (source, _) in FIELDS.items()}


class MessagesStreamReader(BufferedStreamReader):
    """A streamed answer. It has ended when its stop reason was sent."""

    def __init__(self) -> None:
        super().__init__(read_answer)
        self._start = StreamBuffer()
        self._blocks: dict[int, BlockDraft] = {}
        self._deltas = StreamBuffer()
        self._stop = StreamBuffer()
        self._unknown = StreamBuffer()
        self._beside: list[Body] = []

    @property
    def has_ended(self) -> bool:
        """Whether the answer has come to its end."""
        return self._error is None and bool(self._stop.pieces or self._stop_reason)

    @property
    def _stop_reason(self) -> Any:
        told = (object_in(delta.get("delta"), "a delta") for delta in self._deltas.pieces)
        return next(filter(None, (delta.get("stop_reason") for delta in told)), None)

    def read_piece(self, piece: Piece) -> Kind:
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
            found = self._read_event(kind, told, piece)
            return "tool" if self._keep_beside(told) else found
        except WRONG as error:
            raise unreadable_error("stream", error) from error

    def _read_event(self, kind: Any, told: Body, piece: Piece) -> Kind:
        match kind:
            case "content_block_delta":
                block = self._find_block(told.get("index"))
                self._touched += block.add(object_in(told.get("delta"), "a delta"))
                return _block_kind(block)
            case "content_block_start":
                return _block_kind(self._open_block(told.get("index"), told.get("content_block")))
            case "content_block_stop":
                block = self._find_block(told.get("index"))
                self._add_to_buffer(block.closed, told)
                return "tool" if block.may_call else "quiet"
            case "message_start":
                return self._start_message(object_in(told.get("message"), "its message"))
            case "message_delta":
                object_in(told.get("delta"), "a delta")
                self._add_to_buffer(self._deltas, told)
                return "tool" if begins_call(_ending_fields(told)) else "quiet"
            case "message_stop":
                self._add_to_buffer(self._stop, told)
                return "end"
        self._add_to_buffer(self._unknown, (piece, told))
        return "tool" if has_call(told) else "text"

    def _keep_beside(self, told: Body) -> bool:
        """Keep what an event has that its API does not know; return whether it may be a call."""
        if told.get("type") not in OF_EVENTS:
            return False
        delta = told.get("delta")
        known = OF_EVENTS[told["type"]]
        beside = {name: told[name] for name in told if name not in known}
        if told["type"] == "content_block_delta" and isinstance(delta, dict):
            own = OF_DELTAS.get(str(delta.get("type")), delta.keys())
            beside |= {name: delta[name] for name in delta if name not in own}
        if beside:
            self._beside.append(beside)
        return begins_call(beside)

    def _start_message(self, message: Mapping[str, Any]) -> Kind:
        if self._start.pieces:
            raise InvalidAnswer("it begins twice")
        self._add_to_buffer(self._start, message)
        blocks = list_in(message.get("content"), "its content")
        for index, block in enumerate(blocks):
            self._add_to_buffer(self._open_block(index, block).closed, block)
        kinds: set[Kind] = {_block_kind(block) for block in self._blocks.values()}
        others = {name: message[name] for name in message if name not in OF_ANSWER}
        return "tool" if "tool" in kinds or begins_call(others) else "text" if kinds else "quiet"

    def _open_block(self, index: Any, given: Any) -> BlockDraft:
        if not isinstance(index, int) or index in self._blocks:
            raise InvalidAnswer("its blocks are not numbered")
        block = BlockDraft(index, object_in(given, "a block of its content"))
        self._blocks[index] = block
        self._touched.append(block.opened)
        return block

    def _find_block(self, index: Any) -> BlockDraft:
        block = self._blocks.get(index) if isinstance(index, int) else None
        if block is None:
            raise InvalidAnswer("a piece of it belongs to no block")
        return block

    def _add_to_buffer(self, growing: StreamBuffer, piece: Any) -> None:
        growing.pieces.append(piece)
        self._touched.append(growing)

    def _build_body(self) -> Body:
        body: Body = dict(self._start.pieces[0]) if self._start.pieces else {"type": "message"}
        usage = _known_counts(body.get("usage"))
        for told in self._deltas.pieces:
            others = {name: told[name] for name in told if name not in OF_DELTA}
            for more in (others, told.get("delta") or {}):
                replaced = {name: body[name] for name in more if name in body}
                add_earlier(body, find_earlier(replaced, more, OF_ANSWER))
                body |= more
            body["usage"] = usage = {**usage, **_known_counts(told.get("usage"))}
        body["content"] = [block.to_block() for block in self._blocks.values()]
        if events := [*(told for _, told in self._unknown.pieces), *self._beside]:
            body[UNKNOWN] = events
        return body

    def write_rest(self, after: AssistantMessage) -> Iterator[bytes]:
        """Write the end of the stream for a caller who has what was sent."""
        body, before = self._read_answer()
        written, blocks = write_placed_answer(body, before, after)
        others = written.pop(UNKNOWN, [])
        counted = counts_differ(before.usage, after.usage)
        if not self._start.begun:
            start = self._start.pieces[0] if self._start.pieces else {}
            yield _write_start(write_other_fields(start, before, after), written, counted=counted)
        yield from self._write_blocks(blocks)
        yield from self._write_unknown(others)
        if not self._deltas.begun:
            told: Body = merge_pieces(self._deltas.pieces) or {"type": "message_delta"}
            told = write_other_fields(told, before, after)
            told["delta"] = write_other_fields(told.get("delta") or {}, before, after)
            yield _write_ending(told, written, counted=counted)
        if not self._stop.begun:
            yield write_event(write_json({"type": "message_stop"}), "message_stop")

    def _write_unknown(self, others: Any) -> Iterator[bytes]:
        """Write unknown events as hooks left them, as far as they are still events."""
        after = others if isinstance(others, list) else []
        pieces = [*zip(self._unknown.pieces, after, strict=False)]
        for (piece, told), now in pieces[self._unknown.sent :]:
            if now == told:
                yield piece.raw
            elif isinstance(now, dict):
                yield write_event(write_json(now), piece.event or "")

    def _write_blocks(self, blocks: list[PlacedBlock]) -> Iterator[bytes]:
        """Write the blocks after those that were sent, the last of which may be open still."""
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
                yield from _write_more_text(left, draft, torn=torn is not None)
            elif torn is not None:
                yield from draft.write_missing(torn)
            yield write_block_event("content_block_stop", draft.index)
        for placed in left:
            if says_something(placed.block):
                yield from write_block(index, placed.block)
                index += 1


def write_stream(body: Body) -> Iterator[bytes]:
    """Write a whole answer as a stream."""
    yield _write_start({}, body)
    for index, block in enumerate(body["content"]):
        yield from write_block(index, block)
    delta = {name: body[name] for name in ("stop_reason", "stop_sequence")}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    told = {"type": "message_delta", "delta": delta, "usage": usage}
    yield write_event(write_json(told), "message_delta")
    yield write_event(write_json({"type": "message_stop"}), "message_stop")


def _write_ending(told: Body, written: Body, *, counted: bool) -> bytes:
    delta = {"stop_sequence": None} | told["delta"]
    delta["stop_reason"] = written.get("stop_reason")
    if DETAILS in written:
        delta[DETAILS] = written[DETAILS]
    usage = told.get("usage") or {"output_tokens": 0}
    if counted:  # here all can be counted anew, whatever the start of the stream has said
        usage |= {name: written["usage"][name] for name in COUNTS if name in written["usage"]}
    ended = told | {"type": "message_delta", "delta": delta, "usage": usage}
    return write_event(write_json(ended), "message_delta")


def _write_start(message: Mapping[str, Any], written: Body, *, counted: bool = False) -> bytes:
    begun: Body = {"stop_reason": None, "stop_sequence": None, "content": []}
    told = {**written, **message, **begun, "model": written.get("model")}
    if counted:
        told["usage"] = written["usage"]
    return write_event(write_json({"type": "message_start", "message": told}), "message_start")


def _ending_fields(told: Body) -> Body:
    """Return the fields of the end of a message that its API does not know."""
    others = {name: told[name] for name in told if name not in OF_DELTA}
    delta = told.get("delta") or {}
    return others | {name: delta[name] for name in delta if name not in OF_ENDING}


def _known_counts(usage: Any) -> Body:
    given = usage.items() if isinstance(usage, Mapping) else ()
    return {name: count for name, count in given if count is not None}


def _block_kind(block: BlockDraft) -> Kind:
    return "tool" if block.may_call else "text"


def _take_block(left: list[PlacedBlock], origin: int) -> Mapping[str, Any] | None:
    """Remove and return the block that was sent from those that are left."""
    for place, placed in enumerate(left):
        if placed.origin == origin:
            return left.pop(place).block
    return None


def _take_text(left: list[PlacedBlock], draft: BlockDraft) -> Mapping[str, Any] | None:
    """Remove a text that was sent from those that are left; return the one that it was cut from."""
    said = draft.sent_text("text")
    while said and left and left[0].block.get("type") == "text":
        block = left[0].block
        text = block["text"]
        if said.startswith(text):
            said = said[len(text) :]
            left.pop(0)
        elif text.startswith(said):
            rest = {**block, "text": text[len(said) :]}
            if block.get("citations"):
                rest["citations"] = block["citations"][draft.sent_citations :]
            left[0] = PlacedBlock(rest, left[0].origin)
            return rest
        else:  # it was changed after it had been passed: it cannot be said again
            left.pop(0)
            said = ""
    return None


def _write_more_text(left: list[PlacedBlock], draft: BlockDraft, *, torn: bool) -> Iterator[bytes]:
    """Write the rest of a text into its block, which is open still."""
    fits = left and left[0].block.get("type") == "text"
    if fits and (torn or not draft.sent_text("text")):
        block = left.pop(0).block
        yield from write_citations(draft.index, block.get("citations") or ())
        yield write_text_delta(draft.index, block["text"])
