"""Sessions as hooks see them, and their ends: requested, idle too long, too many; their hooks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from checkrail.engine.points import HookPoint
from checkrail.engine.scope import Scope
from checkrail.engine.values import Session as SessionValue
from checkrail.engine.values import User
from checkrail.runs import jsons
from checkrail.runs.finish.finish_hooks import FinishHooks
from checkrail.runs.finish.finisher import delivery_shares
from checkrail.runs.finish.question_ends import withdraw_questions
from checkrail.runs.services import RunServices
from checkrail.store import deliveries, messages, sessions
from checkrail.store.database import Tx
from checkrail.store.deliveries import Delivery
from checkrail.store.rows import column_values
from checkrail.store.sessions import Session
from checkrail.times import uuid7

POINT = HookPoint.ON_SESSION_END
_LOOK_EVERY = 0.1
"""Seconds between looks whether another process has called the hooks at a session's beginning."""


def session_scope(parts: RunServices, session: Session) -> Scope:
    """Return the scope in which the hooks of a session are fired: those of the server."""
    user = None if session.user is None else User(**session.user)
    return parts.registry.scope(
        session_id=session.session_id,
        user=user,
        metadata={"session_metadata": session.metadata, "channel": session.channel},
    )


def session_value(session: Session, thread_ids: list[str], reason: str | None) -> SessionValue:
    """Return a session as hooks are given it."""
    return SessionValue(
        session_id=session.session_id,
        user_id=session.owner,
        channel=session.channel,
        parent_session_id=session.parent_session_id,
        thread_ids=thread_ids,
        reason=reason,
    )


def end_session(
    tx: Tx, parts: RunServices, session_id: str, reason: str, *, idle_since: float | None = None
) -> bool:
    """End a session, with all that is owed for it; False: it has ended, or is not idle.

    What waits in it for somebody's answer is cancelled. One that no hook let begin has nobody to
    tell of its end.
    """
    session = sessions.end(tx, session_id, tx.time(), reason, idle_since=idle_since)
    if session is None:
        return False
    if idle_since is None:
        error = f"its session has ended ({reason})"
        waiting = messages.cancel_waiting(tx, session_id, error, tx.time())
        withdraw_questions(tx, request_ids=waiting)
    if session.started_at is not None:
        owed = _build_deliveries(parts, session, sessions.thread_ids(tx, session_id))
        deliveries.add(tx, owed)
        if owed:
            tx.publish("work", "")
    tx.publish("session", session_id)
    return True


def end_idle_sessions(
    tx: Tx,
    parts: RunServices,
    since: float,
    reason: str,
    *,
    owner: str | None = None,
    most: int = 100,
    but: str | None = None,
) -> int:
    """End the sessions that have been idle since a time, the oldest first; return how many."""
    found = sessions.find_idle(tx, since, owner=owner, most=most + (but is not None))
    ends = [each for each in found if each != but][:most]
    return sum(end_session(tx, parts, each, reason, idle_since=since) for each in ends)


def prune_sessions(tx: Tx, parts: RunServices, made: Session) -> None:
    """End the oldest idle sessions where there are more than there may be beside a new one."""
    config = parts.settings.sessions
    for most, owner in ((config.per_user, made.owner), (config.in_all, None)):
        if most and (more := sessions.count_open(tx, owner) - most) > 0:
            end_idle_sessions(
                tx, parts, tx.time(), "pruned", owner=owner, most=more, but=made.session_id
            )


def _build_deliveries(
    parts: RunServices, session: Session, thread_ids: list[str]
) -> list[Delivery]:
    """Return what the end of a session calls for: a delivery for each hook outside."""
    hooks = session_scope(parts, session).bound_hooks(POINT)
    now = parts.database.time()
    told = {"session": column_values(session), "thread_ids": thread_ids}
    return [
        Delivery(
            delivery_id=uuid7(),
            session_id=session.session_id,
            kind=str(POINT),
            payload=jsons.dumps(told | share),
            status="owed",
            attempts=0,
            due_at=now,
            created_at=now,
        )
        for share in delivery_shares(hooks)
    ]


class SessionEndHooks:
    """Fires the hooks that are owed the end of a session."""

    def __init__(self, parts: RunServices, finish: FinishHooks) -> None:
        self._parts = parts
        self._finish = finish

    async def fire(self, row: Delivery) -> None:
        """Fire the hooks of a delivery; one that raises or is late is recorded."""
        told = row.payload
        session = Session(**told["session"])
        scope = session_scope(self._parts, session)
        scope = scope.bind(metadata={**scope.context.metadata, "delivery_id": row.delivery_id})
        scope.exclude(frozenset(told.get("without", ())))
        value = session_value(session, told["thread_ids"], session.reason)
        if "hook" in told:
            await self._finish.call_hook(scope, told["hook"], POINT, value, row.delivery_id)
        else:
            await scope.fire_detached(POINT, value)


@contextlib.asynccontextmanager
async def hold_session_start(parts: RunServices, session_id: str) -> AsyncGenerator[None]:
    """Let nobody else call the hooks at the beginning of a session, in any process."""
    name, worker = f"start of {session_id}", parts.worker_id
    lock = parts.session_starts.setdefault(session_id, asyncio.Lock())
    async with lock:
        while not await parts.database.write(  # noqa: ASYNC110 - another process holds it
            lambda tx: messages.hold_receiver(tx, name, worker), patient=True
        ):
            await asyncio.sleep(_LOOK_EVERY)
        try:
            yield
        finally:
            await parts.database.write(
                lambda tx: messages.release_receiver(tx, name, worker), patient=True
            )
