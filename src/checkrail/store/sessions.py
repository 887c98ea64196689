"""Sessions: one user on one channel, with the threads that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Table, bindparam, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.messages import Message
from checkrail.store.rows import (
    Filters,
    column_values,
    fetch_row,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import OPEN_KEY, deliveries, messages, runs, sessions, threads
from checkrail.store.threads import Thread


@dataclass(frozen=True, slots=True)
class Session:
    """One user on one channel."""

    session_id: str
    channel: str
    metadata: dict[str, Any]
    created_at: float
    updated_at: float
    parent_session_id: str | None = None
    owner: str | None = None
    user: Any = None
    ended_at: float | None = None
    reason: str | None = None
    key: str | None = None
    started_at: float | None = None
    active_at: float | None = None


_SELECT = select_rows(Session, sessions)

_ADD = PreparedStatement(
    {
        name: make(sessions).inline().on_conflict_do_nothing(index_elements=["session_id"])
        for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
    }
)
_OPEN = PreparedStatement(
    {
        name: make(sessions)
        .on_conflict_do_nothing(index_elements=["key"], index_where=OPEN_KEY)
        .returning(sessions.c.session_id)
        for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
    }
)
_FIND_OPEN = PreparedStatement(_SELECT.where(OPEN_KEY, sessions.c.key == bindparam("its_key")))
_HOLD_OPEN = PreparedStatement(
    update(sessions)
    .where(sessions.c.session_id == bindparam("id"), sessions.c.ended_at.is_(None))
    .values(active_at=bindparam("now"), updated_at=bindparam("now"))
)
_LAST_THREAD = PreparedStatement(
    select_rows(Thread, threads)
    .where(threads.c.session_id == bindparam("id"))
    .order_by(threads.c.created_at.desc())
    .limit(1)
)
_COUNT_OPEN_QUERY = select(func.count()).select_from(sessions).where(OPEN_KEY)
_COUNT_OPEN = PreparedStatement(_COUNT_OPEN_QUERY)
_COUNT_OPEN_OF_OWNER = PreparedStatement(
    _COUNT_OPEN_QUERY.where(sessions.c.owner == bindparam("its_owner"))
)
_IS_BUSY = or_(
    exists().where(messages.c.session_id == sessions.c.session_id, messages.c.ended_at.is_(None)),
    exists().where(runs.c.session_id == sessions.c.session_id, runs.c.ended_at.is_(None)),
    exists().where(deliveries.c.session_id == sessions.c.session_id, deliveries.c.status == "owed"),
)
"""Whether anything of a session is under way, waits for somebody, or is still to be sent."""

_FIND = _SELECT.where(sessions.c.session_id == bindparam("id"))
_GET = PreparedStatement(_FIND)
_LOCK = _FIND.with_for_update()

SUMMARY = "summary"
"""In the metadata of a session: what an agent wrote of it when it had ended."""


def add(tx: Tx, session: Session) -> None:
    """Insert a session, unless there is one of that id."""
    _ADD.run(tx, column_values(session))


def get(reads: Reads, session_id: str) -> Session | None:
    """Find a session."""
    return _GET.find(reads, Session, {"id": session_id})


def open_for_key(tx: Tx, session: Session) -> Session:
    """Insert a session, unless one is open for its key; return the one that is open then."""
    while True:
        known = _FIND_OPEN.find(tx, Session, {"its_key": session.key})
        if known is None and _OPEN.run(tx, column_values(session)).fetchall():
            return session
        if known is not None and hold_open(tx, known.session_id, session.created_at):
            return known


def hold_open(tx: Tx, session_id: str, now: float) -> bool:
    """Note that somebody says something in a session; False: it has ended.

    Until the transaction is over nobody else can end it, and then only if that is idle too.
    """
    return bool(_HOLD_OPEN.run(tx, {"id": session_id, "now": now}).rowcount)


def hold_for_run(tx: Tx, made: Session, now: float) -> tuple[Session, bool]:
    """Return the session of a run, open from now on, and whether it was opened by this.

    It is made if there is none. One that has ended begins anew.
    """
    add(tx, made)
    known = fetch_row(tx, Session, _LOCK, {"id": made.session_id}) or made
    opened = known.key is None or known.ended_at is not None
    values: dict[str, Any] = {"active_at": now, "updated_at": now}
    if opened:
        values |= {"key": known.session_id, "started_at": None, "ended_at": None, "reason": None}
    update_session(tx, known.session_id, **values)
    return replace(known, **values), opened


def start(tx: Tx, session_id: str, now: float) -> bool:
    """Note that the hooks let a session begin; False: it has ended."""
    query = update(sessions).where(
        sessions.c.session_id == session_id, sessions.c.ended_at.is_(None)
    )
    return bool(tx.execute(query.values(started_at=now)).rowcount)


def end(
    tx: Tx, session_id: str, now: float, reason: str, *, idle_since: float | None = None
) -> Session | None:
    """End a session and return it; None: it has ended, or is not idle since a time."""
    query = update(sessions).where(
        sessions.c.session_id == session_id, sessions.c.ended_at.is_(None)
    )
    if idle_since is not None:
        # What others say in it right now is seen only by a statement that begins after that.
        tx.execute(_LOCK, {"id": session_id}).fetchall()
        query = query.where(sessions.c.active_at <= idle_since, ~_IS_BUSY)
    told = {"ended_at": now, "updated_at": now, "reason": reason}
    ended = tx.execute(query.values(**told)).rowcount
    return get(tx, session_id) if ended else None


def find_idle(
    reads: Reads, since: float, *, owner: str | None = None, most: int = 100
) -> list[str]:
    """Return open sessions in which nobody has said anything since a time, the oldest first."""
    query = select(sessions.c.session_id).where(OPEN_KEY, sessions.c.active_at <= since, ~_IS_BUSY)
    if owner is not None:
        query = query.where(sessions.c.owner == owner)
    query = query.order_by(sessions.c.active_at).limit(most)
    return [row.session_id for row in reads.execute(query)]


def count_open(reads: Reads, owner: str | None = None) -> int:
    """Return how many sessions are open, of everybody or of one owner."""
    found = (
        _COUNT_OPEN.run(reads, {})
        if owner is None
        else _COUNT_OPEN_OF_OWNER.run(reads, {"its_owner": owner})
    )
    return int(found.fetchall()[0][0])


def update_session(tx: Tx, session_id: str, /, **values: Any) -> bool:
    """Change a session."""
    query = update(sessions).where(sessions.c.session_id == session_id)
    return bool(tx.execute(query.values(**values)).rowcount)


def store_summary(tx: Tx, session_id: str, summary: Any, now: float) -> None:
    """Put a summary into the metadata of a session, unless there is one."""
    session = fetch_row(tx, Session, _LOCK, {"id": session_id})
    if session is not None and SUMMARY not in session.metadata:
        told = {**session.metadata, SUMMARY: summary}
        update_session(tx, session_id, metadata=told, updated_at=now)


def thread_of(reads: Reads, session_id: str) -> Thread | None:
    """Find the thread of a session that was opened last."""
    return _LAST_THREAD.find(reads, Thread, {"id": session_id})


def thread_ids(reads: Reads, session_id: str) -> list[str]:
    """Return the threads of a session, the oldest first."""
    query = select(threads.c.thread_id).where(threads.c.session_id == session_id)
    return [row.thread_id for row in reads.execute(query.order_by(threads.c.created_at))]


def search(
    reads: Reads,
    *,
    owner: str | None = None,
    parent: str | None = None,
    channel: str | None = None,
    user_id: str | None = None,
    is_open: bool | None = None,
    filters: Filters | None = None,
    text: str = "",
    before: Session | None = None,
    limit: int = 20,
) -> list[Session]:
    """Return sessions, the newest first; those `before` one are older.

    A `text` is looked for in their ids, users and channels.
    """
    query = _SELECT.order_by(sessions.c.created_at.desc(), sessions.c.session_id.desc())
    wanted = (
        (sessions.c.owner, owner),
        (sessions.c.owner, user_id),
        (sessions.c.parent_session_id, parent),
        (sessions.c.channel, channel),
    )
    for column, value in wanted:
        if value is not None:
            query = query.where(column == value)
    if is_open is not None:
        query = query.where(sessions.c.ended_at.is_(None) == is_open)
    if filters:
        query = query.where(json_matches(reads, sessions.c.metadata, filters))
    if text:
        named = (sessions.c.session_id, sessions.c.owner, sessions.c.channel)
        query = query.where(or_(*(column.icontains(text, autoescape=True) for column in named)))
    if before is not None:
        newest = tuple_(sessions.c.created_at, sessions.c.session_id)
        query = query.where(newest < tuple_(before.created_at, before.session_id))
    return fetch_rows(reads, Session, query.limit(limit))


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What a list says of a session: how many runs and threads it has, and its last message."""

    runs: int = 0
    threads: int = 0
    last_message: Message | None = None


def figures_of(reads: Reads, session_ids: Sequence[str]) -> dict[str, SessionFigures]:
    """Return what lists say of some sessions."""
    if not session_ids:
        return {}

    def count(table: Table) -> dict[str, int]:
        query = select(table.c.session_id, func.count()).group_by(table.c.session_id)
        found = reads.execute(query.where(table.c.session_id.in_([*session_ids])))
        return {row[0]: row[1] for row in found}

    newest = select(func.max(messages.c.seq)).where(messages.c.session_id.in_([*session_ids]))
    query = select_rows(Message, messages).where(
        messages.c.seq.in_(newest.group_by(messages.c.session_id))
    )
    last = {row.session_id: row for row in fetch_rows(reads, Message, query)}
    of_runs, of_threads = count(runs), count(threads)
    return {
        name: SessionFigures(of_runs.get(name, 0), of_threads.get(name, 0), last.get(name))
        for name in session_ids
    }


def remove_empty(tx: Tx, session_ids: list[str]) -> None:
    """Remove sessions that have no thread any more."""
    if session_ids:
        left = select(threads.c.session_id).where(threads.c.session_id.in_(session_ids))
        gone = delete(sessions).where(sessions.c.session_id.in_(session_ids))
        tx.execute(gone.where(sessions.c.session_id.not_in(left)))
