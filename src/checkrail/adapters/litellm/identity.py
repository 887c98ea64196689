"""Who calls a LiteLLM proxy, and which work a call belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from checkrail.adapters.litellm.requests import LOGGED, metadata_of
from checkrail.engine.records import uuid7
from checkrail.engine.values import User
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.headers import CREDENTIALS, Headers
from checkrail.gateway.identity import Identity

DIGEST = re.compile(r"[0-9a-f]{64}")
NOBODY = "default_user_id"
"""Whom LiteLLM takes the holder of its master key for."""


def ids_of(data: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Return the ids of a call, as the gateway finds them; its id is LiteLLM's."""
    said = {"metadata": metadata_of(data), "user": data.get("user")}
    said["safety_identifier"] = data.get("safety_identifier")
    found = dict(Identity(_headers(data), write_json(said), key=_key_name(key)))
    found["request_id"] = _call_id(data) or uuid7()
    metadata = dict(found.get("metadata") or {})
    user, team = _text(key, "user_id"), _text(key, "team_id")
    if user and user != NOBODY:  # LiteLLM knows whose key it is; whom they speak for is their word
        claimed = found.get("user")
        if isinstance(claimed, str) and claimed != metadata.get("api_key"):
            metadata["end_user"] = claimed
        found["user"] = User(user, org_id=team)
    if team:
        metadata["team"] = team
    found["metadata"] = metadata
    return found


def _call_id(data: Mapping[str, Any]) -> str | None:
    """Give LiteLLM's id of a call; on pass-through routes, only what it logs with has it."""
    return data.get("litellm_call_id") or _text(data.get(LOGGED), "litellm_call_id")


def _headers(data: Mapping[str, Any]) -> Headers:
    request = data.get("proxy_server_request")
    headers = request.get("headers") if isinstance(request, dict) else None
    named = [
        (str(name).lower().encode(errors="replace"), str(value).encode(errors="replace"))
        for name, value in (headers or {}).items()
    ]
    return [header for header in named if header[0] not in CREDENTIALS]


def _key_name(key: Any) -> str | None:
    """Name a key by its alias, or by its digest; LiteLLM has digests of keys for most of them."""
    if alias := _text(key, "key_alias"):
        return alias
    kept = _text(key, "api_key")
    if kept is None:
        return None
    digest = kept if DIGEST.fullmatch(kept) else hashlib.sha256(kept.encode()).hexdigest()
    return f"key-{digest[:16]}"


def _text(key: Any, name: str) -> str | None:
    found = getattr(key, name, None)
    return found if isinstance(found, str) and found else None
