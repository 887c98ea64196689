"""Which places a request may go to: public ones over https, and those that are listed.

Listing a host opens plain http and inner addresses (loopback, private, carrier) for that name,
so that a forged DNS answer still cannot lead it to a cloud's metadata. Listing a network opens
plain http and whatever the network holds. With a port, only that port is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from checkrail.actions.addresses import INNER, Address, Network, special_kind
from checkrail.actions.destinations import Destination, host_name, port_number
from checkrail.actions.errors import ActionError, OutboundRefused

LOOPBACK = ("127.0.0.0/8", "::1/128")
WITH_PORT = re.compile(r"(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the list: a network, a name, or a suffix that begins with a dot."""

    place: Network | str
    port: int | None

    def matches_name(self, where: Destination) -> bool:
        if not isinstance(self.place, str) or self.port not in (None, where.port):
            return False
        return where.host == self.place or (
            self.place.startswith(".") and where.host.endswith(self.place)
        )

    def contains_address(self, address: Address, port: int) -> bool:
        return (
            not isinstance(self.place, str)
            and self.port in (None, port)
            and address.version == self.place.version
            and address in self.place
        )


class AllowList:
    """The places that are listed; `dev` lists loopback."""

    def __init__(self, entries: Sequence[str] = (), *, dev: bool = False) -> None:
        listed = [_parse_entry(text) for text in entries]
        self._networks = any(not isinstance(entry.place, str) for entry in listed)
        self._entries = (*listed, *(_parse_entry(text) for text in LOOPBACK if dev))

    def check(self, where: Destination) -> None:
        """Refuse a destination that is wrong without a DNS lookup."""
        if where.address is not None:
            self.check_addresses(where, [where.address])
        elif where.is_local and not self._is_named(where):
            self.check_addresses(where, [ip_address("127.0.0.1")])
        elif where.is_plain and not self._may_be_plain(where):
            raise _refusal_error(where, "it is not https")

    def is_listed(self, where: Destination) -> bool:
        """Return whether a place is named in the list, or is in a network of it."""
        address, port = where.address, where.port
        within = address is not None and any(
            each.contains_address(address, port) for each in self._entries
        )
        return within or self._is_named(where)

    def check_addresses(self, where: Destination, addresses: Sequence[Address]) -> None:
        """Refuse a destination unless every one of its addresses may be connected to."""
        named = self._is_named(where)
        for address in addresses:
            self._check_address(where, address, named=named)

    def _check_address(self, where: Destination, address: Address, *, named: bool) -> None:
        if any(entry.contains_address(address, where.port) for entry in self._entries):
            return
        kind = special_kind(address)
        if kind is not None and not (named and kind in INNER):
            raise _refusal_error(where, f"{address} is {kind}", listed=named)
        if where.is_plain and not named:
            raise _refusal_error(where, "it is not https")

    def _is_named(self, where: Destination) -> bool:
        return any(entry.matches_name(where) for entry in self._entries)

    def _may_be_plain(self, where: Destination) -> bool:
        """Whether the name is listed, or may turn out to be in a network that is."""
        return self._networks or self._is_named(where)


def _refusal_error(where: Destination, why: str, *, listed: bool = False) -> OutboundRefused:
    host = where.authority if where.address is None else where.host
    remedy = f"If it is meant, add {host} to outbound.allow"
    if listed:
        remedy = "A listed name is not enough for that: add the network to outbound.allow"
    return OutboundRefused(f"a request to {where} was refused, for {why}", remedy)


def _parse_entry(text: str) -> _Entry:
    found = None if _parse_network(text) else WITH_PORT.fullmatch(text)
    place = found[1] if found else text
    try:
        port = port_number(found[2]) if found else None
        return _Entry(_parse_network(place.strip("[]")) or _parse_name(place), port)
    except OutboundRefused:
        raise ActionError(
            f"{text!r} in outbound.allow is no host and no network",
            "Write a host (hooks.internal), all under one (*.corp.example), a host with a port "
            "(hooks.internal:8080) or a network (10.1.0.0/16)",
        ) from None


def _parse_network(text: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _parse_name(text: str) -> str:
    if text.startswith("*."):
        return f".{host_name(text[2:])}"
    return host_name(text)
