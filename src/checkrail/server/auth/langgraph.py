"""Authentication and authorization by a `langgraph_sdk.Auth` object."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from langgraph_sdk import Auth
from starlette.types import Receive, Scope

from checkrail.engine.values import User
from checkrail.runs.graphs.users import GraphUser
from checkrail.server.auth.authenticator import TERMS, RequestAuthenticator
from checkrail.server.auth.caller import Caller, Role
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import AuthError, Forbidden, Unauthenticated
from checkrail.server.auth.filters import Filter, FilterError, normalize_filter
from checkrail.server.auth.handlers import (
    Handler,
    call_handler,
    find_authenticate_handler,
    find_authorization_handler,
    handler_parameters,
    translate_errors,
)
from checkrail.server.auth.request import READING, handler_arguments

_OWN = ("identity", "email", "org_id", "permissions")
_ASKED = (*_OWN, "display_name", "is_authenticated", "role")
_KNOWN = frozenset({"display_name", "is_authenticated"})
"""Extra fields of a user that are stored with their runs; others only if the config names them."""
_GIVEN: dict[str, Role] = {"admin": "admin", "viewer": "viewer"}
"""Roles that a handler can give; a runner has a key, and everybody else is a member."""


def parse_caller(returned: Any, stored: Collection[str] = ()) -> Caller | None:
    """Parse what `@auth.authenticate` returned; None where it names nobody.

    Its extra fields may be credentials: `user` has only those that are `stored`, and `shown` all.
    """
    fields = {"identity": returned} if isinstance(returned, str) else _user_fields(returned)
    identity = fields.get("identity")
    if not isinstance(identity, str) or not identity or not fields.get("is_authenticated", True):
        return None
    role = fields.get("role")
    shown = User(
        identity=identity,
        email=_to_text(fields.get("email")),
        org_id=_to_text(fields.get("org_id")),
        permissions=[str(each) for each in fields.get("permissions") or ()],
        extras={str(name): value for name, value in fields.items() if name not in _OWN},
    )
    named = {
        name: value
        for name, value in shown.extras.items()
        if name in stored or (name in _KNOWN and isinstance(value, str | bool))
    }
    given = _GIVEN.get(role, "member") if isinstance(role, str) else "member"
    return Caller(dataclasses.replace(shown, extras=named), given, shown)


def _user_fields(returned: Any) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return dict(returned)
    asked = {name: getattr(returned, name) for name in _ASKED if hasattr(returned, name)}
    return {**_extra_attributes(returned), **asked}


def _extra_attributes(returned: Any) -> dict[str, Any]:
    """Return what a user object carries beside the fields that everybody knows."""
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        names = [field.name for field in dataclasses.fields(returned)]
        return {name: getattr(returned, name) for name in names}
    kept = getattr(returned, "__dict__", {})
    return {name: value for name, value in kept.items() if not name.startswith("_")}


def _to_text(value: Any) -> str | None:
    return None if value is None else str(value)


class LangGraphAuth(RequestAuthenticator):
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
        self.handler = find_authenticate_handler(auth)
        self.wanted = handler_parameters(self.handler)
        self.reads_body = bool(self.wanted & READING)

    async def authenticate(self, scope: Scope, receive: Receive) -> Caller:
        """Call the authentication handler."""
        given = await handler_arguments(self.wanted, scope, receive)
        async with translate_errors(self.handler, Unauthenticated):
            caller = parse_caller(await call_handler(self.handler, given), self.user_fields)
        if caller is None:
            raise Unauthenticated("The server's authentication handler named no user")
        return caller

    def has_handler(self, resource: str, action: str) -> bool:
        """Return whether there is a handler for it, and no owners' rule beside it."""
        if self.isolate:
            return False
        return (
            find_authorization_handler(self.auth, TERMS.get(resource, resource), action) is not None
        )

    async def _call_handler(
        self, caller: Caller, resource: str, action: str, value: dict[str, Any]
    ) -> Filter | None:
        handler = find_authorization_handler(self.auth, resource, action)
        if handler is None:
            return None
        if "metadata" in value and value["metadata"] is None:
            value["metadata"] = {}  # handlers write to what `setdefault` gives them
        context = _auth_context(caller, resource, action)
        async with translate_errors(handler, Forbidden):
            answer = await handler(ctx=context, value=value)
        return _parse_ruling(handler, answer, resource, action)


def _auth_context(caller: Caller, resource: Any, action: Any) -> Auth.types.AuthContext:
    user = GraphUser(caller.request_user)
    return Auth.types.AuthContext(
        permissions=user.permissions, user=user, resource=resource, action=action
    )


def _parse_ruling(handler: Handler, answer: Any, resource: str, action: str) -> Filter | None:
    if answer is None or answer is True:
        return None
    if answer is False:
        raise Forbidden(f"You may not {action.replace('_', ' ')} here", detail={"on": resource})
    problem = f"returned {type(answer).__name__} instead of None, a bool or a filter"
    if isinstance(answer, Mapping):
        try:
            return normalize_filter(answer) or None
        except FilterError as wrong:
            problem = f"returned a filter that cannot be followed: {wrong}"
    name = getattr(handler, "__name__", type(handler).__name__)
    raise AuthError(f"The server's auth handler {name!r} {problem}")
