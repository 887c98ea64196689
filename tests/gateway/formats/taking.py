"""Reading a stream as the gateway does: cut anywhere, and passed on up to some piece."""

from collections.abc import Iterable, Sequence
from typing import Any

from checkrail.engine.values import AssistantMessage
from checkrail.llm.sse import EventSplitter, Piece
from checkrail.llm.wire_format import Kind


def pieces_of(data: bytes, cuts: Iterable[int] = ()) -> list[Piece]:
    """Give the pieces of a stream that came in these chunks."""
    splitter = EventSplitter()
    pieces: list[Piece] = []
    start = 0
    for end in [*sorted(cuts), len(data)]:
        pieces += splitter.feed(data[start:end])
        start = end
    assert splitter.rest() == b""
    return pieces


def taken(reading: Any, pieces: Sequence[Piece], passed: int = 0) -> tuple[list[Kind], bytes]:
    """Read pieces, of which the first are passed on; give what each is about, and what passed."""
    kinds: list[Kind] = []
    out = b""
    for place, piece in enumerate(pieces):
        kinds.append(reading.read_piece(piece))
        if place < passed:
            reading.mark_sent()
            out += piece.raw
    return kinds, out


def read(reading: Any, data: bytes) -> AssistantMessage:
    """Read a whole stream."""
    taken(reading, pieces_of(data))
    return reading.message
