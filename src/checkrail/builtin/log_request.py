"""`log_request`: one line in the log for every call of a model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from checkrail.builtin.base import Builtin, on_one_line, text_of
from checkrail.engine.event import Event
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ModelRequest
from checkrail.styles.hook_context import HookContext

if TYPE_CHECKING:
    from checkrail.builtin.options import LogRequestOptions

log = logging.getLogger("checkrail.hooks")

SHOWN = 100


def build(options: LogRequestOptions) -> Callable[[Event[Any], ModelRequest], None]:
    """Build the hook."""
    level = logging.getLevelNamesMapping()[options.level.upper()]

    def log_request(event: Event[Any], request: ModelRequest) -> None:
        request = BUILTIN.expect_value(event, request, ModelRequest)
        if not log.isEnabledFor(level):
            return
        told = _summary(event, request)
        if options.verbose and request.messages:
            told += _describe_last(request.messages[-1])
        log.log(level, "%s", told)

    return log_request


def _summary(event: Event[Any], request: ModelRequest) -> str:
    count = len(request.messages)
    noun = "message" if count == 1 else "messages"
    model, request_id = on_one_line(event.model or "?"), on_one_line(event.request_id or "-")
    return f"request to {model}: {count} {noun}, id {request_id}"


def _describe_last(message: Mapping[str, Any]) -> str:
    """Return the start of a message; `repr` keeps it on one line, whatever it contains."""
    text = text_of(message.get("content"))
    more = "..." if len(text) > SHOWN else ""
    return f", last from {on_one_line(str(message.get('role')))}: {text[:SHOWN]!r}{more}"


BUILTIN = Builtin(
    name="log_request",
    summary="logs each call of a model: which one, with how many messages",
    points=(HookPoint.BEFORE_LLM_CALL,),
    lane=Lane.OBSERVE,
    build=build,
    example={"verbose": True, "level": "info"},
    reads=(ModelRequest,),
)


@overload
def log_request(event: HookContext) -> Awaitable[HookContext]: ...
@overload
def log_request(event: Event[Any], request: ModelRequest) -> None: ...
def log_request(event: Any, request: Any = None) -> Any:
    """Log the call of a model that is about to be made.

    With the `HookContext` of a proxy hook in place of an event, it is awaited and gives another.
    """
    if isinstance(event, HookContext):
        return BUILTIN.on_context(event)
    return BUILTIN.hook_for(event)(event, request)
