"""API keys: made, shown once, kept as a digest; and when callers are known by them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from starlette._utils import get_route_path
from starlette.types import Receive, Scope

from checkrail.engine.values import User
from checkrail.server.auth.authenticator import LoopbackOnly, RequestAuthenticator
from checkrail.server.auth.caller import ROLES, Caller, Role
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import Unauthenticated
from checkrail.server.auth.filters import Filter
from checkrail.server.auth.origins import header_values
from checkrail.store.keys import Key

if TYPE_CHECKING:
    from langgraph_sdk import Auth

PREFIX = "crk_"
REALM = {"WWW-Authenticate": 'Bearer realm="checkrail keys"'}
"""Says that callers are known by our keys, and not by something of the project's own."""

_LONGEST = 200

RUNNERS = "/runner"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made; `token` is shown to its owner and kept nowhere."""

    token: str = field(repr=False)
    digest: str


class KeyStore(Protocol):
    """Where keys are stored."""

    async def find(self, digest: str) -> Key | None:
        """Return the key that has this digest."""


def generate_key() -> NewKey:
    """Return a key from 256 random bits, which no dictionary holds: one hash is enough."""
    token = PREFIX + secrets.token_urlsafe(32)
    return NewKey(token, digest_of(token))


def digest_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(scope: Scope) -> str | None:
    """Find our key among the headers; clients may send another service's beside it."""
    bearers = (value.partition(" ") for value in header_values(scope, b"authorization"))
    sent = [
        *header_values(scope, b"x-api-key"),
        *header_values(scope, b"x-goog-api-key"),
        *(token for scheme, _, token in bearers if scheme.lower() == "bearer"),
    ]
    ours = (token.strip() for token in sent)
    return next((token for token in ours if token.startswith(PREFIX)), None)


class ApiKeys(RequestAuthenticator):
    """Knows callers by their API keys."""

    def __init__(self, keys: KeyStore, cors: Cors | None = None) -> None:
        super().__init__(cors)
        self.keys = keys

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:  # noqa: ARG002
        """Find the owner of the key that was sent."""
        token = find_token(scope)
        if token is None:
            raise Unauthenticated(
                "No API key was sent. Send one as `x-api-key: crk_…` or "
                "`Authorization: Bearer crk_…`; `checkrail keys create` makes one",
                headers=REALM,
            )
        key = await self._find_key(token)
        if key is None:
            raise Unauthenticated(
                "This API key is not known, or was revoked. "
                "`checkrail keys create` makes a new one",
                headers=REALM,
            )
        user = User(key.owner, extras={"key": key.name, "key_id": key.key_id})
        return Caller(user, cast("Role", key.role), key_id=key.key_id)

    async def _find_key(self, token: str) -> Key | None:
        if len(token) > _LONGEST:
            return None
        digest = digest_of(token)
        key = await self.keys.find(digest)
        if key is None or not hmac.compare_digest(key.digest, digest):
            return None
        return key if key.revoked_at is None and key.role in ROLES else None


def choose_authenticator(
    auth: Auth | None = None,
    keys: KeyStore | None = None,
    cors: Cors | None = None,
    user_fields: Collection[str] = (),
    *,
    isolate: bool = False,
) -> RequestAuthenticator:
    """Return the Auth object's way if there is one, else API keys, else this machine only.

    `user_fields` are the extra fields of an Auth object's users that may be stored. With `isolate`
    the owners' rule holds beside the handlers of such an object.
    """
    if auth is None:
        return LoopbackOnly(cors) if keys is None else ApiKeys(keys, cors)
    from checkrail.server.auth.langgraph import LangGraphAuth

    decides = LangGraphAuth(auth, cors, user_fields, isolate=isolate)
    return decides if keys is None else WithRunnerKeys(decides, ApiKeys(keys, cors))


class WithRunnerKeys(RequestAuthenticator):
    """Delegates to another authenticator, except that runners bring their keys."""

    def __init__(self, others: RequestAuthenticator, runners: ApiKeys) -> None:
        super().__init__(others.cors)
        self.others = others
        self.runners = runners
        self.reads_body = others.reads_body

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:
        """Authenticate by path."""
        path = get_route_path(scope)
        by_key = path == RUNNERS or path.startswith(f"{RUNNERS}/")
        asked = self.runners if by_key else self.others
        return await asked.authenticate(scope, receive)

    def has_handler(self, resource: str, action: str) -> bool:
        """Return whether handlers decide on this."""
        return self.others.has_handler(resource, action)

    async def _call_handler(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Filter | None:
        return await self.others._call_handler(caller, resource, action, value)  # noqa: SLF001
