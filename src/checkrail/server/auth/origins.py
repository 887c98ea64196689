"""Which hosts and origins are this machine's own."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from checkrail.server.auth.errors import AuthConfigError

_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]*)?")


def is_loopback(host: str) -> bool:
    """Say whether a name or address can only mean this machine."""
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


def headers_of(scope: Scope, name: bytes) -> list[str]:
    """Give every value that a header was sent with."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def check_binding(host: str, *, has_auth: bool) -> None:
    """Refuse to listen to other machines without knowing who calls."""
    if has_auth or is_loopback(host):
        return
    raise AuthConfigError(
        f"the server was told to listen on {host or 'all addresses'!r}, where other machines "
        "reach it, and no auth is configured",
        "Configure API keys or an Auth object, or bind to 127.0.0.1",
    )
