"""A request as it comes in: its path, its body, and whether its caller is still there."""

from __future__ import annotations

import asyncio
import re
import unicodedata
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from checkrail.extras import needs
from checkrail.gateway.errors import InvalidRequestError
from checkrail.gateway.headers import Headers, find_header

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

_CHARSET = re.compile(r"charset\*?\s*=\s*[\"']?([^\s;,\"']*)", re.IGNORECASE)
_LETTERS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""What a server that goes by the header would read as it is read here."""


_END = re.compile(r"[?#\0]")
"""What ends a path for those who look for it after decoding."""

_BETWEEN = re.compile(r"[/\\?#;\0]")
"""What may stand before and behind dots that lead upwards."""

_UNREADABLE = re.compile(r"[%\ufffd]")
"""What is left of a path that is not percent-encoded UTF-8: old servers read that in other ways."""


class ClientDisconnected(Exception):
    """The caller disconnected."""


class IncomingRequest:
    """One request of an ASGI server."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, most: int) -> None:
        self.method: str = scope["method"].upper()  # as it leaves, whatever it came as
        self.headers: Headers = scope["headers"]
        self.query: bytes = scope.get("query_string", b"")
        self.path, self.raw_path = _read_paths(scope)
        self._receive = receive
        self._most = most
        self._read = asyncio.Event()

    @property
    def is_websocket(self) -> bool:
        """Whether it is the handshake of a WebSocket."""
        return (find_header(self.headers, b"upgrade") or "").lower() == "websocket"

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        length = find_header(self.headers, b"content-length")
        return length not in (None, "0") or bool(find_header(self.headers, b"transfer-encoding"))

    async def read_body(self) -> bytes:
        """Return the whole body. Raises `InvalidRequestError` if it is too large."""
        length = find_header(self.headers, b"content-length") or ""
        if length.isdecimal() and int(length) > self._most:
            raise self._too_large()
        found = bytearray()
        async for piece in self.iter_body():
            found += piece
            if len(found) > self._most:
                raise self._too_large()
        return bytes(found)

    async def iter_body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes in."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body", False):
                self._read.set()
                return

    async def read_decoded_body(self) -> bytes:
        """Return the whole body decompressed. Raises `InvalidRequestError` if it is not UTF-8."""
        body = await self.read_body()
        for charset in _CHARSET.findall(self._join_header(b"content-type")):
            if charset.lower() not in _LETTERS:
                raise InvalidRequestError(415, f"The body is in {charset[:40]!r}: JSON is in UTF-8")
        encoding = self._join_header(b"content-encoding").lower() or "identity"
        if encoding == "identity":
            return body
        # A few bytes may become many; others have their turn meanwhile.
        found = await asyncio.to_thread(_unpack_body, body, encoding, self._most)
        if len(found) > self._most:
            raise self._too_large()
        self.headers = [item for item in self.headers if item[0] != b"content-encoding"]
        return found

    def _join_header(self, name: bytes) -> str:
        """Return all values of a header as one."""
        values = [value.decode("latin-1").strip() for key, value in self.headers if key == name]
        return ", ".join(values)

    async def wait_disconnected(self) -> None:
        """Wait until the caller has disconnected; whoever reads the body finds out there."""
        if self.has_body:
            await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _too_large(self) -> InvalidRequestError:
        told = f"The body is larger than gateway.body_bytes allows, which is {self._most} bytes"
        return InvalidRequestError(413, told)


def canonical_path(path: str) -> str | None:
    """Return a path as a lenient server would read it, so that no spelling leads around a hook.

    None if it leads upwards, which no path of an API does, or is not percent-encoded UTF-8.
    """
    while (plain := unquote(path)) != path:
        path = plain
    path = unicodedata.normalize("NFKC", path)
    upwards = (_printable(part).strip() == ".." for part in _BETWEEN.split(path))
    if any(upwards) or _UNREADABLE.search(path):
        return None
    path = _printable(_END.split(path)[0])
    parts = [part.partition(";")[0].strip() for part in path.replace("\\", "/").split("/")]
    return "/" + "/".join(part.casefold() for part in parts if part not in ("", "."))


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))


def _read_paths(scope: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path within the app, decoded and as it was sent."""
    root = scope.get("root_path", "")
    path: str = scope["path"]
    path = path.removeprefix(root) if root and path.startswith(f"{root}/") else path
    raw = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
    written = quote(root)
    raw = raw.removeprefix(written) if written and raw.startswith(f"{written}/") else raw
    return path, raw


_AT_ONCE = 256
"""Bytes of a zstd body that are unpacked at once: no more than some 10 MB can come of them."""

_WINDOW = 32 * 1024 * 1024
"""Bytes that a zstd body may refer back to."""


class _BrokenBodyError(Exception):
    """What came is not what its encoding says."""


_Unpacked = tuple[bytes, bool]
"""What was found, a little more than was allowed at most, and whether it came to its end."""


def _unpack_body(body: bytes, encoding: str, most: int) -> bytes:
    """Return a body unpacked, cut off behind `most` bytes. Raises `InvalidRequestError`."""
    unpack = _ENCODINGS.get(encoding)
    if unpack is None:
        raise InvalidRequestError(
            415, f"The body is encoded as {encoding[:40]!r}, which cannot be read here"
        )
    try:
        found, has_ended = unpack(body, most)
    except (zlib.error, _BrokenBodyError):
        raise InvalidRequestError(400, f"The body is not encoded as {encoding}") from None
    if not has_ended and len(found) <= most:
        raise InvalidRequestError(400, "The body ends before its encoding does")
    return found


def _unpack_gzip(body: bytes, most: int) -> _Unpacked:
    return _unpack_zlib(body, most, 31)


def _unpack_deflate(body: bytes, most: int) -> _Unpacked:
    return _unpack_zlib(body, most, 15)


def _unpack_zlib(body: bytes, most: int, window: int) -> _Unpacked:
    reader = zlib.decompressobj(window)
    return reader.decompress(body, most + 1), reader.eof


def _unpack_zstd(body: bytes, most: int) -> _Unpacked:
    with needs("zstandard", "a body in zstd", "gateway"):
        import zstandard
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    found = bytearray()
    try:
        for start in range(0, len(body), _AT_ONCE):
            found += reader.decompress(body[start : start + _AT_ONCE])
            if reader.eof or len(found) > most:
                break
    except (zstandard.ZstdError, MemoryError) as error:
        raise _BrokenBodyError from error
    return bytes(found), reader.eof


def _unpack_brotli(body: bytes, most: int) -> _Unpacked:
    with needs("brotli", "a body in br", "gateway"):
        import brotli
    reader = brotli.Decompressor()
    try:
        found = bytearray(reader.process(body, output_buffer_limit=most + 1))
        while not reader.is_finished() and len(found) <= most:
            more = reader.process(b"", output_buffer_limit=most + 1)
            if not more:
                break
            found += more
    except (brotli.error, MemoryError) as error:
        raise _BrokenBodyError from error
    return bytes(found), reader.is_finished()


_ENCODINGS: dict[str, Callable[[bytes, int], _Unpacked]] = {
    "gzip": _unpack_gzip,
    "x-gzip": _unpack_gzip,
    "deflate": _unpack_deflate,
    "zstd": _unpack_zstd,
    "br": _unpack_brotli,
}
