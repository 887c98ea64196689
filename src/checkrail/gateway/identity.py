"""Who a request is from, and which work it belongs to: ids from headers, its body, or its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from checkrail.engine.records import uuid7
from checkrail.engine.values import User
from checkrail.gateway.headers import Headers, credentials_of, value_of

LONGEST = 256
"""Characters that an id may have; what is longer is none."""

_HEADERS = {
    "run_id": b"x-checkrail-run-id",
    "session_id": b"x-checkrail-session-id",
    "agent_name": b"x-checkrail-agent",
}
_SAID = {
    "run_id": ("run_id",),
    "session_id": ("session_id",),
    "agent_name": ("agent_name", "agent"),
}
"""What the `metadata` of a request calls them."""

_SESSION = "_session_"


class Identity(Mapping[str, Any]):
    """The ids of one request, as a scope binds them.

    The body is only read when they are asked for, for most requests pass without anybody asking.
    """

    def __init__(
        self, headers: Headers, body: bytes, *, key: str | None = None, user: User | None = None
    ) -> None:
        self.request_id = request_id(headers)
        self._headers = headers
        self._body = body
        self._key = key
        self._user = user
        self._found: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._ids()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids())

    def __len__(self) -> int:
        return len(self._ids())

    def _ids(self) -> dict[str, Any]:
        if self._found is None:
            self._found = {"request_id": self.request_id, **self._read()}
        return self._found

    def _read(self) -> dict[str, Any]:
        body = _object(self._body)
        said = _mapping(body.get("metadata"))
        claimed, session = _claimed(self._headers, body, said)
        key = self._key or key_name(self._headers)
        found: dict[str, Any] = {
            name: _id(value_of(self._headers, header)) or _first(said, _SAID[name])
            for name, header in _HEADERS.items()
        }
        if self._user is not None:  # known runs are not anybody's: the door has checked the header
            found["run_id"] = _id(value_of(self._headers, _HEADERS["run_id"]))
        found["session_id"] = found["session_id"] or session
        found["user"] = self._user or claimed or key
        metadata = {"api_key": key}
        if self._user is not None and claimed is not None:
            metadata["end_user"] = claimed
        found["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        return {name: value for name, value in found.items() if value}


def request_id(headers: Headers) -> str:
    """Return the id that a caller gave to its request, or make one."""
    return _id(value_of(headers, b"x-request-id")) or uuid7()


def key_name(headers: Headers) -> str | None:
    """Name the key that a caller sent by its digest: who has the name does not have the key."""
    keys = credentials_of(headers)
    return f"key-{hashlib.sha256(keys[0].encode()).hexdigest()[:16]}" if keys else None


def _claimed(
    headers: Headers, body: Mapping[str, Any], said: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return the user that a request speaks for, and the session if it is told with the user.

    Some coding agents write both, and more, into `user_id`.
    """
    named = value_of(headers, b"x-checkrail-user")
    if named is not None and (user := _id(named)):
        return user, None
    given = said.get("user_id")
    if isinstance(given, str) and given.startswith("{"):
        inner = _object(given.encode())
        user = _first(inner, ("user_id", "account_uuid", "device_id"))
        return user or _plain_user(body, said), _first(inner, ("session_id",))
    if isinstance(given, str) and _SESSION in given:
        user, _, session = given.rpartition(_SESSION)
        return _id(user), _id(session)
    return _id(given) or _plain_user(body, said), None


def _plain_user(body: Mapping[str, Any], said: Mapping[str, Any]) -> str | None:
    return _first(body, ("user", "safety_identifier")) or _first(said, ("user",))


def _first(given: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := _id(given.get(name)))), None)


def _id(given: Any) -> str | None:
    """Return a text that can be an id, and nothing for anything else."""
    if isinstance(given, str) and 0 < len(given) <= LONGEST and given.isprintable():
        return given.strip() or None
    return None


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def _object(body: bytes) -> Mapping[str, Any]:
    """Read a JSON object; what is none says nothing of who it is from."""
    try:
        return _mapping(orjson.loads(body))
    except orjson.JSONDecodeError:
        pass
    try:
        return _mapping(json.loads(body))
    except (ValueError, RecursionError):
        return {}
