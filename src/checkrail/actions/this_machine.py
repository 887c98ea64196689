"""Which hosts and origins are this machine's own."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

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
    """Give the host of a `Host` header or of an origin, without its port; empty if it is broken."""
    found = _HOST.fullmatch(netloc)
    return found["host"] if found else ""


def netloc_of(origin: str) -> str:
    """Give host and port of an origin; empty for `null` and for what is none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""
