"""The user that an authentication handler returned."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from checkrail.engine.values import User
from checkrail.server.auth.caller import Caller, Role

_OWN = ("identity", "email", "org_id", "permissions")
_ASKED = (*_OWN, "display_name", "is_authenticated", "role")
_KNOWN = frozenset({"display_name", "is_authenticated"})
"""Extra fields of a user that are stored with their runs; others only if the config names them."""
_GIVEN: dict[str, Role] = {"admin": "admin", "viewer": "viewer"}
"""Roles that a handler can give; a runner has a key, and everybody else is a member."""


def read_caller(returned: Any, stored: Collection[str] = ()) -> Caller | None:
    """Read what `@auth.authenticate` returned; None where it names nobody.

    Its extra fields may be credentials: `user` has only those that are `stored`, and `shown` all.
    """
    fields = {"identity": returned} if isinstance(returned, str) else _fields(returned)
    identity = fields.get("identity")
    if not isinstance(identity, str) or not identity or not fields.get("is_authenticated", True):
        return None
    role = fields.get("role")
    shown = User(
        identity=identity,
        email=_text(fields.get("email")),
        org_id=_text(fields.get("org_id")),
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


def _fields(returned: Any) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return dict(returned)
    asked = {name: getattr(returned, name) for name in _ASKED if hasattr(returned, name)}
    return {**_attributes(returned), **asked}


def _attributes(returned: Any) -> dict[str, Any]:
    """Return what a user object carries beside the fields that everybody knows."""
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        names = [field.name for field in dataclasses.fields(returned)]
        return {name: getattr(returned, name) for name in names}
    kept = getattr(returned, "__dict__", {})
    return {name: value for name, value in kept.items() if not name.startswith("_")}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
