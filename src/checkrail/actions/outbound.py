"""Requests that leave for places named by others: checked, pinned, bounded and signed."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
import uuid
import zlib
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkrail.actions.allowlist import AllowList
from checkrail.actions.destinations import Destination, parse_destination
from checkrail.actions.errors import OutboundRefused, OutboundUnreachable
from checkrail.actions.signatures import signature_headers
from checkrail.extras import needs

if TYPE_CHECKING:
    import httpcore2

    from checkrail.actions.pinned_connections import PinnedTransport, Resolver


__all__ = ["Outbound", "OutboundAnswer", "OutboundRefused", "OutboundUnreachable"]

AUTOMATIC = 47
"""zlib's word for: the format is gzip or zlib, look yourself."""

DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})


METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
OURS = frozenset({"connection", "content-length", "host", "te", "transfer-encoding", "upgrade"})
"""Headers that say how a message is carried, and to whom: not for callers to set."""

HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\x20-\x7e\t]*")
CONNECTIONS = 100
IDLE_CONNECTIONS = 20
IDLE_SECONDS = 30.0


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> tuple[bytes, bool]:
    """Read a body, and return whether it was cut off; one layer of compression is removed.

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


@dataclass(frozen=True, slots=True)
class OutboundAnswer:
    """What came back, whatever its status; header names are in lower case.

    `cut` says that there was more content than is taken.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    where: Destination
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


class Outbound:
    """Sends requests to public places over https, and to those that `allow` lists.

    An entry is a host, `*.suffix`, `host:port` or a network, see `checkrail.actions.allowlist`;
    `dev` lists loopback. Redirects are not followed, and proxies of the environment not used.
    `resolver` and `tls` stand in for the system's DNS and trusted certificates.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        dev: bool = False,
        timeout: float = 10.0,
        max_response_bytes: int = 1 << 20,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = AllowList(allow, dev=dev)
        self._timeout = timeout
        self._limit = max_response_bytes
        self._resolver = resolver
        self._tls = tls
        self._pools: dict[str, httpcore2.AsyncConnectionPool] = {}

    def check(self, url: str) -> None:
        """Refuse a URL that is plainly wrong; its host is not looked up."""
        self._allowed.check(parse_destination(url))

    def is_listed(self, url: str) -> bool:
        """Return whether the place of a URL is one of those that were listed."""
        return self._allowed.is_listed(parse_destination(url))

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        sign_with: str | None = None,
        message_id: str | None = None,
        timeout: float | None = None,
    ) -> OutboundAnswer:
        """Send one request, once, and return its answer.

        With `sign_with` it is signed; `message_id` is the same for each attempt at a message.
        """
        where = parse_destination(url)
        self._allowed.check(where)
        told = _prepare_headers(headers or {})
        if sign_with is not None:
            made = message_id or f"msg_{uuid.uuid4().hex}"
            told |= _check_headers(signature_headers(sign_with, made, content, int(time.time())))
        request = _Request(_check_method(method), where, _default_headers(where) | told, content)
        return await self._request_answer(request, self._timeout if timeout is None else timeout)

    def build_transport(self) -> PinnedTransport:
        """Return a transport for a client of another package, limited to the same places."""
        from checkrail.actions.pinned_connections import PinnedTransport, resolve_host

        return PinnedTransport(self._allowed, self._resolver or resolve_host, self._tls)

    async def aclose(self) -> None:
        """Close all connections; the next request opens new ones."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.aclose()

    async def _request_answer(self, request: _Request, seconds: float) -> OutboundAnswer:
        pool = self._find_pool(request.where.scheme)
        import httpcore2

        where = str(request.where)
        try:
            async with asyncio.timeout(seconds):
                return await self._send_over_pool(pool, request, seconds)
        except (TimeoutError, httpcore2.TimeoutException):
            why = f"it took longer than {seconds:g} s"
            raise OutboundUnreachable(where, why, "timeout") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, zlib.error) as error:
            raise OutboundUnreachable(where, _describe_error(error)) from None

    async def _send_over_pool(
        self, pool: httpcore2.AsyncConnectionPool, request: _Request, seconds: float
    ) -> OutboundAnswer:
        import httpcore2

        to = request.where
        asked = pool.stream(
            request.method,
            httpcore2.URL(scheme=to.scheme, host=to.host, port=to.port, target=to.target),
            headers=list(request.headers.items()),
            content=request.content,
            extensions={"timeout": {"connect": seconds}},
        )
        async with asked as response, aclosing(response.aiter_stream()) as chunks:
            found = _parse_headers(response.headers)
            encoding = found.get("content-encoding", "")
            data, cut = await read_body(chunks, encoding, self._limit)
            return OutboundAnswer(response.status, found, data, cut)

    def _find_pool(self, scheme: str) -> httpcore2.AsyncConnectionPool:
        """Return the connections of a scheme: what is permitted depends on it."""
        if scheme not in self._pools:
            with needs("httpx2", "outgoing HTTP", "server"):
                import httpcore2

                from checkrail.actions.pinned_connections import PinnedBackend, resolve_host
            if scheme == "https" and self._tls is None:
                self._tls = httpcore2.default_ssl_context()  # slow, and not kept by the pool
            self._pools[scheme] = httpcore2.AsyncConnectionPool(
                ssl_context=self._tls,
                max_connections=CONNECTIONS,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
                network_backend=PinnedBackend(
                    scheme, self._allowed, self._resolver or resolve_host
                ),
            )
        return self._pools[scheme]


def _check_method(method: str) -> str:
    if method not in METHODS:
        known = ", ".join(sorted(METHODS))
        raise OutboundRefused(f"{method!r} is no method of a request", f"Use one of {known}")
    return method


def _default_headers(where: Destination) -> dict[str, str]:
    """Return the headers of every request; compressed answers are read, but not requested."""
    return {"host": where.authority, "accept-encoding": "identity", "user-agent": "checkrail"}


def _prepare_headers(headers: Mapping[str, str]) -> dict[str, str]:
    told = {name.lower(): value.strip(" \t") for name, value in headers.items()}
    for name in sorted(OURS & told.keys()):
        problem = f"the header {name} cannot be set"
        raise OutboundRefused(problem, "Remove it: it follows from the URL and the content")
    return _check_headers(told)


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or not VALUE.fullmatch(value):
            problem = f"the header {name!r} has characters that no header can have"
            raise OutboundRefused(problem, "Use visible ASCII; look for a stray line break")
    return headers


def _parse_headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _describe_error(error: BaseException) -> str:
    """Return why there was no answer, in words that cannot repeat what was sent."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({seen.verify_message})"
        if isinstance(seen, ssl.SSLError):
            return f"TLS failed ({seen.reason or 'no reason given'})"
        if isinstance(seen, OSError) and seen.errno:
            return os.strerror(seen.errno)
        if isinstance(seen, zlib.error):
            return "its content is not compressed as its headers say"
        seen = _inner_error(seen)
    return "the connection ended early, or was no HTTP"


def _inner_error(error: BaseException) -> BaseException | None:
    """Return the error that another one is about: httpcore2 keeps it as its argument."""
    inner = error.args[0] if error.args else None
    return error.__cause__ or (inner if isinstance(inner, BaseException) else None)
