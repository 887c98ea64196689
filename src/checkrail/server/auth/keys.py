"""API keys: made, shown once, kept as a digest."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.types import Receive, Scope

from checkrail.engine.values import User
from checkrail.server.auth.authenticator import Authenticator
from checkrail.server.auth.caller import ROLES, Caller
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import Unauthenticated
from checkrail.server.auth.origins import headers_of

PREFIX = "crk_"
REALM = {"WWW-Authenticate": 'Bearer realm="checkrail keys"'}
"""Says that callers are known by our keys, and not by something of the project's own."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made; `token` is shown to its owner and kept nowhere."""

    token: str = field(repr=False)
    digest: str


KeyRow = Mapping[str, Any]
"""What is kept of a key: `digest`, `owner`, `role`, `key_id`, `name`, and `revoked_at` or None."""


class KeyStore(Protocol):
    """Where keys are kept."""

    async def find(self, digest: str) -> KeyRow | None:
        """Return the key that has this digest."""


def new_key() -> NewKey:
    """Make a key from 256 random bits, which no dictionary holds: one hash is enough."""
    token = PREFIX + secrets.token_urlsafe(32)
    return NewKey(token, digest_of(token))


def digest_of(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_of(scope: Scope) -> str | None:
    """Find our key among the headers; clients may send another service's beside it."""
    bearers = (value.partition(" ") for value in headers_of(scope, b"authorization"))
    sent = [
        *headers_of(scope, b"x-api-key"),
        *(token for scheme, _, token in bearers if scheme.lower() == "bearer"),
    ]
    ours = (token.strip() for token in sent)
    return next((token for token in ours if token.startswith(PREFIX)), None)


class ApiKeys(Authenticator):
    """Knows callers by their API keys."""

    def __init__(self, keys: KeyStore, cors: Cors | None = None) -> None:
        super().__init__(cors)
        self.keys = keys

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:  # noqa: ARG002
        """Find the owner of the key that was sent."""
        token = token_of(scope)
        if token is None:
            raise Unauthenticated(
                "No API key was sent. Send one as `x-api-key: crk_…` or "
                "`Authorization: Bearer crk_…`; `checkrail keys create` makes one",
                headers=REALM,
            )
        row = await self._row(token)
        if row is None:
            raise Unauthenticated(
                "This API key is not known, or was revoked. "
                "`checkrail keys create` makes a new one",
                headers=REALM,
            )
        user = User(row["owner"], extras={"key": row.get("name"), "key_id": row.get("key_id")})
        return Caller(user, row["role"], key_id=row.get("key_id"))

    async def _row(self, token: str) -> KeyRow | None:
        if len(token) > _LONGEST:
            return None
        digest = digest_of(token)
        row = await self.keys.find(digest)
        if row is None or not hmac.compare_digest(row["digest"], digest):
            return None
        return row if row.get("revoked_at") is None and row["role"] in ROLES else None
