"""The proxy style: `async def hook(ctx: HookContext) -> HookContext`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from checkrail.engine.callables import annotation_of, is_async_callable
from checkrail.engine.dispatch_state import hook_at_work
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event, notes_of
from checkrail.engine.frozen import thaw
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import HookPoint
from checkrail.styles.hook_context import (
    HOOK_CONFIG,
    STOPPED,
    HookContext,
    HookEvent,
    carry_metadata,
    context_fields,
    metadata_at,
    value_from_hook,
)

__all__ = ["EVENTS", "HookContext", "HookEvent", "HookFn", "adapt", "context_of", "is_proxy_hook"]

HookFn = Callable[[HookContext], HookContext | Awaitable[HookContext | None] | None]
Adapted = Callable[[Event[Any]], Any]

EVENTS = {
    HookPoint.BEFORE_LLM_CALL: HookEvent.PRE_REQUEST,
    HookPoint.AFTER_LLM_CALL: HookEvent.POST_RESPONSE,
    HookPoint.BEFORE_TOOL_CALL: HookEvent.PRE_TOOL_CALL,
    HookPoint.AFTER_TOOL_CALL: HookEvent.POST_TOOL_CALL,
}
"""The points where a proxy hook can stand."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_proxy_hook(fn: Any, *, unless_annotated: bool = False) -> bool:
    """Return whether a function is written in this style, by how its one parameter is annotated.

    Where no annotation says it, `unless_annotated` does.
    """
    try:
        parameters = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return False
    needed = [each for each in parameters if each.default is each.empty]
    if len(needed) != 1 or needed[0].kind not in _POSITIONAL:
        return False
    told = annotation_of(fn, needed[0])
    if told in (inspect.Parameter.empty, Any, "Any"):
        return unless_annotated
    name = told if isinstance(told, str) else getattr(told, "__name__", "")
    return name.strip("'\"").rpartition(".")[2] == HookContext.__name__


def adapt(fn: HookFn, config: Mapping[str, Any] | None = None) -> Adapted:
    """Return a proxy hook as a hook; a config that it is registered with goes before `config`."""

    def call(event: Event[Any]) -> Any:
        given = context_of(event, config)
        before = thaw(given.metadata)
        answer = fn(given)
        if inspect.isawaitable(answer):
            return _await_outcome(answer, event, given, before)
        return _read_outcome(answer, event, given, before)

    async def call_async(event: Event[Any]) -> Continue | None:
        given = context_of(event, config)
        before = thaw(given.metadata)
        return _read_outcome(await fn(given), event, given, before)  # type: ignore[misc]

    hook: Any = call_async if is_async_callable(fn) else call
    hook.func = fn  # as a partial has it: the name and place of what is called are shown
    return hook  # type: ignore[no-any-return]


def context_of(event: Event[Any], config: Mapping[str, Any] | None = None) -> HookContext:
    """Copy an event into the context that one hook may change."""
    model = event.model or "unknown"
    metadata = metadata_at(event)
    if own := event.config or config:
        metadata[HOOK_CONFIG] = thaw(dict(own))
    return HookContext(
        event=_event_at(event.point),
        model=model,
        provider=event.provider or (model.split("/")[0] if "/" in model else None),
        request_id=event.request_id or "",
        timestamp=event.timestamp,
        metadata=metadata,
        **context_fields(event.value),
    )


def _event_at(point: HookPoint) -> HookEvent:
    try:
        return EVENTS[point]
    except KeyError:
        raise InvalidOutcomeError(
            f"it takes a HookContext, which {point} has not: it can stand at {', '.join(EVENTS)}",
        ) from None


async def _await_outcome(
    answer: Awaitable[Any], event: Event[Any], given: HookContext, before: Mapping[str, Any]
) -> Continue | None:
    return _read_outcome(await answer, event, given, before)


def _read_outcome(
    answer: Any, event: Event[Any], given: HookContext, before: Mapping[str, Any]
) -> Continue | None:
    """Read what a hook made of its context: of the one that it returned, else of its own."""
    if answer is None:
        answer = given
    if not isinstance(answer, HookContext):
        raise InvalidOutcomeError(
            f"it returned {type(answer).__name__}, not the HookContext: end with `return ctx`",
        )
    value = event.value
    changed = value_from_hook(answer, value)
    bound = hook_at_work()
    if bound is None or not bound.shadow:
        carry_metadata(event, before, answer)
    last = bool(answer.stop_chain)
    if last:
        notes_of(event)[STOPPED] = True
    if changed is value:
        return Continue(last=True) if last else None
    return Continue(changed, last=last)
