"""`HookContext`: one proxy hook's own copy of what passes, and how a change in it is read.

| event | where the value is |
|---|---|
| `pre_request` | `messages` and `tools` of the request |
| `post_response` | `response`: the model's answer as a dict, `usage` included |
| `pre_tool_call` | `tools`: a list of one dict, the call (`id`, `name`, `args`, `context`) |
| `post_tool_call` | `response`: the tool's result as a dict |

A field set to None is not read. A key that a hook leaves out of a dict is emptied, except for
those in `KEPT`.

`metadata` is carried from hook to hook of one request. It begins with the client's `metadata`, as
hooks left it, and what the event carries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from checkrail.engine.errors import InvalidOutcomeError, suggestion
from checkrail.engine.event import Event, notes_of
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import UNSET
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult, Value

CLIENT_METADATA = "proxy.client_metadata"
"""Where a gateway notes the `metadata` of a client's request."""

CARRIED = "proxy.metadata"
"""Where the metadata that hooks have changed is noted, for the hooks after them."""

STOPPED = "proxy.stop_chain"
"""Where it is noted that a hook ended the chain."""

HOOK_CONFIG = "hook_config"

KEPT = frozenset({"id", "name", "context", "model", "usage"})
"""What says which call it was, and what it cost, stays with a value unless it is set anew."""


class HookEvent(StrEnum):
    """The moments of a model proxy; each is a point."""

    PRE_REQUEST = "pre_request"
    POST_RESPONSE = "post_response"
    PRE_TOOL_CALL = "pre_tool_call"
    POST_TOOL_CALL = "post_tool_call"


@dataclass
class HookContext:
    """One hook's own copy of what passes the proxy: change it, and return it."""

    event: HookEvent
    model: str
    provider: str | None
    request_id: str
    timestamp: float
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    response: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    stop_chain: bool = False


def metadata_at(event: Event[Any]) -> dict[str, Any]:
    """Return the metadata of a context: the client's, the event's, and what hooks made of both."""
    notes = notes_of(event)
    client = notes.get(CLIENT_METADATA)
    if isinstance(event.value, ModelRequest):
        client = event.value.params.get("metadata", client)
    own = client if isinstance(client, Mapping) else {}
    found = {**own, **event.metadata, **notes.get(CARRIED, {})}
    return {key: thaw(item) for key, item in found.items() if item is not UNSET}


def carry_metadata(event: Event[Any], before: Mapping[str, Any], context: HookContext) -> None:
    """Note what a hook changed in the metadata of its context, for the hooks after it."""
    after = context.metadata
    if not isinstance(after, Mapping):
        raise InvalidOutcomeError(f"ctx.metadata is {type(after).__name__}, not a dict")
    known = {key: after.get(key, UNSET) for key in before if key != HOOK_CONFIG}
    changes = {key: item for key, item in known.items() if item is UNSET or item != before[key]}
    changes |= {key: after[key] for key in after if key not in before and key != HOOK_CONFIG}
    if changes:
        notes_of(event).setdefault(CARRIED, {}).update(thaw(changes))


def value_in(context: HookContext) -> ModelRequest | AssistantMessage | ToolCall | ToolResult:
    """Return the value that a context made by hand stands for."""
    event = HookEvent(context.event)
    if event is HookEvent.PRE_REQUEST:
        request = ModelRequest(context.model, context.provider)
        return _read_request(context, request)
    if event is HookEvent.PRE_TOOL_CALL:
        return value_from_hook(context, ToolCall())  # type: ignore[no-any-return]
    kind = AssistantMessage if event is HookEvent.POST_RESPONSE else ToolResult
    return value_from_hook(context, kind())  # type: ignore[no-any-return]


def context_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a context that hold a value, as plain data that may be changed."""
    if isinstance(value, ModelRequest):
        return {"messages": thaw(value.messages), "tools": thaw(value.tools)}
    return (
        {"tools": [_to_plain(value)]}
        if isinstance(value, ToolCall)
        else {"response": _to_plain(value)}
    )


def value_from_hook(context: HookContext, value: Any) -> Any:
    """Read the value from a context that a hook returned; the same object if it is unchanged."""
    if isinstance(value, ModelRequest):
        return _read_request(context, value)
    if isinstance(value, ToolCall):
        if context.tools is None:
            return value
        calls = _check_dicts(context.tools, "tools")
        if len(calls) != 1:
            raise InvalidOutcomeError(f"ctx.tools holds the one call, but has {len(calls)} now")
        return _merge_changes(value, calls[0], "ctx.tools[0]")
    return (
        value
        if context.response is None
        else _merge_changes(value, context.response, "ctx.response")
    )


def _read_request(context: HookContext, value: ModelRequest) -> ModelRequest:
    told = {"messages": context.messages, "tools": context.tools}
    changes: dict[str, Any] = {
        name: _check_dicts(now, name)
        for name, now in told.items()
        if now is not None and now != getattr(value, name)
    }
    return dataclasses.replace(value, **changes) if changes else value


def _merge_changes(value: Any, told: Any, where: str) -> Any:
    before = _to_plain(value)
    if not isinstance(told, Mapping):
        raise InvalidOutcomeError(f"{where} is {type(told).__name__}, not a dict")
    for key in told:
        if key not in before:
            hint = suggestion(str(key), before)
            raise InvalidOutcomeError(f"{where} has a key {key!r} that is not known{hint}")
    empty = _to_plain(type(value)())
    kept = {key: now for key, now in before.items() if key in KEPT}
    now = {**empty, **kept, **told}
    changes = {key: _to_typed(key, item) for key, item in now.items() if item != before[key]}
    return dataclasses.replace(value, **changes) if changes else value


def _to_typed(key: str, item: Any) -> Any:
    """Return a changed item in the type that it has in the value."""
    if key == "args" and not isinstance(item, Mapping):
        raise InvalidOutcomeError(f"the arguments of a call are a dict, not {type(item).__name__}")
    if key == "tool_calls":
        calls = _check_dicts(item or [], "tool_calls")
        return [
            _merge_changes(ToolCall(), call, f"tool_calls[{n}]") for n, call in enumerate(calls)
        ]
    return item


def _check_dicts(given: Any, name: str) -> list[Mapping[str, Any]]:
    if isinstance(given, list) and all(isinstance(item, Mapping) for item in given):
        return given
    raise InvalidOutcomeError(f"{name} in the context has to be a list of dicts")


def _to_plain(value: Any) -> Any:
    """Return a value as plain data that may be changed; objects in it stay as they are."""
    if isinstance(value, Value):
        return {item.name: _to_plain(getattr(value, item.name)) for item in fields(value)}  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list) else thaw(value)
