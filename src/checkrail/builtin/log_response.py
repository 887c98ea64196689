"""`log_response`: one line in the log for every answer of a model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.engine.event import Event
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import AssistantMessage

if TYPE_CHECKING:
    from checkrail.builtin.options import LogResponseOptions

log = logging.getLogger("checkrail.hooks")

PARTS = (("input_tokens", "output_tokens"), ("prompt_tokens", "completion_tokens"))


def build(options: LogResponseOptions) -> Callable[[Event[Any], AssistantMessage], None]:
    """Make the hook."""
    level = logging.getLevelNamesMapping()[options.level.upper()]

    def log_response(event: Event[Any], message: AssistantMessage) -> None:
        message = BUILTIN.expect(event, message, AssistantMessage)
        told = f"answer from {event.model or '?'}"
        if options.include_tokens:
            told += f": {total_tokens(message.usage)} tokens"
        log.log(level, "%s", told)

    return log_response


def total_tokens(usage: Mapping[str, Any] | None) -> str:
    """Find the total of tokens, under the names that providers give it."""
    usage = usage or {}
    if usage.get("total_tokens") is not None:
        return str(usage["total_tokens"])
    for names in PARTS:
        counts = [usage.get(name) for name in names]
        if all(isinstance(count, int) for count in counts):
            return str(sum(count for count in counts if count is not None))
    return "?"


BUILTIN = Builtin(
    name="log_response",
    summary="logs each answer of a model: which one, and its tokens",
    points=(HookPoint.AFTER_LLM_CALL,),
    lane=Lane.OBSERVE,
    build=build,
    example={"include_tokens": True, "level": "info"},
)


def log_response(event: Event[Any], message: AssistantMessage) -> None:
    """Log the answer that a model gave."""
    BUILTIN.at(event)(event, message)
