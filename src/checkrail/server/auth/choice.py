"""Choosing how callers are known, by what was configured."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from starlette._utils import get_route_path  # the router's own, so that both see one path
from starlette.types import Receive, Scope

from checkrail.server.auth.authenticator import LoopbackOnly, RequestAuthenticator
from checkrail.server.auth.caller import Caller
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.filters import Filter
from checkrail.server.auth.keys import ApiKeys, KeyStore

if TYPE_CHECKING:
    from langgraph_sdk import Auth

RUNNERS = "/runner"


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
