"""Recovery: what becomes of a run whose worker is gone, by its agent's policy."""

from __future__ import annotations

import logging
from typing import Any

from checkrail.engine.records import iso_time, uuid7
from checkrail.runs import outcome as outcomes
from checkrail.runs.ending import end_unheld, lock_thread
from checkrail.runs.last_chance import is_blamed, suspected
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts
from checkrail.runs.work import GIVEN, MEMO
from checkrail.store import deliveries, events, records, runs, workers
from checkrail.store.database import Tx
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

_LONGEST = 3600.0  # seconds that a hook can have taken which went down with no run of its worker


def recover(tx: Tx, parts: Parts) -> None:
    """Take care of everything that dead workers left."""
    now = parts.database.now()
    workers.stand_still(tx, now, 2 * parts.settings.beat)
    workers.spare_unheard(tx, now, parts.settings.lease)
    dead = workers.dead(tx, parts.worker_id, now)  # locked: none of them can renew its lease now
    whose = [worker["worker_id"] for worker in dead]
    cut_off = runs.orphans(tx, whose, parts.worker_id)
    owed = deliveries.orphans(tx, whose, parts.worker_id)
    known = suspected((*cut_off, *owed))
    for row in cut_off:
        log.warning("run %s lost its worker in its attempt %s", row["run_id"], row["attempt"])
        give_up(tx, parts, row, lost=is_blamed(row, known))
    for row in owed:
        _owe_again(tx, parts, row, lost=is_blamed(row, known))
    if cut_off or owed:
        parts.last_chance.look_again()
    for worker in dead:
        _close_calls(tx, worker)
        workers.remove(tx, worker["worker_id"])


def _owe_again(tx: Tx, parts: Parts, row: Row, *, lost: bool) -> None:
    """Free a delivery that went down with its worker; one that takes each down is dead."""
    times = row["lost"] + lost
    changed: dict[str, Any] = {"last_error": "the process that carried it out went away"}
    if times >= parts.settings.most_lost:
        error = f"{times} processes went away while they carried it out: it is not tried again"
        changed = {"status": "dead", "ended_at": tx.time(), "last_error": error}
        told = (row["kind"], row["delivery_id"], row["run_id"], error)
        log.error("the %s delivery %s of run %s is dead: %s", *told)
    changed |= {"attempts": row["attempts"] + lost, "lost": times}
    deliveries.settle(tx, row["delivery_id"], row["worker_id"], **changed)
    _close_records(tx, row)
    tx.tell("work", "")


def give_up(tx: Tx, parts: Parts, row: Row, *, lost: bool, begun: bool = True) -> None:
    """Take a run from its worker, if it has it: to be resumed, or to end.

    A run that was handed back has not `lost` a lease. One that its worker has not `begun` with in
    this attempt goes on, whatever its agent says of crashes.
    """
    lock_thread(tx, row)
    fence = {"worker_id": row["worker_id"], "attempt": row["attempt"]}
    row = row | {"last_seq": events.last_seq(tx, row["run_id"]), "lost": row["lost"] + lost}
    if (ended := _ends(parts, row, begun=begun)) is not None:
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
        ready_at=tx.time(),
        lost=row["lost"],
        last_seq=row["last_seq"],
        updated_at=tx.time(),
    )
    if changed:
        tx.tell("work", "")
    return changed


def _phase_again(row: Row) -> str:
    """Return where a run goes on: with a result that is kept, only hooks are left to be asked."""
    if row["kept"] is not None and MEMO not in row["kept"]:
        return "running"
    return "starting" if row["phase"] == "starting" else "ready"


def _was_entered(row: Row) -> bool:
    """Return whether a body that was left may have been entered again."""
    return row["kept"] is not None and GIVEN in row["kept"]


def _ends(parts: Parts, row: Row, *, begun: bool = True) -> Outcome | None:
    """Return how a run ends that cannot go on; None: it can."""
    if row["cancel"] == "rollback":
        return None  # whoever takes it next has to remove what it left
    if row["cancel"] is not None:
        return outcomes.cancelled()
    if row["lost"] >= parts.settings.most_lost:
        error = f"the run lost its worker {row['lost']} times and is not tried again"
        log.error("run %s of %s ends: %s", row["run_id"], row["agent_name"], error)
        return outcomes.failed(error, "WorkerLost")
    repeats = row["phase"] != "starting" and (row["kept"] is None or _was_entered(row))
    if begun and repeats and parts.on_crash(row["agent_name"]) == "fail":
        why = "its worker went away while it ran, and its agent says on_crash: fail"
        return outcomes.failed(f"the run was cut off: {why}", "WorkerLost")
    return None


def _close_calls(tx: Tx, worker: Row) -> None:
    """End the hook calls that a worker took down with it, whosever run they were for."""
    since = (worker["expires_at"] or tx.time()) - _LONGEST
    _end_calls(tx, records.unfinished_since(tx, since, worker["worker_id"]))


def _close_records(tx: Tx, row: Row) -> None:
    """End the calls that were cut off with a run or delivery; what others call goes on."""
    _end_calls(tx, records.unfinished_in_run(tx, row["run_id"], row["worker_id"]))


def _end_calls(tx: Tx, starts: list[Row]) -> None:
    now = tx.time()
    records.add(tx, [_lost(start, now) for start in starts])


def _lost(start: Row, now: float) -> dict[str, Any]:
    changed = {"event_type": "hook_failed", "record_id": uuid7()}
    told = {
        **start["record"],
        **changed,
        "kind": "hook_failed",
        "failure": "lost",
        "error": "the process that ran this hook went away",
        "time": now,
        "timestamp": iso_time(now),
    }
    kept = {key: value for key, value in start.items() if key != "seq"}
    return {**kept, **changed, "created_at": now, "record": told}
