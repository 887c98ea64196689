"""Who looks at a page, and what shows that a form is ours."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from checkrail.engine.values import User
from checkrail.server.auth import Caller, Forbidden, Role, Unauthenticated
from checkrail.server.auth.caller import ROLES
from checkrail.server.auth.keys import ApiKeys
from checkrail.server.auth.origins import host_of, is_loopback
from checkrail.server.services import Services
from checkrail.store import logins

TOUCH = 300.0
"""Seconds of use after which a login is written to have been used."""

SAFE = ("GET", "HEAD", "OPTIONS")
NAME = "checkrail"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks for a page, and the token that their forms have to carry."""

    caller: Caller
    csrf: str
    token: str
    """The browser's own secret: its login, or without one a mere number."""
    is_new: bool = False
    can_log_out: bool = False


class Door:
    """Finds out who a browser is: by its login, or as the API itself would."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._database = services.database
        self._authenticator = services.authenticator

    @property
    def takes_keys(self) -> bool:
        """Whether people log in with an API key."""
        return isinstance(self._authenticator, ApiKeys)

    async def admit(self, request: Request) -> Visitor:
        """Return the visitor, or raise `Unauthenticated` or `Forbidden`."""
        self._authenticator.check_origin(request.scope)
        sent = request.cookies.get(cookie_name(request), "")
        if self.takes_keys:
            caller = await self._find_login(sent)
            if caller is not None:
                return Visitor(caller, csrf_of(sent), sent, can_log_out=True)
        caller = await self._authenticator.authenticate(request.scope, request.receive)
        caller.check_role("viewer", "The dashboard")
        token = sent or secrets.token_urlsafe(32)
        return Visitor(caller, csrf_of(token), token, is_new=not sent)

    async def log_in(self, key: str) -> str:
        """Return the secret of a new login by an API key, or raise `Unauthenticated`."""
        headers = [(b"x-api-key", key.strip().encode("latin-1", "replace"))]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        caller = await self._authenticator.authenticate(scope, _receive_nothing)
        caller.check_role("viewer", "The dashboard")
        if caller.key_id is None:
            raise Unauthenticated("Nobody logs in with a key here")
        token, now = secrets.token_urlsafe(32), time.time()
        row = logins.Login(_digest(token), caller.key_id, now, now)
        await self._database.write(lambda tx: logins.add(tx, row))
        return token

    async def log_out(self, token: str) -> None:
        """End a login."""
        await self._database.write(lambda tx: logins.remove(tx, _digest(token)))

    async def _find_login(self, token: str) -> Caller | None:
        if not 20 < len(token) < 100:
            return None
        digest, now = _digest(token), time.time()
        key = await self._database.read(lambda reads: logins.find_key(reads, digest, now))
        if key is None or key.role not in ROLES or key.role == "runner":
            return None
        if now - key.seen_at > TOUCH:
            await self._database.write(lambda tx: logins.touch(tx, digest, now))
        user = User(key.owner, extras={"key": key.name, "key_id": key.key_id})
        return Caller(user, cast("Role", key.role), key_id=key.key_id)


async def _receive_nothing() -> dict[str, object]:
    return {"type": "http.request", "body": b"", "more_body": False}


def _digest(token: str) -> str:
    return hashlib.sha256(b"login:" + token.encode()).hexdigest()


def csrf_of(token: str) -> str:
    """Return what the forms of a browser carry: known to whoever can read its pages."""
    return hashlib.sha256(b"csrf:" + token.encode()).hexdigest()


def check_form(request: Request, visitor: Visitor, sent: str) -> None:
    """Raise `Forbidden` unless a form comes from a page of ours that this browser was shown."""
    if not comes_from_here(request):
        raise Forbidden("This form came from another site", error="foreign_origin")
    if not hmac.compare_digest(sent.encode(), visitor.csrf.encode()):
        raise Forbidden("This form is out of date. Load the page again", error="stale_form")


def comes_from_here(request: Request) -> bool:
    """Return whether the origin that a browser names is this server's."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()


def is_plain_loopback(request: Request) -> bool:
    """Return whether a browser talks to this machine without TLS, where no cookie is `Secure`."""
    host = host_of(request.headers.get("host", ""))
    return request.url.scheme == "http" and is_loopback(host)


def cookie_name(request: Request) -> str:
    """Return the name of the cookie; ports of one machine share their cookies."""
    if is_plain_loopback(request):
        return f"{NAME}-{request.url.port or 80}"
    return f"__Host-{NAME}"


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Have a browser keep its secret."""
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=round(logins.LONGEST),
        path="/",
        secure=not is_plain_loopback(request),
        httponly=True,
        samesite="lax",
    )
