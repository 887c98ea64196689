"""Choosing how callers are known, by what was configured."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from starlette._utils import get_route_path  # the router's own, so that both see one path
from starlette.types import Receive, Scope

from checkrail.server.auth.authenticator import Authenticator, LoopbackOnly
from checkrail.server.auth.caller import Caller
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.filters import Filter
from checkrail.server.auth.keys import ApiKeys, KeyStore

if TYPE_CHECKING:
    from langgraph_sdk import Auth

RUNNERS = "/runner"


def choose(
    auth: Auth | None = None,
    keys: KeyStore | None = None,
    cors: Cors | None = None,
    user_fields: Collection[str] = (),
    *,
    isolate: bool = False,
) -> Authenticator:
    """Take the Auth object if there is one, else API keys, else this machine only.

    `user_fields` are the extra fields of an Auth object's users that may be stored. With `isolate`
    the owners' rule holds beside the handlers of such an object.
    """
    if auth is None:
        return LoopbackOnly(cors) if keys is None else ApiKeys(keys, cors)
    from checkrail.server.auth.langgraph import LangGraphAuth

    decides = LangGraphAuth(auth, cors, user_fields, isolate=isolate)
    return decides if keys is None else WithRunnerKeys(decides, ApiKeys(keys, cors))


class WithRunnerKeys(Authenticator):
    """Asks somebody else about everything, except that runners bring their keys."""

    def __init__(self, others: Authenticator, runners: ApiKeys) -> None:
        super().__init__(others.cors)
        self.others = others
        self.runners = runners
        self.reads_body = others.reads_body

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:
        """Ask by path."""
        path = get_route_path(scope)
        by_key = path == RUNNERS or path.startswith(f"{RUNNERS}/")
        asked = self.runners if by_key else self.others
        return await asked.authenticate(scope, receive)

    def decides(self, resource: str, action: str) -> bool:
        """Return whether handlers rule over this."""
        return self.others.decides(resource, action)

    async def _handled(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Filter | None:
        return await self.others._handled(caller, resource, action, value)  # noqa: SLF001
