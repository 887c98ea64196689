"""`allow_users`: says who may write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, any_of
from checkrail.builtin.dimensions import DIMENSIONS
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Block
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import InboundMessage, Session

if TYPE_CHECKING:
    from checkrail.builtin.options import AllowUsersOptions


def build(options: AllowUsersOptions) -> Callable[[Event[Any]], Block | None]:
    """Build the hook."""
    is_denied = any_of(options.deny)
    is_listed = None if options.allow is None else any_of(options.allow)

    def allow_users(event: Event[Any]) -> Block | None:
        user = DIMENSIONS["user"](event)
        listed = is_listed is None or (user is not None and is_listed(user))
        if listed and not (user is not None and is_denied(user)):
            return None
        return Block(options.reason, options.status, "user_not_allowed")

    return allow_users


BUILTIN = Builtin(
    name="allow_users",
    summary="refuses sessions or messages of users that are denied, or not among those allowed",
    points=(HookPoint.ON_SESSION_START, HookPoint.BEFORE_INBOUND),
    lane=Lane.GATE,
    build=build,
    example={"allow": ["*@example.com", "slack:T1:*"], "deny": ["bob@example.com"]},
    reads=(Session, InboundMessage),
)


def allow_users(event: Event[Any]) -> Block | None:
    """Refuse a user who may not write."""
    return BUILTIN.hook_for(event)(event)  # type: ignore[no-any-return]
