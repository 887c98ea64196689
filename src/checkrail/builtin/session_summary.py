"""`session_summary`: has an agent sum up a session that has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin
from checkrail.engine.errors import UnreachableError
from checkrail.engine.event import Event
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import Session

if TYPE_CHECKING:
    from checkrail.builtin.base import SummarySource
    from checkrail.builtin.options import SessionSummaryOptions

UNSERVED = "summaries of sessions need the run server, which is not running here"


def build(
    options: SessionSummaryOptions, outside: SummarySource | None = None
) -> Callable[[Event[Any], Session], Awaitable[None]]:
    """Build the hook."""

    async def session_summary(event: Event[Any], session: Session) -> None:
        BUILTIN.expect_value(event, session, Session)
        if outside is None or outside.summaries is None:
            raise UnreachableError(UNSERVED)
        await outside.summaries(
            options.agent,
            options.instructions,
            event,
            max_characters=options.max_characters,
            timeout=options.timeout,
        )

    return session_summary


BUILTIN = Builtin(
    name="session_summary",
    summary="has an agent sum up a session that has ended, and keeps that with the session",
    points=(HookPoint.ON_SESSION_END,),
    lane=Lane.OBSERVE,
    build=build,
    example={"agent": "summarizer", "max_characters": 20_000},
    runs_agent="agent",
    reads=(Session,),
)


async def session_summary(event: Event[Any], session: Session) -> None:
    """Have an agent sum up a session."""
    await BUILTIN.hook_for(event)(event, session)
