"""Headers on their way through the gateway: which are passed on, and which are its own affair."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import unquote_plus

from checkrail.llm.wire_format import Refusal

Headers = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them; their names are in small letters."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Where callers of models put their keys."""

ACCOUNT = CREDENTIALS | {b"openai-organization", b"openai-project", b"x-goog-user-project"}
"""What belongs to the account of a key, and is wrong with another key."""

OURS = b"x-checkrail-"

RETRY_COUNT = b"x-stainless-retry-count"
"""How often this is sent again, as the official SDKs say, and all that is built on them."""

_CALLING_AGAIN = re.compile(
    r"\b(?:codex|opencode|ai-sdk|geminicli|google-genai-sdk)", re.IGNORECASE
)
"""The user agents of other clients that call again: Codex, opencode, all of Vercel's SDK, Gemini
CLI, and Google's SDK, which does so if its `retry_options` say it, and tells nobody."""

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


_SIGNATURE = "x-amz-"
_ACCESS_KEY = re.compile(r"AWS4-HMAC-SHA256\b.*?\bCredential=([^/,\s]+)", re.IGNORECASE)


def is_credential(name: str) -> bool:
    """Return whether a header has a key."""
    return name.lower().encode() in CREDENTIALS


def without_signature(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return headers without what a caller signed for AWS, which holds for the gateway alone."""
    return [
        (name, value)
        for name, value in headers
        if not name.lower().startswith(_SIGNATURE) and not _ACCESS_KEY.match(value)
    ]


_QUERY_KEYS = {"key": b"x-goog-api-key", "access_token": b"authorization"}
"""Where clients of Google's APIs may put a key into a query, and the header for it."""


def has_query_key(query: bytes) -> bool:
    """Return whether there is a key in a query."""
    return any(_query_header(item) for item in query.split(b"&"))


def move_query_keys(headers: Headers, query: bytes) -> tuple[Headers, bytes]:
    """Return headers with the keys of a query, and the query without them."""
    found, left = [*headers], []
    for item in query.split(b"&"):
        name = _query_header(item)
        if name is None:
            left.append(item)
            continue
        value = unquote_plus(item.partition(b"=")[2].decode("latin-1")).encode()
        found.append((name, b"Bearer " + value if name == b"authorization" else value))
    return found, b"&".join(left)


def _query_header(item: bytes) -> bytes | None:
    name = unquote_plus(item.partition(b"=")[0].decode("latin-1"))
    return _QUERY_KEYS.get(name.removeprefix("$"))


def headers_to_upstream(headers: Headers, without: Collection[bytes] = ()) -> list[tuple[str, str]]:
    """Return the caller's headers that an upstream is sent.

    Of several keys only the first is sent: that is the one which callers are counted by.
    """
    named = _connection_headers(headers)
    key = find_credentials(headers)[:1]
    return [
        (name.decode("latin-1"), _decode_header(value))
        for name, value in headers
        if name not in _NOT_SENT
        and name not in without
        and name not in named
        and not name.startswith(OURS)
        and (name not in CREDENTIALS or find_credentials([(name, value)]) == key)
    ]


def headers_to_caller(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the upstream's headers that a caller gets; its body was decoded on the way."""
    lower = [(name.lower(), value) for name, value in headers]
    named = _connection_headers(lower)
    return [
        (name, value)
        for name, value in lower
        if name not in _NOT_RETURNED
        and name not in named
        and not name.startswith(OURS)
        and not (name == b"content-encoding" and value.strip().lower() in _DECODED)
    ]


def refusal_headers(refusal: Refusal) -> dict[str, str]:
    """Return the headers that say whether and when it is worth asking again."""
    wait = format_retry_after(refusal.retry_after)
    headers = {} if wait is None else {"retry-after": wait}
    return headers | {"x-should-retry": "false"} if refusal.final else headers


def format_retry_after(seconds: float | None) -> str | None:
    """Return the value of a `Retry-After` header: whole seconds, rounded up, or None."""
    return None if seconds is None else str(math.ceil(min(seconds, _LONGEST_WAIT)))


def retries_itself(headers: Headers) -> bool:
    """Return whether a caller is a client that calls again where that may help."""
    if find_header(headers, RETRY_COUNT) is not None:
        return True
    return _CALLING_AGAIN.search(find_header(headers, b"user-agent") or "") is not None


def find_header(headers: Headers, name: bytes) -> str | None:
    """Return the first value of a header; one that is empty counts as none."""
    for key, value in headers:
        if key == name:
            return _decode_header(value).strip() or None
    return None


def find_credentials(headers: Headers) -> list[str]:
    """Return the keys that a caller sent, be they for us or for an upstream."""
    found = []
    for name, value in headers:
        if name in CREDENTIALS:
            text = _decode_header(value).strip()
            scheme, *token = text.split(maxsplit=1) or [""]
            signed = _ACCESS_KEY.match(text)  # the signature is another one each time
            plain = token[0] if token and scheme.lower() == "bearer" else text
            found.append(signed[1] if signed else plain)
    return [key for key in found if key]


def _connection_headers(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the headers that a `Connection` header says are for the next hop only."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(item.strip().lower() for value in values for item in value.split(b","))


def _decode_header(value: bytes) -> str:
    """Read a value so that it leaves as the bytes that it came as, which are UTF-8 or Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
