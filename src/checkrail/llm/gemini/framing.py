"""Streams of the Gemini API: server-sent events, or one array in JSON that comes in pieces."""

from __future__ import annotations

import re
from typing import Any, Protocol

from checkrail.llm.json_bytes import is_json, write_json
from checkrail.llm.sse import EventSplitter, Piece, Splitter, write_event

_SIGN = re.compile(rb'["\\{}\[\]]')
_IN_TEXT = re.compile(rb'["\\]')


class Framing(Protocol):
    """How the pieces of a stream stand on the wire."""

    content_type: bytes
    keep_alive: bytes
    """White space, for the official SDKs take a comment for a broken answer."""

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its pieces."""

    def write(self, told: Any, *, begun: bool) -> bytes:
        """Write a piece; `begun` says whether there was one before it."""

    def write_error(self, told: Any, *, begun: bool) -> bytes:
        """Write an error, and the end of the stream."""

    def relay_error(self, piece: Piece, *, begun: bool) -> bytes:
        """Write an error of the upstream, and the end of the stream."""

    def write_end(self) -> bytes:
        """Write the end of the stream."""


class Events:
    """Server-sent events. An error is no event, but JSON as it is: so clients look for it."""

    content_type = b"text/event-stream"
    keep_alive = b"\n\n"

    def open_splitter(self) -> Splitter:
        """Return what cuts a stream into its events."""
        return _ErrorSplitter()

    def write(self, told: Any, *, begun: bool) -> bytes:  # noqa: ARG002 - events stand for themselves
        """Write an event."""
        return write_event(write_json(told))

    def write_error(self, told: Any, *, begun: bool) -> bytes:  # noqa: ARG002 - the same
        """Write an error."""
        return write_json(told) + b"\n\n"

    def relay_error(self, piece: Piece, *, begun: bool) -> bytes:  # noqa: ARG002 - the same
        """Return an error of the upstream as it came."""
        return piece.raw

    def write_end(self) -> bytes:
        """Nothing marks the end."""
        return b""


class Array:
    """One array, whose items are the pieces."""

    content_type = b"application/json"
    keep_alive = b"\n"

    def open_splitter(self) -> Splitter:
        """Return what cuts an array into its items."""
        return ArraySplitter()

    def write(self, told: Any, *, begun: bool) -> bytes:
        """Write an item, with the bracket or the comma before it."""
        return (b",\r\n" if begun else b"[") + write_json(told)

    def write_error(self, told: Any, *, begun: bool) -> bytes:
        """Write an error as the last item."""
        return self.write(told, begun=begun) + self.write_end()

    def relay_error(self, piece: Piece, *, begun: bool) -> bytes:
        """Write an error of the upstream as the last item."""
        return (b",\r\n" if begun else b"[") + piece.data + self.write_end()

    def write_end(self) -> bytes:
        """Write the closing bracket."""
        return b"\n]\n"


class _ErrorSplitter(EventSplitter):
    """Cuts a stream into its events; what is no event and yet JSON is what clients read as one."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """Add more of the stream, and return the events that are complete now."""
        return [*map(_read_plain, super().feed(chunk))]


def _read_plain(piece: Piece) -> Piece:
    if not piece.odd or piece.data or not is_json(piece.raw):
        return piece
    return Piece(piece.raw, None, piece.raw.strip())


class ArraySplitter:
    """Cuts an array into its items, without losing a byte of it."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._at = 0
        self._start = 0
        self._depth = 0
        self._in_text = False
        self._closed = False

    def feed(self, chunk: bytes) -> list[Piece]:
        """Add more of the stream, and return the items that are complete now."""
        self._left += chunk
        found: list[Piece] = []
        while not self._closed and (sign := self._next_sign()):
            piece = self._read_sign(sign)
            if piece is not None:
                found.append(piece)
        if self._closed and self._left:
            found.append(self._take(len(self._left), b""))
        return found

    def _next_sign(self) -> bytes:
        pattern = _IN_TEXT if self._in_text else _SIGN
        match = pattern.search(self._left, self._at)
        if match is None:
            self._at = len(self._left)
            return b""
        self._at = match.end()
        if match.group() == b"\\":
            if self._at == len(self._left):  # what it stands before has not come yet
                self._at -= 1
                return b""
            self._at += 1
        return match.group()

    def _read_sign(self, sign: bytes) -> Piece | None:
        if sign == b'"':
            self._in_text = not self._in_text
        elif sign in b"{[":
            self._depth += 1
            if self._depth == 2:
                self._start = self._at - 1
        elif sign in b"}]":
            self._depth -= 1
            if self._depth == 1:
                return self._take(self._at, bytes(self._left[self._start : self._at]))
            if self._depth <= 0:
                self._closed = True
        return None

    def _take(self, end: int, data: bytes) -> Piece:
        raw = bytes(self._left[:end])
        del self._left[:end]
        self._at = self._start = 0
        told = raw[: len(raw) - len(data)].strip(b"[]{}, \t\r\n")
        return Piece(raw, None, data, odd=bool(told))

    def finish(self) -> list[Piece]:
        """Return what came after the last item, and never became one."""
        if not self._left:
            return []
        left = bytes(self._left)
        return [Piece(left, None, left if left.strip(b"[]{}, \t\r\n") else b"", odd=True)]
