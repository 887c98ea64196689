"""Loopback hosts, and addresses that are not public: what a stranger's URL must not lead to.

The tables follow IANA's registries of special-purpose addresses. They are our own, for what
`ipaddress` takes for global differs between releases of Python.
"""

from __future__ import annotations

import re
import urllib.request
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK = "this machine itself"
PRIVATE = "a private network"
SHARED = "a carrier's or cloud's inner network"
METADATA = "link-local, or where clouds keep their metadata"
RESERVED = "reserved, and no place on the internet"
EMBEDDED = "a tunnel to an address of another kind"
MULTICAST = "multicast"

INNER = frozenset({LOOPBACK, PRIVATE, SHARED})
"""Where services of one's own live: what a listed host name may lead to."""

PUBLIC_V6 = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")
ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""The middle of an IPv6 address whose last half is an IPv4 one."""

V4: dict[IPv4Network, str] = {
    IPv4Network("0.0.0.0/8"): RESERVED,
    IPv4Network("10.0.0.0/8"): PRIVATE,
    IPv4Network("100.100.100.200/32"): METADATA,  # Alibaba's, in the middle of the shared ones
    IPv4Network("100.64.0.0/10"): SHARED,
    IPv4Network("127.0.0.0/8"): LOOPBACK,
    IPv4Network("168.63.129.16/32"): METADATA,  # Azure's, in the middle of the public ones
    IPv4Network("169.254.0.0/16"): METADATA,
    IPv4Network("172.16.0.0/12"): PRIVATE,
    IPv4Network("192.0.0.0/24"): RESERVED,
    IPv4Network("192.0.2.0/24"): RESERVED,
    IPv4Network("192.88.99.0/24"): RESERVED,
    IPv4Network("192.168.0.0/16"): PRIVATE,
    IPv4Network("198.18.0.0/15"): RESERVED,
    IPv4Network("198.51.100.0/24"): RESERVED,
    IPv4Network("203.0.113.0/24"): RESERVED,
    IPv4Network("224.0.0.0/4"): MULTICAST,
    IPv4Network("240.0.0.0/4"): RESERVED,
}
V6: dict[IPv6Network, str] = {
    IPv6Network("::1/128"): LOOPBACK,
    IPv6Network("fd00:ec2::/32"): METADATA,  # Amazon's; these are in the middle of private ones
    IPv6Network("fd20:ce::254/128"): METADATA,  # Google's
    IPv6Network("fd00:c1::a9fe:a9fe/128"): METADATA,  # Oracle's
    IPv6Network("fd00:42::42/128"): METADATA,  # Scaleway's
    IPv6Network("fc00::/7"): PRIVATE,
    IPv6Network("fe80::/10"): METADATA,
    IPv6Network("ff00::/8"): MULTICAST,
    IPv6Network("2001::/23"): RESERVED,  # Teredo is among them
    IPv6Network("2001:db8::/32"): RESERVED,
    IPv6Network("2002::/16"): EMBEDDED,  # 6to4
    IPv6Network("3fff::/20"): RESERVED,
}


def parse_address(text: str) -> Address | None:
    """Parse an address in its usual spelling; return None for any other text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return unmap_address(address)


def unmap_address(address: Address) -> Address:
    """Return the IPv4 address that an IPv4-mapped one stands for, else the address itself."""
    return getattr(address, "ipv4_mapped", None) or address


def special_kind(address: Address) -> str | None:
    """Return what kind of place an address is, if it is not a public one."""
    address = unmap_address(address)
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in V4.items() if address in network), None)
    if address in NAT64:
        return EMBEDDED if special_kind(_embedded_ipv4(address)) else None
    named = next((kind for network, kind in V6.items() if address in network), None)
    if named is None and address not in PUBLIC_V6:
        return RESERVED
    return named or _isatap_kind(address)


def _isatap_kind(address: IPv6Address) -> str | None:
    if (int(address) >> 32) & 0xFFFFFFFF not in ISATAP:
        return None
    return EMBEDDED if special_kind(_embedded_ipv4(address)) else None


def _embedded_ipv4(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


_HTTP_SCHEMES = {"ws": "http", "wss": "https"}
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Return whether a name or address can only mean this machine."""
    name = host.strip("[]").removesuffix(".").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def host_of(netloc: str) -> str:
    """Return the host of a `Host` header or of an origin, without its port; empty if malformed."""
    found = _HOST.fullmatch(netloc)
    return found["host"] if found else ""


def netloc_of(origin: str) -> str:
    """Return host and port of an origin; empty for `null` and for what is no origin."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; this machine needs none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    scheme = _HTTP_SCHEMES.get(parts.scheme, parts.scheme)
    return urllib.request.getproxies().get(scheme)
