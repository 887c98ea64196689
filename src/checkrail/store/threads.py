"""Threads: conversations with their state, each of them held by at most one run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import (
    Filters,
    Page,
    apply_page,
    column_values,
    contains_json,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import runs, threads


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation with its state; `last_seq` is of the events of its runs that have ended."""

    thread_id: str
    status: str
    metadata: dict[str, Any]
    last_seq: int
    temporary: bool
    created_at: float
    updated_at: float
    session_id: str | None = None
    owner: str | None = None
    values: Any = None
    interrupts: Any = None
    error: str | None = None
    states_written: int = 0
    watched_run: str | None = None
    state_updated_at: float | None = None
    ttl_minutes: float | None = None
    ttl_strategy: str | None = None
    expires_at: float | None = None
    stored_bytes: int | None = None


_SELECT = select_rows(Thread, threads)

SORTS = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")

_FIND = _SELECT.where(threads.c.thread_id == bindparam("id"))
_GET = PreparedStatement(_FIND)
_LOCK = PreparedStatement(_FIND.with_for_update())
_HOLD = PreparedStatement(
    select(threads.c.thread_id).where(threads.c.thread_id == bindparam("id")).with_for_update()
)
_CHANGE = PreparedStatement(
    update(threads).where(threads.c.thread_id == bindparam("changed_thread"))
)
_ADD = PreparedStatement(
    {
        name: make(threads)
        .on_conflict_do_nothing(index_elements=["thread_id"])
        .returning(threads.c.thread_id)
        for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
    }
)
_IS_FREE = ~(
    select(runs.c.run_id)
    .where(runs.c.thread_id == threads.c.thread_id, runs.c.ended_at.is_(None))
    .exists()
)


def add(tx: Tx, thread: Thread) -> bool:
    """Insert a thread; False: there is one of that id already."""
    return bool(_ADD.run(tx, column_values(thread)).fetchall())


def get(reads: Reads, thread_id: str) -> Thread | None:
    """Find a thread."""
    return _GET.find(reads, Thread, {"id": thread_id})


def lock(tx: Tx, thread_id: str) -> Thread | None:
    """Find a thread and keep others from admitting runs to it until the transaction ends."""
    return _LOCK.find(tx, Thread, {"id": thread_id})


def lock_only(tx: Tx, thread_id: str) -> None:
    """Keep others from a thread until the transaction ends; SQLite's one writer is alone anyway."""
    if tx.dialect.name == "postgresql":
        _HOLD.run(tx, {"id": thread_id})


def last_seq(reads: Reads, thread_id: str) -> int:
    """Return the number of the last event of a thread's runs that have ended."""
    query = select(threads.c.last_seq).where(threads.c.thread_id == thread_id)
    return int(reads.execute(query).scalar() or 0)


def update_thread(tx: Tx, thread_id: str, **values: Any) -> bool:
    """Change a thread."""
    return bool(_CHANGE.run(tx, {**values, "changed_thread": thread_id}).rowcount)


def add_bytes(tx: Tx, thread_id: str, more: int) -> None:
    """Count more, or less, for what is stored of a thread."""
    stored = func.coalesce(threads.c.stored_bytes, 0) + more
    query = update(threads).where(threads.c.thread_id == thread_id)
    tx.execute(query.values(stored_bytes=stored))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadQuery:
    """Which threads: all conditions have to hold.

    `metadata` and `values` are JSON that a thread's own contain. `filters` are what the caller
    may see, in the words of metadata.
    """

    owner: str | None = None
    status: str | None = None
    ids: Collection[str] | None = None
    metadata: Filters | None = None
    values: Filters | None = None
    filters: Filters | None = None


def _apply_query(reads: Reads, query: Select[Any], wanted: ThreadQuery) -> Select[Any]:
    query = query.where(threads.c.temporary.is_(False))
    if wanted.owner is not None:
        query = query.where(threads.c.owner == wanted.owner)
    if wanted.status is not None:
        query = query.where(threads.c.status == wanted.status)
    if wanted.ids is not None:
        query = query.where(threads.c.thread_id.in_([*wanted.ids]))
    if wanted.metadata:
        query = query.where(contains_json(reads, threads.c.metadata, wanted.metadata))
    if wanted.values:
        query = query.where(contains_json(reads, threads.c["values"], wanted.values))
    if wanted.filters:
        query = query.where(json_matches(reads, threads.c.metadata, wanted.filters))
    return query


def search(
    reads: Reads, wanted: ThreadQuery, page: Page, without: Collection[str] = ()
) -> list[Thread]:
    """Return a page of threads, sorted by one of `SORTS`, without columns nobody needs."""
    columns = [column for column in _SELECT.selected_columns if column.name not in without]
    query = _apply_query(reads, select(*columns), wanted)
    by = None
    if page.sort_by == "state_updated_at":  # the databases disagree on where nothing belongs
        by = func.coalesce(threads.c.state_updated_at, threads.c.created_at)
    found = reads.execute(apply_page(query, threads, page, "thread_id", by)).mappings()
    return [Thread(**row) for row in found]


def count(reads: Reads, wanted: ThreadQuery) -> int:
    """Count threads."""
    query = _apply_query(reads, select(func.count()).select_from(threads), wanted)
    return int(reads.execute(query).scalar_one())


def find_expired(reads: Reads, now: float, most: int = 100) -> list[Thread]:
    """Return threads whose time to live is over; one that has a run to come lives on."""
    query = _SELECT.where(threads.c.expires_at <= now, _IS_FREE)
    return fetch_rows(reads, Thread, query.order_by(threads.c.expires_at).limit(most))


def session_ids(reads: Reads, thread_ids: Sequence[str]) -> list[str]:
    """Return the sessions that threads belong to."""
    query = select(threads.c.session_id).where(threads.c.thread_id.in_([*thread_ids]))
    return [each for each in reads.execute(query).scalars() if each is not None]


def remove(tx: Tx, thread_ids: Sequence[str]) -> int:
    """Remove threads."""
    return tx.execute(delete(threads).where(threads.c.thread_id.in_([*thread_ids]))).rowcount
