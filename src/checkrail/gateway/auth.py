"""The door of a gateway: who may call it, and what of their headers was for the gateway alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from checkrail.actions.addresses import host_of, is_loopback, netloc_of
from checkrail.engine.values import User
from checkrail.gateway.errors import NotAdmittedError
from checkrail.gateway.headers import CREDENTIALS, Headers, find_credentials

OWN_KEY = b"x-checkrail-key"
"""Where a caller puts the gateway's key who brings one for the upstream as well."""


@dataclass(frozen=True, slots=True)
class AuthenticatedCaller:
    """An admitted caller: the headers that upstreams may see, the key's name, and the user.

    `owner` is whose the records of the call are; those of nobody are for admins alone.
    """

    headers: Headers
    key: str | None = None
    user: User | None = None
    owner: str | None = None


class Authenticator(Protocol):
    """Admits callers, or refuses them."""

    async def admit(self, scope: Mapping[str, Any]) -> AuthenticatedCaller:
        """Admit a caller. Raises `NotAdmittedError`."""


class LocalAuthenticator:
    """Admits callers of this machine, but no web page of another site."""

    async def admit(self, scope: Mapping[str, Any]) -> AuthenticatedCaller:
        """Refuse names that are not this machine's (DNS rebinding), and pages of other sites."""
        headers = scope["headers"]
        hosts = [value for name, value in headers if name == b"host"]
        if not hosts or not all(is_loopback(host_of(_decode_header(host))) for host in hosts):
            raise NotAdmittedError(
                403,
                "Without keys the gateway answers to localhost only. Call it as http://127.0.0.1, "
                "or configure gateway.keys",
            )
        for name, value in headers:
            if name == b"origin" and not is_loopback(host_of(netloc_of(_decode_header(value)))):
                raise NotAdmittedError(403, "Pages of other sites may not call this gateway")
        return AuthenticatedCaller(headers)


class KeyAuthenticator:
    """Admits callers with one of the gateway's own keys, which no upstream gets to see."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._names = {_key_digest(key): name for name, key in keys.items()}

    async def admit(self, scope: Mapping[str, Any]) -> AuthenticatedCaller:
        """Find the key among the headers; beside it may be one for the upstream."""
        headers: Headers = scope["headers"]
        found = None
        passed = []
        for header in headers:
            name = self._find_key_name(header)
            if name is None:
                passed.append(header)
            found = found or name
        if found is None:
            sent = any(name in CREDENTIALS or name == OWN_KEY for name, _ in headers)
            told = "This key is not one of the gateway's" if sent else "No key was sent"
            raise NotAdmittedError(
                401,
                f"{told}. Send one of gateway.keys as `Authorization: Bearer …` or `x-api-key: …`",
            )
        return AuthenticatedCaller(passed, found, owner=found)

    def _find_key_name(self, header: tuple[bytes, bytes]) -> str | None:
        if header[0] == OWN_KEY:
            return self._names.get(_key_digest(_decode_header(header[1]).strip()))
        keys = find_credentials([header])
        return self._names.get(_key_digest(keys[0])) if keys else None


def _key_digest(key: str) -> bytes:
    """Return the digest that keys are looked up by, so that timing reveals nothing of them."""
    return hashlib.sha256(key.encode()).digest()


def _decode_header(value: bytes) -> str:
    return value.decode("latin-1")
