"""Workers: processes that hold runs, each with one lease for all it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import workers, writers

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
    server_id: str | None = None,
) -> None:
    """Enter a worker, which is a process on a host; `told` is what it says of itself.

    A runner speaks to the server `server_id`.
    """
    host, pid = where
    tx.execute(
        insert(workers).values(
            worker_id=worker_id,
            host=host,
            pid=pid,
            kind=kind,
            owner=owner,
            told=told,
            server_id=server_id,
            started_at=now,
            renewed_at=now,
            expires_at=now + lease,
        )
    )


def runner(reads: Reads, worker_id: str, now: ColumnElement[float]) -> Row | None:
    """Find a runner that nobody has given up for lost; `alive`: its lease has not run out."""
    alive = (workers.c.expires_at > now).label("alive")
    query = select(workers, alive).where(workers.c.worker_id == worker_id)
    return one_of(reads, query.where(workers.c.kind == RUNNER))


def alive(reads: Reads, now: ColumnElement[float]) -> list[Row]:
    """Return the workers that have their leases, those that came first before the others."""
    query = select(workers).where(workers.c.expires_at > now)
    return all_of(reads, query.order_by(workers.c.started_at, workers.c.worker_id))


def beat(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Renew a worker's lease; False: it was given up for lost."""
    query = update(workers).where(workers.c.worker_id == worker_id, workers.c.expires_at > now)
    return bool(tx.execute(query.values(renewed_at=now, expires_at=now + lease)).rowcount)


def beat_runner(
    tx: Tx, worker_id: str, server_id: str, now: ColumnElement[float], lease: float
) -> bool:
    """Renew the lease of a runner that a server has heard; False: it was given up for lost.

    Until somebody has given it up, its runs are its own, even if its lease had run out.
    """
    query = update(workers).where(workers.c.worker_id == worker_id, workers.c.kind == RUNNER)
    renewed = {"renewed_at": now, "expires_at": now + lease, "server_id": server_id}
    return bool(tx.execute(query.values(**renewed)).rowcount)


def others(reads: Reads, worker_id: str, now: ColumnElement[float]) -> int:
    """Count the other workers that are alive."""
    query = select(func.count()).where(workers.c.worker_id != worker_id, workers.c.expires_at > now)
    return int(reads.execute(query).scalar_one())


def dead(tx: Tx, worker_id: str, now: ColumnElement[float]) -> list[Row]:
    """Return the other workers whose lease has run out, and that are not about to commit anything.

    One that froze in the middle of a transaction may wake and commit it. PostgreSQL ends such a
    transaction after a while; until then it is too early to judge.
    """
    query = select(workers).where(workers.c.worker_id != worker_id, workers.c.expires_at <= now)
    found = all_of(tx, query.with_for_update(skip_locked=True))
    writing = _writing(tx, [row["worker_id"] for row in found])
    return [row for row in found if row["worker_id"] not in writing]


def _writing(tx: Tx, worker_ids: list[str]) -> set[str]:
    """Return those of some workers that are in a transaction; the others can begin none now."""
    if not worker_ids:
        return set()
    known = select(writers.c.writer_id).where(writers.c.writer_id.in_(worker_ids))
    everybody = set(tx.execute(known).scalars())
    return everybody - set(tx.execute(known.with_for_update(skip_locked=True)).scalars())


def remove(tx: Tx, worker_id: str) -> None:
    """Take a worker out: it holds nothing any more."""
    tx.execute(delete(workers).where(workers.c.worker_id == worker_id))


def renew(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Take up a lease again that had run out; False: the worker is forgotten already."""
    query = update(workers).where(workers.c.worker_id == worker_id)
    return bool(tx.execute(query.values(renewed_at=now, expires_at=now + lease)).rowcount)


def stand_still(tx: Tx, now: ColumnElement[float], pause: float) -> float:
    """Move all leases on by the time in which no server could renew its own, and return it.

    If no server has renewed its lease for longer than a `pause`, none of them could reach the
    database, or none was there: nobody is taken for dead who had no chance to renew.
    """
    silence = select(func.coalesce(now - func.max(workers.c.renewed_at), 0.0))
    silence = silence.where(workers.c.kind == SERVER)
    if tx.execute(silence).scalar_one() <= pause:
        return 0.0
    everybody = select(workers.c.worker_id).order_by(workers.c.worker_id)
    tx.execute(everybody.with_for_update())  # one at a time: who comes next finds that it is done
    seconds = float(tx.execute(silence).scalar_one())
    if seconds <= pause:
        return 0.0
    moved = {name: workers.c[name] + seconds for name in ("renewed_at", "expires_at")}
    tx.execute(update(workers).values(**moved))
    return seconds


def forget_writers(tx: Tx, when: float) -> None:
    """Forget the batches of writers that entered long ago; one that is at work enters again."""
    tx.execute(delete(writers).where(writers.c.entered_at < when))


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


def spare_unheard(tx: Tx, now: ColumnElement[float], lease: float) -> None:
    """Renew the leases of runners whose server has not beaten for half a lease.

    They may have spoken to it all the time. If it is dead, they have one more lease from when
    that is found out, in which they can speak to another.
    """
    silent, unheard = workers.alias(), workers.alias()
    servers = select(silent.c.worker_id).where(silent.c.kind == SERVER)
    servers = servers.where(silent.c.expires_at <= now + lease / 2)
    runners = select(unheard.c.worker_id).where(unheard.c.kind == RUNNER)
    runners = runners.where(unheard.c.server_id.in_(servers), unheard.c.expires_at < now + lease)
    named = workers.c.worker_id.in_(runners.with_for_update(skip_locked=True))
    tx.execute(update(workers).where(named).values(expires_at=now + lease))
