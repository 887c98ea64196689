"""Crons: runs that are asked for by the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, or_, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.held_rows import HeldRows
from checkrail.store.rows import (
    Filters,
    Page,
    apply_page,
    column_values,
    contains_json,
    fetch_row,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.tables import LAST_CHANCE, crons


@dataclass(frozen=True, slots=True)
class Cron:
    """A run that is requested by the clock, with what its runs are given (`payload`)."""

    cron_id: str
    assistant_id: str
    schedule: str
    enabled: bool
    payload: dict[str, Any]
    metadata: dict[str, Any]
    created_at: float
    updated_at: float
    thread_id: str | None = None
    owner: str | None = None
    user: Any = None
    key_id: str | None = None
    timezone: str | None = None
    on_run_completed: str | None = None
    next_run_at: float | None = None
    occurrence: float | None = None
    worker_id: str | None = None
    lost: int = 0
    end_at: float | None = None
    last_error: str | None = None
    stored_bytes: int | None = None


_SELECT = select_rows(Cron, crons)

_HELD = HeldRows(Cron, crons, "cron_id")
find_orphans, release_held = _HELD.find_orphans, _HELD.release_held

SORTS = (
    "cron_id",
    "assistant_id",
    "thread_id",
    "created_at",
    "updated_at",
    "next_run_at",
    "end_at",
)


def add(tx: Tx, cron: Cron) -> None:
    """Insert a new cron."""
    tx.execute(insert(crons), column_values(cron))


def get(reads: Reads, cron_id: str) -> Cron | None:
    """Find a cron."""
    return fetch_row(reads, Cron, _SELECT.where(crons.c.cron_id == cron_id))


def update_cron(tx: Tx, cron_id: str, **values: Any) -> bool:
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


def lock(tx: Tx, cron_id: str) -> Cron | None:
    """Find a cron that is about to be changed."""
    return fetch_row(tx, Cron, _SELECT.where(crons.c.cron_id == cron_id).with_for_update())


def _apply_filters(
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
        query = query.where(contains_json(reads, crons.c.metadata, metadata))
    if filters:
        query = query.where(json_matches(reads, crons.c.metadata, filters))
    return query


def search(
    reads: Reads,
    page: Page,
    same: Mapping[str, Any],
    metadata: Filters | None = None,
    filters: Filters | None = None,
) -> list[Cron]:
    """Return a page of crons whose columns are the `same` as given."""
    query = _apply_filters(reads, _SELECT, same, metadata, filters)
    return fetch_rows(reads, Cron, apply_page(query, crons, page, "cron_id"))


def count(
    reads: Reads,
    same: Mapping[str, Any],
    metadata: Filters | None = None,
    filters: Filters | None = None,
) -> int:
    """Count crons."""
    query = _apply_filters(reads, select(func.count()).select_from(crons), same, metadata, filters)
    return int(reads.execute(query).scalar_one())


def lock_due(
    tx: Tx, worker_id: str, now: float, most: int = 20, *, suspected: bool = False
) -> list[Cron]:
    """Return crons that are due, locked: those that processes have died with, or all the others.

    Due is also one whose run was about to be requested when its server stopped or died. What
    another worker requests just now waits for it, or until it is found dead.
    """
    left = and_(crons.c.occurrence.is_not(None), crons.c.worker_id.is_(None))
    which = crons.c.lost >= LAST_CHANCE if suspected else crons.c.lost < LAST_CHANCE
    query = (
        _SELECT.where(
            which, _is_free(worker_id), crons.c.enabled, or_(left, crons.c.next_run_at <= now)
        )
        .order_by(crons.c.next_run_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return fetch_rows(tx, Cron, query)


def end_request(tx: Tx, asked: Cron, last_error: str | None) -> None:
    """Store how the request for a run went, unless the next one is under way by now."""
    query = update(crons).where(
        crons.c.cron_id == asked.cron_id,
        crons.c.worker_id == asked.worker_id,
        crons.c.occurrence == asked.occurrence,
    )
    ended = {"occurrence": None, "worker_id": None, "lost": 0}
    tx.execute(query.values(last_error=last_error, **ended))


def next_due(reads: Reads, worker_id: str) -> float | None:
    """Return when the next cron is due that a worker may take.

    Those that processes have died with wait for their turn.
    """
    query = select(func.min(crons.c.next_run_at)).where(
        crons.c.enabled, _is_free(worker_id), crons.c.lost < LAST_CHANCE
    )
    return reads.execute(query).scalar()


def _is_free(worker_id: str) -> ColumnElement[bool]:
    return or_(crons.c.worker_id.is_(None), crons.c.worker_id == worker_id)
