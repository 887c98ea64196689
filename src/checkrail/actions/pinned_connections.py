"""Connections that go to an address that was checked, whatever DNS says a moment later.

Every connection of a pool is opened here and nowhere else: the name is resolved once, all of its
addresses are checked, and the connection is made to one of them by its number. TLS and the
Host header still have the name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from checkrail.actions.addresses import Address, unmap_address
from checkrail.actions.allowlist import AllowList
from checkrail.actions.destinations import Destination, parse_destination
from checkrail.actions.errors import OutboundUnreachable

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the system resolves it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Opens the connections of one scheme, each to an address that the list permits."""

    def __init__(self, scheme: str, allowed: AllowList, resolver: Resolver) -> None:
        self._scheme = scheme
        self._allowed = allowed
        self._resolver = resolver
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers; each gets its share of the time."""
        addresses = await self.resolve_permitted(Destination(self._scheme, host, port))
        share = None if timeout is None else timeout / len(addresses)
        failure: Exception | None = None
        for address in addresses:
            try:
                stream = await self._network.connect_tcp(
                    str(address), port, share, local_address, socket_options
                )
                return _Stream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError("no address")

    async def resolve_permitted(self, where: Destination) -> list[Address]:
        """Resolve a host, and refuse it unless all of its addresses are permitted."""
        literal = where.address
        found = [literal] if literal is not None else await self._resolve_addresses(where)
        self._allowed.check_addresses(where, found)
        return found

    async def _resolve_addresses(self, where: Destination) -> list[Address]:
        try:
            texts = await self._resolver(where.host, where.port)
            found = [unmap_address(ip_address(text)) for text in texts]
        except (OSError, ValueError):
            found = []
        if not found:
            raise OutboundUnreachable(str(where), "its name has no address")
        return found


class PinnedTransport(httpx2.AsyncHTTPTransport):
    """Sends the requests of an httpx2 client to an address that the list permits."""

    def __init__(self, allowed: AllowList, resolver: Resolver, tls: ssl.SSLContext | None) -> None:
        super().__init__(verify=True if tls is None else tls, trust_env=False)
        self._allowed = allowed
        self._resolver = resolver

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Resolve the host, refuse it unless all of its addresses may be, and go to one of them."""
        where = parse_destination(str(request.url))
        self._allowed.check(where)
        found = await PinnedBackend(where.scheme, self._allowed, self._resolver).resolve_permitted(
            where
        )
        request.url = request.url.copy_with(host=str(found[0]))
        request.extensions = {**request.extensions, "sni_hostname": where.host}
        return await super().handle_async_request(request)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that is closed if the TLS handshake on it is cancelled."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
