"""Who is calling, and what that allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from starlette.requests import HTTPConnection

from checkrail.engine.values import User
from checkrail.server.auth.errors import Forbidden, Unauthenticated

Role = Literal["admin", "member", "viewer", "runner"]
ROLES: tuple[Role, ...] = get_args(Role)

Needs = Literal["public", "viewer", "member", "admin", "runner"]
"""The least that a route asks of its caller; `public` asks nothing."""

_MAY: dict[Needs, frozenset[Role]] = {
    "public": frozenset(ROLES),
    "viewer": frozenset({"viewer", "member", "admin"}),
    "member": frozenset({"member", "admin"}),
    "admin": frozenset({"admin"}),
    "runner": frozenset({"runner", "admin"}),
}

SCOPE_KEY = "checkrail.caller"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was authenticated.

    `user` is what runs, hooks and records are told of them. `shown` is all that `authenticate`
    returned, credentials perhaps: for the request's own auth handlers and custom routes.
    """

    user: User = field(repr=False)
    role: Role = "member"
    shown: User | None = field(default=None, repr=False)
    key_id: str | None = None

    @property
    def owner(self) -> str:
        """The identity under which threads, runs and records of this caller are kept."""
        return self.user.identity

    @property
    def request_user(self) -> User:
        """The user with all its fields, to be handed to code within the request alone."""
        return self.shown or self.user

    @property
    def is_admin(self) -> bool:
        """Whether this caller sees what others own."""
        return self.role == "admin"

    @property
    def permissions(self) -> Sequence[str]:
        """What the authenticator said that this caller may do, in its own words."""
        return self.user.permissions

    def has_role(self, needs: Needs) -> bool:
        """Return whether the role is enough; a runner's is enough for a runner's routes only."""
        return self.role in _MAY[needs]

    def check_role(self, needs: Needs, what: str = "This") -> None:
        """Raise `Forbidden` if the role is not enough for `what`."""
        if not self.has_role(needs):
            raise Forbidden(
                f"{what} needs the role {needs}, and you are {self.role}", detail={"needs": needs}
            )


ANONYMOUS = Caller(User("anonymous"), "admin")
"""Whoever sits at this machine, where no auth is configured."""


def caller_of(connection: HTTPConnection) -> Caller:
    """Return the caller of a route; made for `Depends`."""
    caller = connection.scope.get(SCOPE_KEY)
    if not isinstance(caller, Caller):
        raise Unauthenticated("Nobody was authenticated for this request")
    return caller
