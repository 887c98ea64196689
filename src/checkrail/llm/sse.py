"""Server-sent events as they pass: told apart, whatever the chunks they come in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol

BLANK = re.compile(rb"(?>\r\n|\n|\r){2}")
"""The empty line that ends an event; atomic, so that CR LF is never taken for two ends of lines."""

MARK = b"\xef\xbb\xbf"
"""What may stand at the very beginning of a text, and is no part of it."""


SILENT = frozenset({b"", b"id", b"retry"})
"""Fields of an event that say nothing; a comment is one without a name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One event of a stream, with the bytes that it came as."""

    raw: bytes
    event: str | None
    data: bytes
    odd: bool = False
    """Whether it has lines that mean nothing, so that nobody knows who reads them how."""


class Splitter(Protocol):
    """Cuts a stream into its pieces, without losing a byte of it."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """Add more of the stream, and return the pieces that are complete now."""

    def finish(self) -> list[Piece]:
        """Return what came after the last piece: a piece that lacks its end, or nothing."""


class EventSplitter:
    """Cuts a stream into its events, without losing a byte of it.

    A comment, or an empty line too many, is a piece without data.
    """

    def __init__(self) -> None:
        self._left = bytearray()
        self._seen = 0
        self._returns = False

    def feed(self, chunk: bytes) -> list[Piece]:
        """Add more of the stream, and return the events that are complete now."""
        left = self._left
        self._returns = self._returns or b"\r" in chunk
        end_of = _find_odd_event_end if self._returns else _find_event_end
        if left:
            left += chunk
        data: bytes | bytearray = left or chunk
        pieces: list[Piece] = []
        start, seen = 0, self._seen
        while end := end_of(data, start, seen):
            pieces.append(_parse_piece(bytes(data[start:end])))
            start = seen = end
        if data is left:
            del left[:start]
        else:
            left += data[start:]
        # an empty line may have begun: the last three bytes are looked at again
        self._seen = max(0, len(left) - 3)
        return pieces

    def rest(self) -> bytes:
        """Return what came after the last event, and never became one."""
        return bytes(self._left)

    def finish(self) -> list[Piece]:
        """Return the last event if it lacks its empty line, as what came of it."""
        rest = self.rest()
        return [replace(self.feed(b"\n\n")[0], raw=rest)] if rest else []


def write_event(data: bytes, name: str | None = None) -> bytes:
    """Write one event."""
    head = b"event: %b\n" % name.encode() if name else b""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(re.split(rb"\r\n|\n|\r", data))
    return b"%bdata: %b\n\n" % (head, data)


def _find_event_end(data: bytes | bytearray, start: int, seen: int) -> int:
    """Return where an event ends; an empty line right at its start is one of its own."""
    if data.startswith(b"\n", start):
        return start + 1
    found = data.find(b"\n\n", max(start, seen))
    return found + 2 if found >= 0 else 0


def _find_odd_event_end(data: bytes | bytearray, start: int, seen: int) -> int:
    """Return where an event ends if lines may end otherwise, which takes longer."""
    if data.startswith((b"\n", b"\r"), start):
        return start + (2 if data.startswith(b"\r\n", start) else 1)
    found = BLANK.search(data, max(start, seen))
    return found.end() if found else 0


def _parse_piece(raw: bytes) -> Piece:
    name: str | None = None
    data: list[bytes] = []
    odd = False
    for line in raw.removeprefix(MARK).splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode(errors="replace") or None
        elif field not in SILENT:
            odd = True
    return Piece(raw, name, b"\n".join(data), odd)
