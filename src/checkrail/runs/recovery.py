"""Recovery: what becomes of a run whose worker is gone, by its agent's policy."""

from __future__ import annotations

import logging
import time
from typing import Any

from checkrail.engine.records import uuid7
from checkrail.runs import outcome as outcomes
from checkrail.runs.delivering import later
from checkrail.runs.ending import end_unheld, lock_thread
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts
from checkrail.runs.work import GIVEN, MEMO
from checkrail.store import deliveries, events, records, runs, workers
from checkrail.store.database import Tx
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_LONGEST = 3600.0  # seconds that the hooks before and after a run can have taken


def recover(tx: Tx, parts: Parts) -> None:
    """Take care of everything that dead workers left."""
    now = parts.database.now()
    for row in runs.orphans(tx, now, parts.worker_id):
        log.warning("run %s lost its worker in its attempt %s", row["run_id"], row["attempt"])
        give_up(tx, parts, row, lost=True)
    for row in deliveries.orphans(tx, now, parts.worker_id):
        _owe_again(tx, parts, row)
    for worker in workers.dead(tx, parts.worker_id, now):
        _close_calls(tx, worker)
        workers.remove(tx, worker["worker_id"])


def _owe_again(tx: Tx, parts: Parts, row: Row) -> None:
    """Free a delivery that went down with its worker; one that takes each down is put off."""
    error = "the process that carried it out went away"
    changed = later(row, error, parts.settings.webhook_attempts)
    if row["attempts"] == 0:
        changed["due_at"] = row["due_at"]
    deliveries.settle(tx, row["delivery_id"], row["worker_id"], **changed)
    _close_records(tx, row)
    tx.tell("work", "")


def give_up(tx: Tx, parts: Parts, row: Row, *, lost: bool) -> None:
    """Take a run from its worker, if it has it: to be resumed, or to end.

    A run that was handed back has not `lost` a lease.
    """
    lock_thread(tx, row)
    fence = {"worker_id": row["worker_id"], "attempt": row["attempt"]}
    row = row | {"last_seq": events.last_seq(tx, row["run_id"]), "lost": row["lost"] + lost}
    if (ended := _ends(parts, row)) is not None:
        runs.change_if(tx, row["run_id"], fence, lost=row["lost"])
        changed = end_unheld(tx, parts, row, ended, **fence)
    else:
        changed = _make_ready(tx, row, fence)
    if changed:
        _close_records(tx, row)


def _make_ready(tx: Tx, row: Row, fence: dict[str, Any]) -> bool:
    """Let others take a run; False: somebody else has it already."""
    kept = {"kept": None} if _was_entered(row) else {}
    changed = runs.change_if(
        tx,
        row["run_id"],
        fence,
        **kept,
        worker_id=None,
        status="pending" if row["kept"] is None else "running",
        phase=_phase_again(row),
        ready_at=time.time(),
        lost=row["lost"],
        last_seq=row["last_seq"],
        updated_at=time.time(),
    )
    if changed:
        tx.tell("work", "")
    return changed


def _phase_again(row: Row) -> str:
    """Say where a run goes on: with a result that is kept, only hooks are left to be asked."""
    if row["kept"] is not None and MEMO not in row["kept"]:
        return "running"
    return "starting" if row["phase"] == "starting" else "ready"


def _was_entered(row: Row) -> bool:
    """Say whether a body that was left may have been entered again."""
    return row["kept"] is not None and GIVEN in row["kept"]


def _ends(parts: Parts, row: Row) -> Outcome | None:
    """Say how a run ends that cannot go on; None: it can."""
    if row["cancel"] == "rollback":
        return None  # whoever takes it next has to remove what it left
    if row["cancel"] is not None:
        return outcomes.cancelled()
    if row["lost"] >= parts.settings.most_lost:
        times = f"lost its worker {row['lost']} times"
        return outcomes.failed(f"the run {times} and is not tried again", "WorkerLost")
    repeats = row["phase"] != "starting" and (row["kept"] is None or _was_entered(row))
    if repeats and parts.on_crash(row["agent_name"]) == "fail":
        why = "its worker went away while it ran, and its agent says on_crash: fail"
        return outcomes.failed(f"the run was cut off: {why}", "WorkerLost")
    return None


def _close_calls(tx: Tx, worker: Row) -> None:
    """End the hook calls before and after runs that a worker took down with it."""
    now = time.time()
    whose, since = worker["worker_id"], (worker["expires_at"] or now) - _LONGEST
    cut_off = records.unfinished_requests(tx, whose, since)
    cut_off += records.unfinished_finishes(tx, whose, since)
    records.add(tx, [_lost(start, now) for start in cut_off])


def _close_records(tx: Tx, row: Row) -> None:
    """End the hook calls that were cut off."""
    now = time.time()
    records.add(tx, [_lost(start, now) for start in records.unfinished(tx, row["run_id"])])


def _lost(start: Row, now: float) -> dict[str, Any]:
    changed = {"event_type": "hook_failed", "record_id": uuid7()}
    told = {
        **start["record"],
        **changed,
        "kind": "hook_failed",
        "failure": "lost",
        "error": "the process that ran this hook went away",
        "time": now,
    }
    kept = {key: value for key, value in start.items() if key != "seq"}
    return {**kept, **changed, "created_at": now, "record": told}
