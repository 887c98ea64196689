"""What every way of authentication has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope

from checkrail.server.auth.caller import ANONYMOUS, Caller
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import Forbidden
from checkrail.server.auth.filters import Filter
from checkrail.server.auth.origins import header_values, host_of, is_loopback, netloc_of

ADMINS_ONLY = frozenset({"runners", "keys", "hooks"})

TERMS = {
    "agents": "assistants",
    "runs": "threads",
    "sessions": "threads",
    "events": "threads",
    "approvals": "threads",
    "calls": "threads",
    "messages": "threads",
}
"""What our resources are called in the terms of an Auth object."""

_SHARED = frozenset({"read", "search"})


@dataclass(frozen=True, slots=True)
class Access:
    """Which rows a caller may touch: those of one owner, and those that a filter lets through."""

    owner: str | None = None
    filter: Filter | None = None


class RequestAuthenticator(ABC):
    """Knows who is calling, and what they may touch."""

    has_auth = True
    reads_body = False
    """Whether `authenticate` may read the request's body, so that it has to be kept for the app."""

    def __init__(self, cors: Cors | None = None) -> None:
        self.cors = cors

    def check_origin(self, scope: Scope) -> None:
        """Refuse what no credentials can make good; also called for routes that are public.

        Browsers open WebSockets to any site and send its cookies, whatever CORS says.
        """
        if scope["type"] != "websocket":
            return
        hosts = [host.lower() for host in header_values(scope, b"host")]
        for origin in header_values(scope, b"origin"):
            if netloc_of(origin) not in hosts and not (self.cors and self.cors.allows(origin)):
                raise Forbidden(_foreign_message(origin), error="foreign_origin")

    @abstractmethod
    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:
        """Return who is calling, or raise `Unauthenticated` or `Forbidden`; also for WebSockets."""

    def has_handler(self, resource: str, action: str) -> bool:  # noqa: ARG002 - an Auth object asks
        """Return whether handlers decide on this, so that the owners' rule does not."""
        return False

    async def authorize(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Filter | None:
        """Raise `Forbidden`, or return what the touched rows' metadata has to hold.

        Handlers may change `value`; what it is afterwards is what has to be done and stored.
        """
        if resource in ADMINS_ONLY and not caller.is_admin:
            raise Forbidden(f"{resource.capitalize()} are for admins, and you are {caller.role}")
        return await self._call_handler(caller, TERMS.get(resource, resource), action, value)

    async def access(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Access:
        """Authorize, and return which rows that leaves."""
        wanted = await self.authorize(caller, resource, action, value)
        return Access(self.visible_owner(caller, resource, action), wanted)

    def visible_owner(self, caller: Caller, resource: str, action: str) -> str | None:
        """Return whose rows a caller may touch; None is everybody's.

        Assistants are there for all, and changed by who made them. The store has no owners.
        """
        resource = TERMS.get(resource, resource)
        if caller.is_admin or resource == "store" or self.has_handler(resource, action):
            return None
        if resource == "assistants" and action in _SHARED:
            return None
        return caller.owner

    async def _call_handler(
        self,
        caller: Caller,  # noqa: ARG002 - nobody was given who would decide
        resource: str,  # noqa: ARG002
        action: str,  # noqa: ARG002
        value: dict[str, Any],  # noqa: ARG002
    ) -> Filter | None:
        return None


class LoopbackOnly(RequestAuthenticator):
    """No auth: whoever reaches the server on this machine is trusted, but no web page is."""

    has_auth = False

    def check_origin(self, scope: Scope) -> None:
        """Refuse names that are not this machine's (DNS rebinding) and pages of other sites."""
        hosts = header_values(scope, b"host")
        if not hosts or not all(is_loopback(host_of(host)) for host in hosts):
            raise Forbidden(
                "Without configured auth the server answers to localhost only. "
                "Call it as http://127.0.0.1 or http://localhost, or configure auth",
                error="foreign_host",
                detail={"host": hosts},
            )
        for origin in header_values(scope, b"origin"):
            if not self._trusts_origin(origin):
                raise Forbidden(_foreign_message(origin), error="foreign_origin")

    def _trusts_origin(self, origin: str) -> bool:
        """`*` is not enough here: every page that somebody visits could drive their agents."""
        named = self.cors is not None and self.cors.names(origin)
        return named or is_loopback(host_of(netloc_of(origin)))

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:  # noqa: ARG002
        """Everybody is the one who sits here."""
        return ANONYMOUS


def _foreign_message(origin: str) -> str:
    return (
        f"Pages of {origin!r} may not call this server. "
        "If they should, name the origin in http.cors.allow_origins"
    )
