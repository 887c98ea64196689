"""`log_response`: one line in the log for every answer of a model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, overload

from checkrail.builtin.base import Builtin, on_one_line
from checkrail.engine.event import Event
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage
from checkrail.llm.usage import total_tokens
from checkrail.styles.hook_context import HookContext

if TYPE_CHECKING:
    from checkrail.builtin.options import LogResponseOptions

log = logging.getLogger("checkrail.hooks")


def build(options: LogResponseOptions) -> Callable[[Event[Any], AssistantMessage], None]:
    """Build the hook."""
    level = logging.getLevelNamesMapping()[options.level.upper()]

    def log_response(event: Event[Any], message: AssistantMessage) -> None:
        message = BUILTIN.expect_value(event, message, AssistantMessage)
        told = f"answer from {on_one_line(event.model or '?')}"
        if options.include_tokens:
            total = total_tokens(message.usage)
            told += f": {'?' if total is None else total} tokens"
        if event.request_id:
            told += f", id {on_one_line(event.request_id)}"
        log.log(level, "%s", told)

    return log_response


BUILTIN = Builtin(
    name="log_response",
    summary="logs each answer of a model: which one, and its tokens",
    points=(HookPoint.AFTER_LLM_CALL,),
    lane=Lane.OBSERVE,
    build=build,
    example={"include_tokens": True, "level": "info"},
    reads=(AssistantMessage,),
)


@overload
def log_response(event: HookContext) -> Awaitable[HookContext]: ...
@overload
def log_response(event: Event[Any], message: AssistantMessage) -> None: ...
def log_response(event: Any, message: Any = None) -> Any:
    """Log the answer that a model gave.

    With the `HookContext` of a proxy hook in place of an event, it is awaited and gives another.
    """
    if isinstance(event, HookContext):
        return BUILTIN.on_context(event)
    return BUILTIN.hook_for(event)(event, message)
