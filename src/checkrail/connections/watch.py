"""All connections of a process: how many an address has, and whether their clients keep up.

One task a process looks after them, so that a request costs no timers of its own. The protocols
find it in the lifespan state of the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from checkrail.config.server import LimitsConfig

log = logging.getLogger("checkrail.connections")

_STATE = "checkrail.connections"
_LONGEST_TICK = 1.0  # seconds


class TimedProtocol(Protocol):
    """A protocol that closes its connection when its client takes too long to send."""

    def check_time(self, now: float) -> None:
        """Close the connection if it is time."""


def peer_address(peer: object) -> str:
    """Return the address that a peer counts under; empty for a Unix socket, which has none.

    Of IPv6 it is the network of 64 bits, for whoever has one address has all of them.
    """
    if not isinstance(peer, tuple):
        return ""
    address = str(peer[0])
    if ":" not in address:
        return address
    found = ipaddress.IPv6Address(address.partition("%")[0])
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"


class WatchedTransport:
    """A transport that knows its client's address, and since when the client has read nothing.

    Whatever it does not have itself is the transport's. `leave` is asked before it is closed; if
    that returns true, whatever still comes is thrown away for a while, and then it is aborted.
    """

    def __init__(self, transport: asyncio.Transport, leave: Callable[[], bool]) -> None:
        self.address = peer_address(transport.get_extra_info("peername"))
        self._transport = transport
        self._leave = leave
        self._is_leaving = False
        self._written = 0
        self._read = 0
        self._stalled_since: float | None = None

    def write(self, data: bytes) -> None:
        """Write data, and count it."""
        self._written += len(data)
        self._transport.write(data)

    def close(self) -> None:
        """Close it, at once or after what the client is still sending."""
        self._is_leaving = self._is_leaving or self._leave()
        if not self._is_leaving:
            self._transport.close()

    def is_closing(self) -> bool:
        """Return whether it takes nothing more."""
        return self._is_leaving or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def stalled_seconds(self, now: float) -> float:
        """Return for how long the client has taken nothing of what waits for it."""
        unread = self._transport.get_write_buffer_size()
        before, self._read = self._read, self._written - unread
        if not unread or self._read > before:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = now
        return 0.0 if self._stalled_since is None else now - self._stalled_since


class Connections:
    """The connections of a process and their limits; a limit of 0 is none."""

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self._open: dict[TimedProtocol, WatchedTransport] = {}
        self._by_address: Counter[str] = Counter()
        self._closed: Counter[tuple[str, str]] = Counter()

    def add(self, protocol: TimedProtocol, transport: WatchedTransport) -> int:
        """Add a connection, and return by how many its address is over the limit."""
        self._open[protocol] = transport
        self._by_address[transport.address] += 1
        most = self.limits.connections_per_address
        return self._by_address[transport.address] - most if most and transport.address else 0

    def remove(self, protocol: TimedProtocol) -> None:
        """Remove a connection."""
        found = self._open.pop(protocol, None)
        if found is None:
            return
        self._by_address[found.address] -= 1
        if not self._by_address[found.address]:
            del self._by_address[found.address]

    def note_closed(self, protocol: TimedProtocol, reason: str) -> None:
        """Count a connection that is closed for a reason, for the next line of the log."""
        found = self._open.get(protocol)
        self._closed[found.address if found else "", reason] += 1

    async def watch(self) -> None:
        """Check all connections until cancelled."""
        limits = self.limits
        times = (limits.header_seconds, limits.body_seconds, limits.write_seconds)
        tick = min(_LONGEST_TICK, *(seconds / 4 for seconds in times if seconds))
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(tick)
            self._check_all(loop.time())
            for (address, reason), count in self._closed.items():
                log.warning("closed %d connection(s) of %s: %s", count, address, reason)
            self._closed.clear()

    def _check_all(self, now: float) -> None:
        patience = self.limits.write_seconds
        for protocol, transport in [*self._open.items()]:
            if patience and transport.stalled_seconds(now) >= patience:
                self.note_closed(protocol, f"read nothing for {patience:g} s, limits.write_seconds")
                transport.abort()
            else:
                protocol.check_time(now)


@contextlib.asynccontextmanager
async def apply_limits(scope: Mapping[str, Any], limits: LimitsConfig) -> AsyncIterator[None]:
    """Apply limits to connections for as long as an app lives; `scope` is that of its lifespan."""
    connections = Connections(limits)
    if "state" in scope:
        scope["state"][_STATE] = connections
    task = asyncio.get_running_loop().create_task(connections.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def find_connections(app_state: Mapping[str, Any]) -> Connections:
    """Return the connections of a process by the state of its app; limits are the defaults."""
    found = app_state.get(_STATE)
    return found if isinstance(found, Connections) else Connections(LimitsConfig())
