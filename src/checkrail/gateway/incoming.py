"""A request as it comes in: its path, its body, and whether its caller is still there."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from checkrail.gateway.errors import NotTakenError
from checkrail.gateway.headers import Headers, value_of

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib calls the encodings that a body may come in."""


_CHARSET = re.compile(r"charset\*?\s*=\s*[\"']?([^\s;,\"']*)", re.IGNORECASE)
_LETTERS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""What a server that goes by the header would read as it is read here."""


_END = re.compile(r"[?#\0]")
"""What ends a path for those who look for it after decoding."""


class Gone(Exception):
    """The caller went away."""


class Incoming:
    """One request of an ASGI server."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, most: int) -> None:
        self.method: str = scope["method"].upper()  # as it leaves, whatever it came as
        self.headers: Headers = scope["headers"]
        self.query: bytes = scope.get("query_string", b"")
        self.path, self.raw_path = _paths(scope)
        self._receive = receive
        self._most = most
        self._read = asyncio.Event()

    @property
    def has_body(self) -> bool:
        """Whether a body is announced."""
        length = value_of(self.headers, b"content-length")
        return length not in (None, "0") or bool(value_of(self.headers, b"transfer-encoding"))

    async def body(self) -> bytes:
        """Return the whole body. Raises `NotTakenError` if it is too large."""
        length = value_of(self.headers, b"content-length") or ""
        if length.isdecimal() and int(length) > self._most:
            raise self._too_large()
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) > self._most:
                raise self._too_large()
        return bytes(found)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes in."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body", False):
                self._read.set()
                return

    async def decoded(self) -> bytes:
        """Return the whole body without compression, if everybody reads it as the same letters."""
        body = await self.body()
        for charset in _CHARSET.findall(self._all(b"content-type")):
            if charset.lower() not in _LETTERS:
                raise NotTakenError(415, f"The body is in {charset[:40]!r}: JSON is in UTF-8")
        encoding = self._all(b"content-encoding").lower() or "identity"
        if encoding == "identity":
            return body
        if encoding not in _WINDOWS:
            raise NotTakenError(
                415, f"The body is encoded as {encoding[:40]!r}, which cannot be read here"
            )
        self.headers = [item for item in self.headers if item[0] != b"content-encoding"]
        reader = zlib.decompressobj(_WINDOWS[encoding])
        try:
            found = reader.decompress(body, self._most + 1)
        except zlib.error:
            raise NotTakenError(400, f"The body is not encoded as {encoding}") from None
        if len(found) > self._most:
            raise self._too_large()
        if not reader.eof:
            raise NotTakenError(400, "The body ends before its encoding does")
        return found

    def _all(self, name: bytes) -> str:
        """Return all values of a header as one."""
        values = [value.decode("latin-1").strip() for key, value in self.headers if key == name]
        return ", ".join(values)

    async def gone(self) -> None:
        """Wait until the caller has gone away; whoever reads the body is told there."""
        if self.has_body:
            await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _too_large(self) -> NotTakenError:
        told = f"The body is larger than gateway.body_bytes allows, which is {self._most} bytes"
        return NotTakenError(413, told)


def canonical(path: str) -> str | None:
    """Spell a path as a lenient server would read it, so that no spelling leads around a hook.

    None if it leads upwards, which no path of an API does.
    """
    while (plain := unquote(path)) != path:
        path = plain
    path = "".join(filter(str.isprintable, _END.split(path)[0]))
    parts = [part.partition(";")[0].strip() for part in path.replace("\\", "/").split("/")]
    if ".." in parts:
        return None
    return "/" + "/".join(part.casefold() for part in parts if part not in ("", "."))


def _paths(scope: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path within the app, decoded and as it was sent."""
    root = scope.get("root_path", "")
    path: str = scope["path"]
    path = path.removeprefix(root) if root and path.startswith(f"{root}/") else path
    raw = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
    written = quote(root)
    raw = raw.removeprefix(written) if written and raw.startswith(f"{written}/") else raw
    return path, raw
