"""Who is calling, and what that allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from starlette.requests import HTTPConnection

from checkrail.engine.values import User
from checkrail.server.auth.errors import Unauthenticated

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
    """Somebody who was authenticated."""

    user: User = field(repr=False)  # its extras may hold credentials
    role: Role = "member"

    @property
    def owner(self) -> str:
        """The identity under which threads, runs and records of this caller are kept."""
        return self.user.identity

    @property
    def is_admin(self) -> bool:
        """Whether this caller sees what others own."""
        return self.role == "admin"

    @property
    def permissions(self) -> Sequence[str]:
        """What the authenticator said that this caller may do, in its own words."""
        return self.user.permissions

    def may(self, needs: Needs) -> bool:
        """Say whether the role is enough; a runner's is enough for a runner's routes only."""
        return self.role in _MAY[needs]


ANONYMOUS = Caller(User("anonymous"), "admin")
"""Whoever sits at this machine, where no auth is configured."""


def caller_of(connection: HTTPConnection) -> Caller:
    """Give a route its caller; made for `Depends`."""
    caller = connection.scope.get(SCOPE_KEY)
    if not isinstance(caller, Caller):
        raise Unauthenticated("Nobody was authenticated for this request")
    return caller
