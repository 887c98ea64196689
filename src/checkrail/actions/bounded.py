"""The body of an answer, read up to a limit, however small it looks on the wire."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

AUTOMATIC = 47
"""zlib's word for: the format is gzip or zlib, look yourself."""

DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})


async def body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> tuple[bytes, bool]:
    """Read a body, and say whether it was cut off; one layer of compression is taken off.

    Layers upon layers are left on: they are what bombs are made of.
    """
    kept, came = bytearray(), 0
    inflater = zlib.decompressobj(AUTOMATIC) if encoding.strip().lower() in DEFLATED else None
    async for chunk in chunks:
        came += len(chunk)
        room = limit + 1 - len(kept)
        kept += inflater.decompress(chunk, room) if inflater else chunk[:room]
        if max(came, len(kept)) > limit:
            return bytes(kept[:limit]), True
    return bytes(kept), False
