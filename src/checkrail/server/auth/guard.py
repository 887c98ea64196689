"""The door of the server: every request passes it before anything else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from starlette.authentication import AuthCredentials
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from checkrail.runs.graphs.users import GraphUser
from checkrail.server.auth.authenticator import RequestAuthenticator
from checkrail.server.auth.caller import SCOPE_KEY, Caller
from checkrail.server.auth.errors import AuthError, send_refusal
from checkrail.server.auth.request import Rewind
from checkrail.server.auth.route_table import SOCKET, TABLE, Rule, RuleMatch, Rules

Custom = Literal["none", "open", "guarded"]
"""Routes of the user's own app: there are none, anybody may call them, callers only."""

RULE_KEY = "checkrail.rule"
_SAFE = ("GET", "HEAD", "OPTIONS", SOCKET)
"""Methods by which a viewer may call the user's own app."""
BODY_LIMIT = 16 * 1024 * 1024


class Guard:
    """Authenticates each request and checks its role by the table, as plain ASGI.

    `routes` are those of the app behind it, which say what a request is for.

    Routes find the `Caller` in `request.state.caller` and `scope["checkrail.caller"]`, and the
    rule in `scope["checkrail.rule"]`. Add it to the app as the outermost middleware but CORS.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: RequestAuthenticator,
        routes: Sequence[BaseRoute],
        *,
        rules: Rules = TABLE,
        custom: Custom = "none",
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self.app = app
        self.authenticator = authenticator
        self.routes = routes
        self.rules = rules
        self.custom = custom
        self.body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through with its caller, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        try:
            receive = await self._authorize_scope(scope, receive)
        except AuthError as refusal:
            await send_refusal(refusal, scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _authorize_scope(self, scope: Scope, receive: Receive) -> Receive:
        self.authenticator.check_origin(scope)
        method = scope["method"] if scope["type"] == "http" else SOCKET
        found = self.rules.find(scope, self.routes)
        if self._is_public(found):
            return receive
        caller = scope.get(SCOPE_KEY)  # of the dashboard, which asks in the process
        if not isinstance(caller, Caller):
            told = {**scope, "path_params": found.params}
            caller, receive = await self._authenticate(told, receive)
        if found.ours or self.custom == "none":
            scope[RULE_KEY] = _check_rule(caller, found)
        else:
            caller.check_role("viewer" if method in _SAFE else "member")
            _set_user(caller, scope)
        scope[SCOPE_KEY] = caller
        scope.setdefault("state", {})["caller"] = caller
        return receive

    def _is_public(self, found: RuleMatch) -> bool:
        if found.rule is not None:
            return found.rule.needs == "public"
        return self.custom == "open" and not found.ours

    async def _authenticate(self, scope: Scope, receive: Receive) -> tuple[Caller, Receive]:
        if not self.authenticator.reads_body or scope["type"] != "http":
            return await self.authenticator.authenticate(scope, receive), receive
        rewind = Rewind(receive, self.body_limit)
        return await self.authenticator.authenticate(
            scope, rewind.receive_first
        ), rewind.receive_again


def _check_rule(caller: Caller, found: RuleMatch) -> Rule:
    if found.rule is not None:
        caller.check_role(found.rule.needs)
        return found.rule
    if not found.methods:
        raise AuthError("There is nothing at this path", status=404, error="not_found")
    allow = ", ".join(found.methods)
    raise AuthError(
        f"This path takes {allow}", status=405, error="method_not_allowed", headers={"Allow": allow}
    )


def _set_user(caller: Caller, scope: Scope) -> None:
    """Set the caller as the user of somebody else's app, the way that Starlette does."""
    scope["user"] = GraphUser(caller.request_user)
    scope["auth"] = AuthCredentials(["authenticated", *caller.permissions])
