"""Crons: runs that are asked for by the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Filters, Page, Row, all_of, contains, holds, one_of, paged
from checkrail.store.tables import crons

SORTS = (
    "cron_id",
    "assistant_id",
    "thread_id",
    "created_at",
    "updated_at",
    "next_run_at",
    "end_at",
)


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep a new cron."""
    tx.execute(insert(crons), dict(row))


def get(reads: Reads, cron_id: str) -> Row | None:
    """Find a cron."""
    return one_of(reads, select(crons).where(crons.c.cron_id == cron_id))


def change(tx: Tx, cron_id: str, **values: Any) -> bool:
    """Change a cron."""
    query = update(crons).where(crons.c.cron_id == cron_id)
    return bool(tx.execute(query.values(**values)).rowcount)


def remove(tx: Tx, cron_id: str) -> bool:
    """Remove a cron."""
    return bool(tx.execute(delete(crons).where(crons.c.cron_id == cron_id)).rowcount)


def remove_of_assistant(tx: Tx, assistant_id: str) -> None:
    """Remove the crons of an assistant that is removed."""
    tx.execute(delete(crons).where(crons.c.assistant_id == assistant_id))


def remove_of_threads(tx: Tx, thread_ids: Sequence[str]) -> None:
    """Remove the crons of threads that are removed."""
    tx.execute(delete(crons).where(crons.c.thread_id.in_([*thread_ids])))


def lock(tx: Tx, cron_id: str) -> Row | None:
    """Find a cron that is about to be changed."""
    return one_of(tx, select(crons).where(crons.c.cron_id == cron_id).with_for_update())


def _matching(
    reads: Reads,
    query: Select[Any],
    same: Mapping[str, Any],
    metadata: Filters | None,
    filters: Filters | None,
) -> Select[Any]:
    for column, value in same.items():
        if value is not None:
            query = query.where(crons.c[column] == value)
    if metadata:
        query = query.where(contains(reads, crons.c.metadata, metadata))
    if filters:
        query = query.where(holds(reads, crons.c.metadata, filters))
    return query


def search(
    reads: Reads,
    page: Page,
    same: Mapping[str, Any],
    metadata: Filters | None = None,
    filters: Filters | None = None,
) -> list[Row]:
    """Return a page of crons whose columns are the `same` as given."""
    query = _matching(reads, select(crons), same, metadata, filters)
    return all_of(reads, paged(query, crons, page, "cron_id"))


def count(
    reads: Reads,
    same: Mapping[str, Any],
    metadata: Filters | None = None,
    filters: Filters | None = None,
) -> int:
    """Count crons."""
    query = _matching(reads, select(func.count()).select_from(crons), same, metadata, filters)
    return int(reads.execute(query).scalar_one())


def due(tx: Tx, now: float, most: int = 20) -> list[Row]:
    """Give crons whose time has come, kept from other processes until the transaction ends."""
    query = (
        select(crons)
        .where(crons.c.enabled, crons.c.next_run_at <= now)
        .order_by(crons.c.next_run_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return all_of(tx, query)


def stranded(tx: Tx, before: float) -> list[Row]:
    """Give crons whose run was about to be asked for when the process that did so went away."""
    query = select(crons).where(crons.c.occurrence.is_not(None), crons.c.updated_at < before)
    return all_of(tx, query.with_for_update(skip_locked=True))


def next_due(reads: Reads) -> float | None:
    """Tell when the next cron is due."""
    query = select(func.min(crons.c.next_run_at)).where(crons.c.enabled)
    return reads.execute(query).scalar()
