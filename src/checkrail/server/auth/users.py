"""The user that an authentication handler returned, and the one that handlers are shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import User
from checkrail.server.auth.caller import Caller, Role

_OWN = ("identity", "email", "org_id", "permissions")
_ASKED = (*_OWN, "display_name", "is_authenticated", "role")
_GIVEN: dict[str, Role] = {"admin": "admin", "viewer": "viewer"}
"""Roles that a handler can give; a runner has a key, and everybody else is a member."""


def read_caller(returned: Any) -> Caller | None:
    """Read what `@auth.authenticate` returned; None where it names nobody."""
    fields = {"identity": returned} if isinstance(returned, str) else _fields(returned)
    identity = fields.get("identity")
    if not isinstance(identity, str) or not identity or not fields.get("is_authenticated", True):
        return None
    role = fields.get("role")
    user = User(
        identity=identity,
        email=_text(fields.get("email")),
        org_id=_text(fields.get("org_id")),
        permissions=[str(each) for each in fields.get("permissions") or ()],
        extras={str(name): value for name, value in fields.items() if name not in _OWN},
    )
    return Caller(user, _GIVEN.get(role, "member") if isinstance(role, str) else "member")


def _fields(returned: Any) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return dict(returned)
    asked = {name: getattr(returned, name) for name in _ASKED if hasattr(returned, name)}
    return {**_attributes(returned), **asked}


def _attributes(returned: Any) -> dict[str, Any]:
    """Give what a user object carries beside the fields that everybody knows."""
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        names = [field.name for field in dataclasses.fields(returned)]
        return {name: getattr(returned, name) for name in names}
    kept = getattr(returned, "__dict__", {})
    return {name: value for name, value in kept.items() if not name.startswith("_")}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def user_fields(user: User) -> dict[str, Any]:
    """Give a user as one flat dict, as graphs find it in `langgraph_auth_user`."""
    own = {"identity": user.identity, "email": user.email, "org_id": user.org_id}
    given = {name: value for name, value in own.items() if value is not None}
    described = {"display_name": user.identity, "is_authenticated": True}
    plain = {**described, **thaw(user.extras), **given}
    return {**plain, "permissions": list(user.permissions)}


class AuthUser:
    """A user as handlers and custom routes know it: by attributes and by keys."""

    def __init__(self, user: User) -> None:
        self._fields = user_fields(user)

    @property
    def identity(self) -> str:
        """Who it is."""
        return str(self._fields["identity"])

    @property
    def display_name(self) -> str:
        """What to call them."""
        return str(self._fields["display_name"])

    @property
    def is_authenticated(self) -> bool:
        """Nobody else gets this far."""
        return True

    @property
    def permissions(self) -> Sequence[str]:
        """What they may do, in the words of the handler."""
        return list(self._fields["permissions"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # also before there are fields, when one is copied
        if name not in self._fields:
            raise AttributeError(f"user {self.identity!r} has no {name!r}")
        return self._fields[name]

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def get(self, name: str, default: Any = None) -> Any:
        """Give a field, as a dict does."""
        return self._fields.get(name, default)

    def __repr__(self) -> str:
        return f"AuthUser({self.identity!r})"
