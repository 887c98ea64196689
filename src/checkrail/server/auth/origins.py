"""Which hosts and origins a request names, and where a server may listen."""

from __future__ import annotations

from starlette.types import Scope

from checkrail.actions.addresses import host_of, is_loopback, netloc_of
from checkrail.server.auth.errors import AuthConfigError

__all__ = ["check_binding", "header_values", "host_of", "is_loopback", "netloc_of"]


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return every value that a header was sent with."""
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
