"""The ways by which a LiteLLM proxy is asked for a model, and which of them lead past hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from checkrail.adapters.litellm.requests import format_at, format_of
from checkrail.gateway.formats.base import Format

PASSED_ON = "pass_through_endpoint"
"""What LiteLLM calls a request to a provider's own API; callbacks are asked before, not after."""

RELAYED = "allm_passthrough_route"
"""The same for a model of its list; callbacks are only asked when it has chosen who takes it."""

WEBSOCKET = "_aresponses_websocket"
"""Many requests in the responses API on one connection; callbacks are only asked as it begins."""

QUEUE = "/queue/chat/completions"
"""Where callbacks are only asked when LiteLLM has chosen who takes it."""

CURSOR = "/cursor/chat/completions"
"""Where a request may be one of the responses API, and its answer is one of the chat API."""

NOT_SEEN = "no hook sees this, and the hooks of this proxy let nothing pass unseen"


def format_in(call_type: str, route: str, data: Mapping[str, Any]) -> Format | None:
    """Return the format of a request that hooks see; None: it is none of the three APIs."""
    if call_type != PASSED_ON:
        return format_of(call_type)
    return format_at(route) if "messages" in data or "input" in data else None


def past_hooks(call_type: str, route: str) -> str | None:
    """Return what to do instead of asking in a way that hooks cannot follow; None: they can."""
    if call_type == WEBSOCKET:
        return "hooks of this proxy do not see WebSockets: ask /v1/responses by HTTP"
    if route.endswith(CURSOR) and format_of(call_type) is not format_at(route):
        return "hooks of this proxy do not see this mixture of two APIs: ask /v1/responses"
    return None


def unasked(kwargs: Mapping[str, Any], call_type: Any) -> Format | None:
    """Return the format of a call that hooks have to see, and were not asked about."""
    if is_relayed(call_type):
        return format_at(str(kwargs.get("endpoint")))
    request = kwargs.get("proxy_server_request")
    url = request.get("url") if isinstance(request, dict) else None
    path = urlsplit(str(url)).path.rstrip("/")
    return format_at(path) if path.endswith(QUEUE) else None


def is_relayed(call_type: Any) -> bool:
    """Return whether a call is passed through to a model of LiteLLM's list."""
    return bool(getattr(call_type, "value", call_type) == RELAYED)


def unseen(form: Format) -> str:
    """Return what to do instead, for a call that came by such a way."""
    return f"hooks of this proxy do not see what comes by this way: ask {form.path}"
