"""Who a run is for, as graphs know them: by attributes and by keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkrail.engine.frozen import thaw

_FIELDS = ("identity", "email", "org_id", "permissions")


class GraphUser(Mapping[str, Any]):
    """A user of the server, with whatever its authentication returned of them."""

    def __init__(self, user: Any) -> None:
        told = dict(user) if isinstance(user, Mapping) else _user_fields(user)
        self._fields: dict[str, Any] = {
            "display_name": told["identity"],
            "is_authenticated": True,
            **told,
            "permissions": [*(told.get("permissions") or ())],
        }

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
        """Whether they are who they say; nobody else has runs."""
        return bool(self._fields["is_authenticated"])

    @property
    def permissions(self) -> Sequence[str]:
        """What they may do, in the words of whoever let them in."""
        return self._fields["permissions"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(f"the user has no {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"GraphUser({self.identity!r})"


def graph_user(user: Any) -> Any:
    """Return a user as graphs expect one."""
    return user if user is None or isinstance(user, GraphUser) else GraphUser(user)


def _user_fields(user: Any) -> dict[str, Any]:
    given = {name: getattr(user, name, None) for name in _FIELDS}
    known = {name: value for name, value in given.items() if value is not None}
    return {**thaw(getattr(user, "extras", None) or {}), **known}
