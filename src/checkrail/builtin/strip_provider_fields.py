"""`strip_provider_fields`: takes out what strict providers refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from checkrail.builtin.base import Builtin
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ModelRequest
from checkrail.styles.hook_context import HookContext

if TYPE_CHECKING:
    from checkrail.builtin.options import StripProviderFieldsOptions

FOREIGN = frozenset({"cache_control", "provider_specific_fields"})
NESTED = frozenset({"content", "tool_calls", "function"})
"""Where a message, a block or a tool holds further ones; arguments and schemas are let be."""


def build(
    options: StripProviderFieldsOptions,
) -> Callable[[Event[Any], ModelRequest], Continue | None]:
    """Build the hook."""
    strict = {provider.lower() for provider in options.providers}

    def strip_provider_fields(event: Event[Any], request: ModelRequest) -> Continue | None:
        request = BUILTIN.expect_value(event, request, ModelRequest)
        if provider_of(event, request) not in strict:
            return None
        messages, tools = strip_fields(request.messages), strip_fields(request.tools)
        if messages is request.messages and tools is request.tools:
            return None
        return Continue(dataclasses.replace(request, messages=messages, tools=tools))

    return strip_provider_fields


def provider_of(event: Event[Any], request: ModelRequest) -> str | None:
    """Find the provider: as the request or the event names it, else the model's prefix."""
    named = request.provider or event.provider
    if named:
        return named.lower()
    prefix, slash, _ = (event.model or "").partition("/")
    return prefix.lower() if slash else None


def strip_fields(part: Any) -> Any:
    """Return a part of a request without the foreign fields; the same object if it has none."""
    if isinstance(part, Mapping):
        kept = {key: _strip_nested(key, item) for key, item in part.items() if key not in FOREIGN}
        same = len(kept) == len(part) and all(kept[key] is part[key] for key in kept)
        return part if same else kept
    if isinstance(part, (list, tuple)):
        items = [strip_fields(item) for item in part]
        return part if all(new is old for new, old in zip(items, part, strict=True)) else items
    return part


def _strip_nested(key: str, item: Any) -> Any:
    return strip_fields(item) if key in NESTED else item


BUILTIN = Builtin(
    name="strip_provider_fields",
    summary="takes cache_control and provider_specific_fields out of requests to strict providers",
    points=(HookPoint.BEFORE_LLM_CALL,),
    lane=Lane.TRANSFORM,
    build=build,
    example={"providers": ["groq", "cerebras"]},
    reads=(ModelRequest,),
)


@overload
def strip_provider_fields(event: HookContext) -> Awaitable[HookContext]: ...
@overload
def strip_provider_fields(event: Event[Any], request: ModelRequest) -> Continue | None: ...
def strip_provider_fields(event: Any, request: Any = None) -> Any:
    """Take out of a request what its provider would refuse.

    With the `HookContext` of a proxy hook in place of an event, it is awaited and gives another.
    """
    if isinstance(event, HookContext):
        return BUILTIN.on_context(event)
    return BUILTIN.hook_for(event)(event, request)
