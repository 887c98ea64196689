"""Workers: processes that hold runs, each with one lease for all it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import workers

SERVER = "server"
RUNNER = "runner"


def add(
    tx: Tx,
    worker_id: str,
    where: tuple[str, int],
    now: ColumnElement[float],
    lease: float,
    *,
    kind: str = SERVER,
    owner: str | None = None,
    told: Mapping[str, Any] | None = None,
) -> None:
    """Enter a worker, which is a process on a host; `told` is what it says of itself."""
    host, pid = where
    tx.execute(
        insert(workers).values(
            worker_id=worker_id,
            host=host,
            pid=pid,
            kind=kind,
            owner=owner,
            told=told,
            started_at=now,
            expires_at=now + lease,
        )
    )


def runner(reads: Reads, worker_id: str, now: ColumnElement[float]) -> Row | None:
    """Find a runner that has its lease."""
    query = select(workers).where(
        workers.c.worker_id == worker_id, workers.c.kind == RUNNER, workers.c.expires_at > now
    )
    return one_of(reads, query)


def alive(reads: Reads, now: ColumnElement[float]) -> list[Row]:
    """Give the workers that have their leases, those that came first before the others."""
    query = select(workers).where(workers.c.expires_at > now)
    return all_of(reads, query.order_by(workers.c.started_at, workers.c.worker_id))


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
    """End the leases of all servers: where there can be one only, the others are dead."""
    tx.execute(update(workers).where(workers.c.kind == SERVER).values(expires_at=0.0))


def spare_runners(tx: Tx, now: ColumnElement[float], lease: float) -> None:
    """Give runners a lease anew if there was no server to which they could have said a word.

    A server that was killed has its lease for a while: one that beats has most of it left. The
    runners get twice theirs, for the server that starts does not listen yet.
    """
    beats = workers.c.expires_at > now + lease / 2
    served = select(workers.c.worker_id).where(workers.c.kind == SERVER, beats)
    if tx.execute(served.limit(1)).fetchone() is None:
        query = update(workers).where(workers.c.kind == RUNNER)
        tx.execute(query.values(expires_at=now + 2 * lease))
