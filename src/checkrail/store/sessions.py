"""Sessions: one user on one channel, with the threads that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.prepared import Prepared
from checkrail.store.rows import Filters, Row, all_of, holds, one_of
from checkrail.store.tables import sessions, threads

_ADD = Prepared(
    {
        name: make(sessions).inline().on_conflict_do_nothing(index_elements=["session_id"])
        for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
    }
)
_GET = Prepared(select(sessions).where(sessions.c.session_id == bindparam("id")))


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Open a session, unless there is one of that id."""
    _ADD.run(tx, row)


def get(reads: Reads, session_id: str) -> Row | None:
    """Find a session."""
    return _GET.row(reads, {"id": session_id})


def change(tx: Tx, session_id: str, /, **values: Any) -> bool:
    """Change a session."""
    query = update(sessions).where(sessions.c.session_id == session_id)
    return bool(tx.execute(query.values(**values)).rowcount)


def thread_of(reads: Reads, session_id: str) -> Row | None:
    """Find the thread of a session that was opened last."""
    query = select(threads).where(threads.c.session_id == session_id)
    return one_of(reads, query.order_by(threads.c.created_at.desc()).limit(1))


def thread_ids(reads: Reads, session_id: str) -> list[str]:
    """Return the threads of a session, the oldest first."""
    query = select(threads.c.thread_id).where(threads.c.session_id == session_id)
    return [row.thread_id for row in reads.execute(query.order_by(threads.c.created_at))]


def search(
    reads: Reads,
    *,
    owner: str | None = None,
    parent: str | None = None,
    filters: Filters | None = None,
    before: Row | None = None,
    limit: int = 20,
) -> list[Row]:
    """Give sessions, the newest first; those `before` one are older."""
    query = select(sessions).order_by(sessions.c.created_at.desc(), sessions.c.session_id.desc())
    if owner is not None:
        query = query.where(sessions.c.owner == owner)
    if parent is not None:
        query = query.where(sessions.c.parent_session_id == parent)
    if filters:
        query = query.where(holds(reads, sessions.c.metadata, filters))
    if before is not None:
        newest = tuple_(sessions.c.created_at, sessions.c.session_id)
        query = query.where(newest < tuple_(before["created_at"], before["session_id"]))
    return all_of(reads, query.limit(limit))


def forget(tx: Tx, session_ids: list[str]) -> None:
    """Remove sessions that have no thread any more."""
    if session_ids:
        left = select(threads.c.session_id).where(threads.c.session_id.in_(session_ids))
        gone = delete(sessions).where(sessions.c.session_id.in_(session_ids))
        tx.execute(gone.where(sessions.c.session_id.not_in(left)))
