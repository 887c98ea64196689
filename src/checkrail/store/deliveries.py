"""Deliveries: what is owed to hooks and webhooks when a run has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, exists, func, insert, or_, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.held_rows import HeldRows
from checkrail.store.rows import column_values, fetch_rows, select_rows
from checkrail.store.tables import LAST_CHANCE, OWED, SUSPECTED_DELIVERY, deliveries


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is owed to hooks, a webhook, a session or people; a new one has no number yet.

    It is owed for a run, or for a session. What has an `address` waits for what was owed there
    before it.
    """

    delivery_id: str
    kind: str
    payload: Any
    status: str
    attempts: int
    due_at: float
    created_at: float
    run_id: str | None = None
    session_id: str | None = None
    address: str | None = None
    seq: int = 0
    lost: int = 0
    worker_id: str | None = None
    last_error: str | None = None
    history: Any = None
    ended_at: float | None = None


_SELECT = select_rows(Delivery, deliveries)

_HELD = HeldRows(Delivery, deliveries, "delivery_id")
find_orphans, held_ids, release_held = _HELD.find_orphans, _HELD.held_ids, _HELD.release_held

_BEFORE = deliveries.alias("earlier")
_IS_NEXT = or_(
    deliveries.c.address.is_(None),
    ~exists().where(
        _BEFORE.c.address == deliveries.c.address,
        _BEFORE.c.status == "owed",
        _BEFORE.c.seq < deliveries.c.seq,
    ),
)


def add(tx: Tx, owed: Sequence[Delivery]) -> None:
    """Insert deliveries; part of the transaction that ends a run."""
    if owed:
        tx.execute(insert(deliveries), [column_values(each) for each in owed])


def claim(
    tx: Tx, worker_id: str, now: float, most: int, *, suspected: bool = False
) -> list[Delivery]:
    """Take deliveries that are due: those that processes have died with, or all the others."""
    which = (SUSPECTED_DELIVERY,) if suspected else (OWED, deliveries.c.lost < LAST_CHANCE)
    query = _SELECT.where(*which, deliveries.c.due_at <= now, _IS_NEXT)
    return _HELD.claim(tx, query.order_by(deliveries.c.due_at), most, worker_id)


def store_result(tx: Tx, delivery_id: str, worker_id: str | None, /, **values: Any) -> bool:
    """Store how a delivery went, as the worker that holds it."""
    query = update(deliveries).where(
        deliveries.c.delivery_id == delivery_id,
        deliveries.c.worker_id == worker_id,
        deliveries.c.status == "owed",
    )
    return bool(tx.execute(query.values(worker_id=None, **values)).rowcount)


def give_up_behind(tx: Tx, row: Delivery, now: float) -> None:
    """Give up what was to follow a part of a reply that never arrives: it would make no sense."""
    if row.address is None or row.run_id is None:
        return
    query = update(deliveries).where(
        deliveries.c.run_id == row.run_id,
        deliveries.c.address == row.address,
        deliveries.c.kind == row.kind,
        deliveries.c.seq > row.seq,
        deliveries.c.status == "owed",
    )
    error = "a part before it could not be sent"
    tx.execute(query.values(status="dead", last_error=error, ended_at=now))


def next_due(reads: Reads) -> float | None:
    """Return when the next delivery is due; one that waits for another is due after that."""
    query = select(func.min(deliveries.c.due_at)).where(OWED, _IS_NEXT)
    return reads.execute(query).scalar()


def of_run(reads: Reads, run_id: str) -> list[Delivery]:
    """Return what was owed for a run."""
    query = _SELECT.where(deliveries.c.run_id == run_id).order_by(deliveries.c.seq)
    return fetch_rows(reads, Delivery, query)


def remove_of_runs(tx: Tx, run_ids: Sequence[str], *, ended_only: bool = True) -> None:
    """Remove the deliveries of runs; what is still owed stays."""
    query = delete(deliveries).where(deliveries.c.run_id.in_([*run_ids]))
    if ended_only:
        query = query.where(or_(deliveries.c.status == "done", deliveries.c.status == "dead"))
    tx.execute(query)


def forget_before(tx: Tx, when: float) -> int:
    """Remove deliveries that ended long ago."""
    return tx.execute(delete(deliveries).where(deliveries.c.ended_at < when)).rowcount
