"""Leases of runners: who they are, what they hold, and how they let go of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from checkrail.runs.errors import ConflictError, NotFoundError, RequestError
from checkrail.runs.parts import Parts
from checkrail.store import events, runs, workers
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row


class GoneError(RequestError):
    """A runner is not known, or was given up for lost."""

    status = 410
    error = "gone"


class LostError(ConflictError):
    """A run is not, or no longer, in the hands of who speaks of it."""

    error = "lease_lost"


def unknown(runner_id: str) -> GoneError:
    """Say that there is no such runner any more."""
    return GoneError(f"runner {runner_id!r} not found, or its lease ran out. Register again")


def lost(run_id: str) -> LostError:
    """Say that a run is not the runner's."""
    return LostError(
        f"the run {run_id!r} is not yours under this lease: it ended, or others have it. Drop it"
    )


def entered(tx: Tx, parts: Parts, runner_id: str, owner: str, told: Mapping[str, Any]) -> None:
    """Enter a runner among the workers."""
    where = (told["host"], told["pid"])
    now, lease = parts.database.now(), parts.settings.lease
    said = {key: value for key, value in told.items() if key not in ("host", "pid")}
    more = {"kind": workers.RUNNER, "owner": owner, "server_id": parts.worker_id}
    workers.add(tx, runner_id, where, now, lease, told=said, **more)


def known(reads: Reads, parts: Parts, runner_id: str, owner: str) -> Row:
    """Find a runner of somebody's, or raise that there is none."""
    row = workers.runner(reads, runner_id, parts.database.now())
    if row is None:
        raise unknown(runner_id)
    if row["owner"] != owner:
        raise NotFoundError(f"runner {runner_id!r} not found")
    return row


def beat(tx: Tx, parts: Parts, runner_id: str) -> None:
    """Renew a runner's lease, or raise that it was given up."""
    now, lease = parts.database.now(), parts.settings.lease
    if not workers.beat_runner(tx, runner_id, parts.worker_id, now, lease):
        raise unknown(runner_id)


class Lease(NamedTuple):
    """What a runner speaks under: one attempt at a run, which it holds or held."""

    run_id: str
    runner_id: str
    attempt: int


def held(reads: Reads, lease: Lease) -> Row:
    """Find a run that a runner holds, or raise that it does not."""
    row = runs.find_owned(reads, *lease)
    if row is None:
        raise lost(lease.run_id)
    return row


def give_back(tx: Tx, row: Row) -> bool:
    """Let others have a run that nobody has begun with; one that was new is new again."""
    is_new = row["started_at"] == row["updated_at"]  # both are from the claim
    return release(tx, row, **({"started_at": None} if is_new else {}))


def release(tx: Tx, row: Row, **changed: Any) -> bool:
    """Let others have a run of which nothing was executed: the attempt does not count."""
    fence = {"worker_id": row["worker_id"], "attempt": row["attempt"]}
    now = tx.time()
    done = runs.change_if(
        tx,
        row["run_id"],
        fence,
        worker_id=None,
        attempt=row["attempt"] - 1,
        status="pending",
        phase="ready",
        ready_at=now,
        last_seq=events.last_seq(tx, row["run_id"]),
        updated_at=now,
        **changed,
    )
    if done:
        tx.tell("work", "")
    return done
