"""Workers: processes that hold runs, each with one lease for all it holds."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of
from checkrail.store.tables import workers


def add(
    tx: Tx, worker_id: str, where: tuple[str, int], now: ColumnElement[float], lease: float
) -> None:
    """Enter a worker, which is a process on a host."""
    host, pid = where
    tx.execute(
        insert(workers).values(
            worker_id=worker_id, host=host, pid=pid, started_at=now, expires_at=now + lease
        )
    )


def beat(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Renew a worker's lease; False: it was given up for lost."""
    query = update(workers).where(workers.c.worker_id == worker_id, workers.c.expires_at > now)
    return bool(tx.execute(query.values(expires_at=now + lease)).rowcount)


def others(reads: Reads, worker_id: str, now: ColumnElement[float]) -> int:
    """Count the other workers that are alive."""
    query = select(func.count()).where(workers.c.worker_id != worker_id, workers.c.expires_at > now)
    return int(reads.execute(query).scalar_one())


def dead(tx: Tx, worker_id: str, now: ColumnElement[float]) -> list[Row]:
    """Give the other workers whose lease has run out."""
    query = select(workers).where(workers.c.worker_id != worker_id, workers.c.expires_at <= now)
    return all_of(tx, query.with_for_update(skip_locked=True))


def remove(tx: Tx, worker_id: str) -> None:
    """Take a worker out: it holds nothing any more."""
    tx.execute(delete(workers).where(workers.c.worker_id == worker_id))


def renew(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Take up a lease again that had run out; False: the worker is forgotten already."""
    query = update(workers).where(workers.c.worker_id == worker_id)
    return bool(tx.execute(query.values(expires_at=now + lease)).rowcount)


def end_all(tx: Tx) -> None:
    """End all leases: where there can be one process only, the others are dead."""
    tx.execute(update(workers).values(expires_at=0.0))
