"""Event streams of AWS: binary messages, of which Bedrock's have a piece of an answer each."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from checkrail.llm.json_bytes import read_object, write_json
from checkrail.llm.sse import Piece
from checkrail.llm.wire_format import UnreadableError

_PRELUDE = struct.Struct(">II")
_CHECK = struct.Struct(">I")
_LEAST = 16
LONGEST = 24 * 1024 * 1024
"""Bytes that a message may have, as AWS says."""

_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type; 6 and 7 tell their own."""

_TEXT = 7
_BYTES = 6


def write_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Write one message."""
    written = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value.encode()))
        + value.encode()
        for name, value in headers.items()
    )
    size = _LEAST + len(written) + len(payload)
    prelude = _PRELUDE.pack(size, len(written))
    body = prelude + _CHECK.pack(zlib.crc32(prelude)) + written + payload
    return body + _CHECK.pack(zlib.crc32(body))


def write_chunk(data: bytes) -> bytes:
    """Write a piece of an answer."""
    headers = {
        ":event-type": "chunk",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return write_frame(headers, write_json({"bytes": base64.b64encode(data).decode()}))


def write_exception(kind: str, message: str) -> bytes:
    """Write an error that ends a stream."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return write_frame(headers, write_json({"message": message}))


class FrameSplitter:
    """Cuts a stream into its messages, without losing a byte of it."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, chunk: bytes) -> list[Piece]:
        """Add more of the stream, and return the messages that are complete now."""
        self._left += chunk
        found: list[Piece] = []
        while len(self._left) >= _LEAST:
            size, _ = _PRELUDE.unpack_from(self._left)
            if not _LEAST <= size <= LONGEST:  # nobody knows where the next one begins
                size = len(self._left)
            if len(self._left) < size:
                break
            found.append(_read_piece(bytes(self._left[:size])))
            del self._left[:size]
        return found

    def finish(self) -> list[Piece]:
        """Return what came after the last message, and never became one."""
        return [Piece(bytes(self._left), None, b"", odd=True)] if self._left else []


def _read_piece(raw: bytes) -> Piece:
    try:
        headers, payload = read_frame(raw)
        return Piece(raw, None, _read_data(headers, payload))
    except (ValueError, IndexError, KeyError, struct.error, UnreadableError):
        return Piece(raw, None, b"", odd=True)


def read_frame(raw: bytes) -> tuple[dict[str, str], bytes]:
    """Return the headers of a message that are texts, and its payload. Raises `ValueError`."""
    size, length = _PRELUDE.unpack_from(raw)
    sums = (_CHECK.unpack_from(raw, 8)[0], _CHECK.unpack_from(raw, size - 4)[0])
    if sums != (zlib.crc32(raw[:8]), zlib.crc32(raw[: size - 4])):
        raise ValueError("the checksum of a message is wrong")
    at, end = 12, 12 + length
    headers: dict[str, str] = {}
    while at < end:
        name = raw[at + 1 : at + 1 + raw[at]].decode()
        at += 1 + raw[at]
        kind = raw[at]
        at += 1
        if kind in (_TEXT, _BYTES):
            (count,) = struct.unpack_from(">H", raw, at)
            at += 2
        else:
            count = _SIZES[kind]
        if kind == _TEXT:
            headers[name] = raw[at : at + count].decode()
        at += count
    if at != end or end > size - 4:
        raise ValueError("the headers of a message are longer than it says")
    return headers, raw[end : size - 4]


def _read_data(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the event in a message; one that is an exception is an event of an error."""
    if headers.get(":message-type") in ("exception", "error"):
        return write_json({"type": "error", "error": _read_error(headers, payload)})
    if headers.get(":event-type") != "chunk":
        raise ValueError("a message that nobody knows")
    given = read_object(payload, "a message of the stream").get("bytes")
    try:
        return base64.b64decode(given or "", validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError("a piece that is no base64") from error


def _read_error(headers: Mapping[str, str], payload: bytes) -> dict[str, Any]:
    try:
        told = read_object(payload, "an exception").get("message")
    except UnreadableError:
        told = None
    kind = headers.get(":exception-type") or headers.get(":error-code")
    return {"type": kind, "message": told or headers.get(":error-message")}
