"""Deliveries: what is owed to hooks and webhooks when a run has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of
from checkrail.store.tables import LAST_CHANCE, OWED, SUSPECTED_DELIVERY, deliveries, workers


def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Owe something; part of the transaction that ends a run."""
    if rows:
        tx.execute(insert(deliveries), [dict(row) for row in rows])


def claim(tx: Tx, worker_id: str, now: float, most: int, *, suspected: bool = False) -> list[Row]:
    """Take deliveries that are due: those that processes have died with, or all the others."""
    which = (SUSPECTED_DELIVERY,) if suspected else (OWED, deliveries.c.lost < LAST_CHANCE)
    query = (
        select(deliveries)
        .where(
            *which,
            deliveries.c.due_at <= now,
        )
        .order_by(deliveries.c.due_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    found = all_of(tx, query)
    if found:
        ids = [row["delivery_id"] for row in found]
        taken = update(deliveries).where(deliveries.c.delivery_id.in_(ids))
        tx.execute(taken.values(worker_id=worker_id))
    return found


def settle(tx: Tx, delivery_id: str, worker_id: str, /, **values: Any) -> bool:
    """Return how a delivery went, as the one who holds it."""
    query = update(deliveries).where(
        deliveries.c.delivery_id == delivery_id,
        deliveries.c.worker_id == worker_id,
        deliveries.c.status == "owed",
    )
    return bool(tx.execute(query.values(worker_id=None, **values)).rowcount)


def orphans(tx: Tx, dead: Sequence[str], but: str, most: int = 100) -> list[Row]:
    """Return the deliveries of workers that are `dead` or gone; `but` one that asks is not."""
    known = select(workers.c.worker_id)
    query = (
        select(deliveries)
        .where(
            deliveries.c.worker_id.is_not(None),
            deliveries.c.worker_id != but,
            or_(deliveries.c.worker_id.in_([*dead]), deliveries.c.worker_id.not_in(known)),
        )
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return all_of(tx, query)


def held_ids(reads: Reads, worker_id: str) -> list[str]:
    """Return the ids of the deliveries that a worker holds."""
    query = select(deliveries.c.delivery_id).where(deliveries.c.worker_id == worker_id)
    return [row.delivery_id for row in reads.execute(query)]


def release(tx: Tx, worker_id: str, only: Sequence[str] | None = None) -> None:
    """Free what a worker holds, all of it or some."""
    query = update(deliveries).where(deliveries.c.worker_id == worker_id)
    if only is not None:
        query = query.where(deliveries.c.delivery_id.in_([*only]))
    tx.execute(query.values(worker_id=None))


def next_due(reads: Reads) -> float | None:
    """Tell when the next delivery is due."""
    query = select(func.min(deliveries.c.due_at)).where(OWED)
    return reads.execute(query).scalar()


def of_run(reads: Reads, run_id: str) -> list[Row]:
    """Return what was owed for a run."""
    query = select(deliveries).where(deliveries.c.run_id == run_id).order_by(deliveries.c.seq)
    return all_of(reads, query)


def forget(tx: Tx, run_ids: Sequence[str], *, ended_only: bool = True) -> None:
    """Remove the deliveries of runs; what is still owed stays."""
    query = delete(deliveries).where(deliveries.c.run_id.in_([*run_ids]))
    if ended_only:
        query = query.where(or_(deliveries.c.status == "done", deliveries.c.status == "dead"))
    tx.execute(query)


def forget_before(tx: Tx, when: float) -> int:
    """Remove deliveries that ended long ago."""
    return tx.execute(delete(deliveries).where(deliveries.c.ended_at < when)).rowcount
