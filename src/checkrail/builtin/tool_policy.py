"""`tool_policy`: says which tools may be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ToolCall

if TYPE_CHECKING:
    from checkrail.builtin.options import ToolPolicyOptions


def build(options: ToolPolicyOptions) -> Callable[[Event[Any], ToolCall], Block | None]:
    """Build the hook."""
    denied = any_of(options.deny)
    allowed = None if options.allow is None else any_of(options.allow)

    def tool_policy(event: Event[Any], call: ToolCall) -> Block | None:
        call = BUILTIN.expect_value(event, call, ToolCall)
        if denied(call.name):
            why = f"the tool {call.name!r} is denied"
        elif allowed is not None and not allowed(call.name):
            why = f"the tool {call.name!r} is not among those allowed"
        else:
            return None
        return Block(options.reason or why, options.status, "tool_not_allowed")

    return tool_policy


BUILTIN = Builtin(
    name="tool_policy",
    summary="blocks tools that are denied, or not among those allowed",
    points=(HookPoint.BEFORE_TOOL_CALL,),
    lane=Lane.GATE,
    build=build,
    example={"allow": ["read_*", "search"], "deny": ["read_secrets"]},
    reads=(ToolCall,),
)


def tool_policy(event: Event[Any], call: ToolCall) -> Block | None:
    """Block a tool that may not be called."""
    return BUILTIN.hook_for(event)(event, call)  # type: ignore[no-any-return]
