"""`greeting`: a text before the first reply of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import OutboundMessage

if TYPE_CHECKING:
    from checkrail.builtin.options import GreetingOptions

FIRST_REPLY = "first_reply"
"""In the metadata of an event: nothing has been replied in this session before."""


def build(options: GreetingOptions) -> Callable[[Event[Any], OutboundMessage], Continue | None]:
    """Build the hook."""

    def greeting(event: Event[Any], message: OutboundMessage) -> Continue | None:
        message = BUILTIN.expect_value(event, message, OutboundMessage)
        if event.metadata.get(FIRST_REPLY) is not True:
            return None
        return Continue(f"{options.text}\n\n{message.content}")

    return greeting


BUILTIN = Builtin(
    name="greeting",
    summary="puts a text before the first reply of a session",
    points=(HookPoint.BEFORE_OUTBOUND,),
    lane=Lane.TRANSFORM,
    build=build,
    example={"text": "Welcome! A program answers here."},
    reads=(OutboundMessage,),
)


def greeting(event: Event[Any], message: OutboundMessage) -> Continue | None:
    """Put a text before the first reply of a session."""
    return BUILTIN.hook_for(event)(event, message)  # type: ignore[no-any-return]
