"""The caller's request among what LiteLLM knows of a call, read and written back."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.values import ModelRequest
from checkrail.llm.formats import FORMATS
from checkrail.llm.wire_format import Body, Format

if TYPE_CHECKING:
    from checkrail.adapters.litellm.calls import Call

_FORMATS = {form.name: form for form in FORMATS.values()}

NAMES = {
    "completion": "chat",
    "acompletion": "chat",
    "anthropic_messages": "messages",
    "responses": "responses",
    "aresponses": "responses",
}
"""What LiteLLM calls the formats."""

PATHS = {"/chat/completions": "chat", "/v1/messages": "messages", "/responses": "responses"}
"""How the paths of their requests end, whatever stands before."""

LOGGED = "litellm_logging_obj"
"""Where LiteLLM has the object that it logs a call with, from before hooks to the last byte."""

SAID = frozenset(
    {"model", "messages", "input", "instructions", "system", "tools", "functions", "stream"}
)
"""What is read wherever it comes from: other callbacks may have put it there."""

NEVER = frozenset(
    {
        "api_key",
        "call_type",
        "deployment",
        "extra_headers",
        "headers",
        "metadata",  # the caller's own is read apart, see `body_of`
        "mock_response",
        "provider_specific_header",
        "proxy_server_request",
        "secret_fields",
        "shared_session",
        "ttl",
    }
)
"""What is LiteLLM's own, with keys of callers among it: hooks and records never see it."""


def format_of(call_type: str) -> Format | None:
    """Return the format of a call, by LiteLLM's name of its kind."""
    return _FORMATS.get(NAMES.get(call_type, ""))


def format_at(route: str) -> Format | None:
    """Return the format of what is sent to a path; servers may read odd spellings as that path."""
    path = posixpath.normpath(f"/{route.lower()}")
    return next((_FORMATS[name] for end, name in PATHS.items() if path.endswith(end)), None)


def body_of(form: Format, data: Mapping[str, Any]) -> Body:
    """Return the body of a request: what the caller sent, as others may have changed it since.

    Where LiteLLM has no copy of what was sent, on its pass-through routes, it is all that is there.
    """
    copied = _to_mapping(data.get("proxy_server_request")).get("body", data)
    sent = _to_mapping(copied)
    body = {
        name: value
        for name, value in data.items()
        if name in SAID or (name in sent and name not in NEVER and not _is_own(name))
    }
    metadata = data.get("metadata")
    if form.name != "chat" and isinstance(metadata, dict) and not _is_litellms(metadata):
        body["metadata"] = metadata
    return body


def metadata_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the caller's own metadata; on some routes it is mixed with LiteLLM's."""
    own = _to_mapping(data.get("metadata"))
    return _to_mapping(own.get("requester_metadata")) if _is_litellms(own) else own


def write_back(call: Call, data: dict[str, Any], after: ModelRequest) -> None:
    """Write what hooks changed in a request, also where LiteLLM keeps a copy for its logs."""
    before, body = call.request, call.body
    if all(getattr(after, name) == getattr(before, name) for name in ASKED):
        return
    written = call.format.write_request(body, before, after)
    copied = _to_mapping(data.get("proxy_server_request")).get("body")
    for target in (data, copied):
        if not isinstance(target, dict):
            continue
        for name in body.keys() - written.keys():
            target.pop(name, None)
        for name, value in written.items():
            if name not in body or body[name] is not value:
                target[name] = value


ASKED = ("model", "messages", "tools", "params")
"""What of a request goes to the model."""


def _is_litellms(metadata: Mapping[str, Any]) -> bool:
    """Return whether LiteLLM wrote metadata: no caller may send its key, and it always adds it."""
    return "user_api_key_hash" in metadata


def _is_own(name: str) -> bool:
    return name.startswith(("_", "litellm_"))


def _to_mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}
