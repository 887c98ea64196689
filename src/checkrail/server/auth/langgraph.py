"""Authentication and authorization by a `langgraph_sdk.Auth` object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langgraph_sdk import Auth
from starlette.types import Receive, Scope

from checkrail.runs.graphs.users import GraphUser
from checkrail.server.auth.authenticator import TERMS, Authenticator
from checkrail.server.auth.caller import Caller
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import AuthError, Forbidden, Unauthenticated
from checkrail.server.auth.filters import Filter, FilterError, normal
from checkrail.server.auth.handlers import (
    Handler,
    authenticate_handler,
    authorization_handler,
    call,
    refusals,
    wanted_parameters,
)
from checkrail.server.auth.request import READING, arguments
from checkrail.server.auth.users import read_caller


class LangGraphAuth(Authenticator):
    """Lets the handlers of an Auth object decide."""

    def __init__(
        self,
        auth: Auth,
        cors: Cors | None = None,
        user_fields: Collection[str] = (),
        *,
        isolate: bool = False,
    ) -> None:
        super().__init__(cors)
        self.isolate = isolate
        self.auth = auth
        self.user_fields = frozenset(user_fields)
        self.handler = authenticate_handler(auth)
        self.wanted = wanted_parameters(self.handler)
        self.reads_body = bool(self.wanted & READING)

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:
        """Ask the authentication handler."""
        given = await arguments(self.wanted, scope, receive)
        async with refusals(self.handler, Unauthenticated):
            caller = read_caller(await call(self.handler, given), self.user_fields)
        if caller is None:
            raise Unauthenticated("The server's authentication handler named no user")
        return caller

    def decides(self, resource: str, action: str) -> bool:
        """Return whether there is a handler for it, and no owners' rule beside it."""
        if self.isolate:
            return False
        return authorization_handler(self.auth, TERMS.get(resource, resource), action) is not None

    async def _handled(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Filter | None:
        handler = authorization_handler(self.auth, resource, action)
        if handler is None:
            return None
        if "metadata" in value and value["metadata"] is None:
            value["metadata"] = {}  # handlers write to what `setdefault` gives them
        context = _context(caller, resource, action)
        async with refusals(handler, Forbidden):
            answer = await handler(ctx=context, value=value)
        return _ruling(handler, answer, resource, action)


def _context(caller: Caller, resource: Any, action: Any) -> Auth.types.AuthContext:
    user = GraphUser(caller.request_user)
    return Auth.types.AuthContext(
        permissions=user.permissions, user=user, resource=resource, action=action
    )


def _ruling(handler: Handler, answer: Any, resource: str, action: str) -> Filter | None:
    if answer is None or answer is True:
        return None
    if answer is False:
        raise Forbidden(f"You may not {action.replace('_', ' ')} here", detail={"on": resource})
    problem = f"returned {type(answer).__name__} instead of None, a bool or a filter"
    if isinstance(answer, Mapping):
        try:
            return normal(answer) or None
        except FilterError as wrong:
            problem = f"returned a filter that cannot be followed: {wrong}"
    name = getattr(handler, "__name__", type(handler).__name__)
    raise AuthError(f"The server's auth handler {name!r} {problem}")
