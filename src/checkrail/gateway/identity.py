"""Who a request is from, and which work it belongs to: ids from headers, its body, or its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from checkrail.engine.values import User
from checkrail.gateway.headers import Headers, find_credentials, find_header
from checkrail.times import uuid7

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

_SESSIONS = (b"x-claude-code-session-id", b"session-id", b"session_id", b"x-session-id")
"""Where Claude Code, Codex, older Codex and opencode say which session it is."""


class Identity(Mapping[str, Any]):
    """The ids of one request, as a scope binds them.

    The body is only read when they are asked for, for most requests pass without anybody asking.
    """

    def __init__(
        self, headers: Headers, body: bytes, *, key: str | None = None, user: User | None = None
    ) -> None:
        self.request_id = read_request_id(headers)
        self._headers = headers
        self._body = body
        self._key = key
        self._user = user
        self._found: dict[str, Any] | None = None

    def use_parsed(self, body: Mapping[str, Any]) -> None:
        """Read the ids from a body that somebody has parsed already."""
        self._found = {"request_id": self.request_id, **self._read_ids(body)}
        self.drop_body()

    def drop_body(self) -> None:
        """Keep nothing of the body: ids that nobody has read by now come from headers alone."""
        self._body = b""

    def __getitem__(self, name: str) -> Any:
        return self._load_ids()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_ids())

    def __len__(self) -> int:
        return len(self._load_ids())

    def _load_ids(self) -> dict[str, Any]:
        if self._found is None:
            self._found = {"request_id": self.request_id, **self._read_ids(_read_body(self._body))}
        return self._found

    def _read_ids(self, body: Mapping[str, Any]) -> dict[str, Any]:
        said = _mapping_or_empty(body.get("metadata"))
        claimed, session = _claimed_user(self._headers, body, said)
        key = self._key or key_fingerprint(self._headers)
        found: dict[str, Any] = {
            name: _valid_id(find_header(self._headers, header)) or _first_id(said, _SAID[name])
            for name, header in _HEADERS.items()
        }
        if self._user is not None:  # known runs are not anybody's: the door has checked the header
            found["run_id"] = _valid_id(find_header(self._headers, _HEADERS["run_id"]))
        found["session_id"] = found["session_id"] or self._agent_session() or session
        found["user"] = self._user or claimed or key
        metadata = {"api_key": key}
        if self._user is not None and claimed is not None:
            metadata["end_user"] = claimed
        found["metadata"] = {name: value for name, value in metadata.items() if value is not None}
        return {name: value for name, value in found.items() if value}

    def _agent_session(self) -> str | None:
        """Return the session that a coding agent names in a header of its own."""
        named = (_valid_id(find_header(self._headers, name)) for name in _SESSIONS)
        return next(filter(None, named), None)


def read_request_id(headers: Headers) -> str:
    """Return the id that a caller gave to its request, or a new one."""
    return _valid_id(find_header(headers, b"x-request-id")) or uuid7()


def key_fingerprint(headers: Headers) -> str | None:
    """Return a name for the key that a caller sent, made of its digest."""
    keys = find_credentials(headers)
    return f"key-{hashlib.sha256(keys[0].encode()).hexdigest()[:16]}" if keys else None


def _claimed_user(
    headers: Headers, body: Mapping[str, Any], said: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return the user that a request claims, and the session if it comes with the user.

    Some coding agents write both, and more, into `user_id`.
    """
    named = find_header(headers, b"x-checkrail-user")
    if named is not None and (user := _valid_id(named)):
        return user, None
    given = said.get("user_id")
    if isinstance(given, str) and given.startswith("{"):
        inner = _read_body(given.encode())
        user = _first_id(inner, ("user_id", "account_uuid", "device_id"))
        return user or _find_plain_user(body, said), _first_id(inner, ("session_id",))
    if isinstance(given, str) and _SESSION in given:
        user, _, session = given.rpartition(_SESSION)
        return _valid_id(user), _valid_id(session)
    return _valid_id(given) or _find_plain_user(body, said), None


def _find_plain_user(body: Mapping[str, Any], said: Mapping[str, Any]) -> str | None:
    return _first_id(body, ("user", "safety_identifier")) or _first_id(said, ("user",))


def _first_id(given: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := _valid_id(given.get(name)))), None)


def _valid_id(given: Any) -> str | None:
    """Return a text that can be an id, or None."""
    if isinstance(given, str) and 0 < len(given) <= LONGEST and given.isprintable():
        return given.strip() or None
    return None


def _mapping_or_empty(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def _read_body(body: bytes) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one if the body is not one."""
    try:
        return _mapping_or_empty(orjson.loads(body))
    except orjson.JSONDecodeError:
        pass
    try:
        return _mapping_or_empty(json.loads(body))
    except (ValueError, RecursionError):
        return {}
