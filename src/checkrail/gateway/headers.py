"""Headers on their way through the gateway: which are passed on, and which are its own affair."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

Headers = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them; their names are in small letters."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Where callers of models put their keys."""

ACCOUNT = CREDENTIALS | {b"openai-organization", b"openai-project"}
"""What belongs to the account of a key, and is wrong with another key."""

OURS = b"x-checkrail-"

_LONGEST_WAIT = 366 * 86400.0

_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    },
)
_OTHER_METHOD = {b"x-http-method", b"x-http-method-override", b"x-method-override"}
_NOT_SENT = (
    _CONNECTION
    | _OTHER_METHOD
    | {b"host", b"content-length", b"accept-encoding", b"expect", b"cookie"}
)
_NOT_RETURNED = _CONNECTION | {b"content-length", b"date", b"set-cookie", b"alt-svc"}
_DECODED = frozenset({b"gzip", b"deflate", b"br", b"zstd", b"identity"})


def sent(headers: Headers, without: Collection[bytes] = ()) -> list[tuple[str, str]]:
    """Return what an upstream is sent of a caller's headers.

    Of several keys only the first is sent: that is the one which callers are counted by.
    """
    named = _named_by_connection(headers)
    key = credentials_of(headers)[:1]
    return [
        (name.decode("latin-1"), _text(value))
        for name, value in headers
        if name not in _NOT_SENT
        and name not in without
        and name not in named
        and not name.startswith(OURS)
        and (name not in CREDENTIALS or credentials_of([(name, value)]) == key)
    ]


def returned(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return what a caller gets of an upstream's headers, whose body was decoded on its way."""
    lower = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(lower)
    return [
        (name, value)
        for name, value in lower
        if name not in _NOT_RETURNED
        and name not in named
        and not name.startswith(OURS)
        and not (name == b"content-encoding" and value.strip().lower() in _DECODED)
    ]


def retry_after(seconds: float | None) -> str | None:
    """Return the value of a `Retry-After` header: whole seconds, rounded up; None if not said."""
    return None if seconds is None else str(math.ceil(min(seconds, _LONGEST_WAIT)))


def value_of(headers: Headers, name: bytes) -> str | None:
    """Return the first value of a header; one that is empty counts as none."""
    for key, value in headers:
        if key == name:
            return _text(value).strip() or None
    return None


def credentials_of(headers: Headers) -> list[str]:
    """Return the keys that a caller sent, be they for us or for an upstream."""
    found = []
    for name, value in headers:
        if name in CREDENTIALS:
            text = _text(value).strip()
            scheme, *token = text.split(maxsplit=1) or [""]
            found.append(token[0] if token and scheme.lower() == "bearer" else text)
    return [key for key in found if key]


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that a `Connection` header says are for the next hop only."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(item.strip().lower() for value in values for item in value.split(b","))


def _text(value: bytes) -> str:
    """Read a value so that it leaves as the bytes that it came as, which are UTF-8 or Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
