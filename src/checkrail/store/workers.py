"""Workers: processes that hold runs, each with one lease for all it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import fetch_row, fetch_rows, select_rows
from checkrail.store.tables import workers, writers


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that holds runs: a server, or a runner with its `registration`."""

    worker_id: str
    host: str
    pid: int
    started_at: float
    expires_at: float
    kind: str = "server"
    owner: str | None = None
    registration: Any = None
    server_id: str | None = None
    renewed_at: float | None = None


_SELECT = select_rows(Worker, workers)

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
    registration: Mapping[str, Any] | None = None,
    server_id: str | None = None,
) -> None:
    """Insert a worker, which is a process on a host; `told` is how it describes itself.

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
            registration=registration,
            server_id=server_id,
            started_at=now,
            renewed_at=now,
            expires_at=now + lease,
        )
    )


def find_runner(reads: Reads, worker_id: str) -> Worker | None:
    """Return a runner that nobody has given up for lost."""
    query = _SELECT.where(workers.c.worker_id == worker_id, workers.c.kind == RUNNER)
    return fetch_row(reads, Worker, query)


def has_lease(reads: Reads, worker_id: str, now: ColumnElement[float]) -> bool:
    """Return whether a worker's lease has not run out."""
    query = select(1).where(workers.c.worker_id == worker_id, workers.c.expires_at > now)
    return reads.execute(query).first() is not None


def find_alive(reads: Reads, now: ColumnElement[float]) -> list[Worker]:
    """Return the workers that have their leases, those that came first before the others."""
    query = _SELECT.where(workers.c.expires_at > now)
    return fetch_rows(reads, Worker, query.order_by(workers.c.started_at, workers.c.worker_id))


def renew_lease(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Renew a worker's lease; False: it was given up for lost."""
    query = update(workers).where(workers.c.worker_id == worker_id, workers.c.expires_at > now)
    return bool(tx.execute(query.values(renewed_at=now, expires_at=now + lease)).rowcount)


def renew_runner_lease(
    tx: Tx, worker_id: str, server_id: str, now: ColumnElement[float], lease: float
) -> bool:
    """Renew the lease of a runner that a server has seen; False: it was given up for lost.

    Until somebody has given it up, its runs are its own, even if its lease had run out.
    """
    query = update(workers).where(workers.c.worker_id == worker_id, workers.c.kind == RUNNER)
    renewed = {"renewed_at": now, "expires_at": now + lease, "server_id": server_id}
    return bool(tx.execute(query.values(**renewed)).rowcount)


def count_others(reads: Reads, worker_id: str, now: ColumnElement[float]) -> int:
    """Count the other workers that are alive."""
    query = select(func.count()).where(workers.c.worker_id != worker_id, workers.c.expires_at > now)
    return int(reads.execute(query).scalar_one())


def find_dead(tx: Tx, worker_id: str, now: ColumnElement[float]) -> list[Worker]:
    """Return the other workers whose lease has run out, and that are not about to commit anything.

    One that froze in the middle of a transaction may wake and commit it. PostgreSQL ends such a
    transaction after a while; until then it is too early to judge.
    """
    query = _SELECT.where(workers.c.worker_id != worker_id, workers.c.expires_at <= now)
    found = fetch_rows(tx, Worker, query.with_for_update(skip_locked=True))
    writing = _find_writing(tx, [each.worker_id for each in found])
    return [each for each in found if each.worker_id not in writing]


def _find_writing(tx: Tx, worker_ids: list[str]) -> set[str]:
    """Return those of some workers that are in a transaction; the others can begin none now."""
    if not worker_ids:
        return set()
    known = select(writers.c.writer_id).where(writers.c.writer_id.in_(worker_ids))
    everybody = set(tx.execute(known).scalars())
    return everybody - set(tx.execute(known.with_for_update(skip_locked=True)).scalars())


def remove(tx: Tx, worker_id: str) -> None:
    """Take a worker out: it holds nothing any more."""
    tx.execute(delete(workers).where(workers.c.worker_id == worker_id))


def revive_lease(tx: Tx, worker_id: str, now: ColumnElement[float], lease: float) -> bool:
    """Take up a lease again that had run out; False: the worker is removed already."""
    query = update(workers).where(workers.c.worker_id == worker_id)
    return bool(tx.execute(query.values(renewed_at=now, expires_at=now + lease)).rowcount)


def extend_leases(tx: Tx, now: ColumnElement[float], pause: float) -> float:
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


def end_server_leases(tx: Tx) -> None:
    """End the leases of all servers: where there can be one only, the others are dead."""
    tx.execute(update(workers).where(workers.c.kind == SERVER).values(expires_at=0.0))


def renew_stranded(tx: Tx, now: ColumnElement[float], lease: float) -> None:
    """Give runners a lease anew if there was no server that they could have reached.

    A server that was killed has its lease for a while: one that beats has most of it left. The
    runners get twice theirs, for the server that starts does not listen yet.
    """
    beats = workers.c.expires_at > now + lease / 2
    served = select(workers.c.worker_id).where(workers.c.kind == SERVER, beats)
    if tx.execute(served.limit(1)).fetchone() is None:
        query = update(workers).where(workers.c.kind == RUNNER)
        tx.execute(query.values(expires_at=now + 2 * lease))


def renew_unheard(tx: Tx, now: ColumnElement[float], lease: float) -> None:
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
