"""Leases of runners: who they are, what they hold, and how they let go of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from checkrail.runs.errors import ConflictError, NotFoundError, RequestError
from checkrail.runs.services import RunServices
from checkrail.store import events, runs, workers
from checkrail.store.database import Reads, Tx
from checkrail.store.runs import Run
from checkrail.store.workers import Worker


class RunnerGoneError(RequestError):
    """A runner is not known, or was given up for lost."""

    status = 410
    error = "gone"


class LeaseLostError(ConflictError):
    """A run is not, or no longer, held by the runner that reports on it."""

    error = "lease_lost"


def runner_gone(runner_id: str) -> RunnerGoneError:
    """Return the error for a runner that does not exist any more."""
    return RunnerGoneError(f"runner {runner_id!r} not found, or its lease ran out. Register again")


def lease_lost(run_id: str) -> LeaseLostError:
    """Return the error for a run that is not the runner's."""
    return LeaseLostError(
        f"the run {run_id!r} is not yours under this lease: it ended, or others have it. Drop it"
    )


def insert_runner(
    tx: Tx, parts: RunServices, runner_id: str, owner: str, told: Mapping[str, Any]
) -> None:
    """Enter a runner among the workers."""
    where = (told["host"], told["pid"])
    now, lease = parts.database.now(), parts.settings.lease
    said = {key: value for key, value in told.items() if key not in ("host", "pid")}
    more = {"kind": workers.RUNNER, "owner": owner, "server_id": parts.worker_id}
    workers.add(tx, runner_id, where, now, lease, registration=said, **more)


def require_runner(reads: Reads, runner_id: str, owner: str) -> Worker:
    """Return a runner of somebody's, or raise that there is none."""
    row = workers.find_runner(reads, runner_id)
    if row is None:
        raise runner_gone(runner_id)
    if row.owner != owner:
        raise NotFoundError(f"runner {runner_id!r} not found")
    return row


def renew_lease(tx: Tx, parts: RunServices, runner_id: str) -> None:
    """Renew a runner's lease, or raise that it was given up."""
    now, lease = parts.database.now(), parts.settings.lease
    if not workers.renew_runner_lease(tx, runner_id, parts.worker_id, now, lease):
        raise runner_gone(runner_id)


class RunLease(NamedTuple):
    """Under what a runner reports: one attempt at a run, which it holds or held."""

    run_id: str
    runner_id: str
    attempt: int


def require_held(reads: Reads, lease: RunLease) -> Run:
    """Return a run that a runner holds, or raise that it does not."""
    row = runs.find_owned(reads, *lease)
    if row is None:
        raise lease_lost(lease.run_id)
    return row


def give_back(tx: Tx, row: Run) -> bool:
    """Let others have a run that nobody has started; one that was new is new again."""
    is_new = row.started_at == row.updated_at  # both are from the claim
    return release_run(tx, row, **({"started_at": None} if is_new else {}))


def release_run(tx: Tx, row: Run, **changed: Any) -> bool:
    """Let others have a run of which nothing was executed: the attempt does not count."""
    fence = {"worker_id": row.worker_id, "attempt": row.attempt}
    now = tx.time()
    done = runs.update_if(
        tx,
        row.run_id,
        fence,
        worker_id=None,
        attempt=row.attempt - 1,
        status="pending",
        phase="ready",
        ready_at=now,
        last_seq=events.last_seq(tx, row.run_id),
        updated_at=now,
        **changed,
    )
    if done:
        tx.publish("work", "")
    return done
