"""Recovery: what becomes of a run whose worker is gone, by its agent's policy."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from checkrail.runs.execute.job import GIVEN, MEMO
from checkrail.runs.execute.last_chance import find_suspected, is_blamed
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.finisher import end_unclaimed_run, lock_thread
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.services import RunServices
from checkrail.store import crons, deliveries, events, records, runs, workers
from checkrail.store.crons import Cron
from checkrail.store.database import Tx
from checkrail.store.deliveries import Delivery
from checkrail.store.records import StoredRecord
from checkrail.store.runs import Run
from checkrail.store.workers import Worker
from checkrail.times import iso_time, uuid7

log = logging.getLogger("checkrail.runs")

_LONGEST = 3600.0  # seconds that a hook can have taken which went down with no run of its worker


def recover_orphans(tx: Tx, parts: RunServices) -> None:
    """Recover everything that dead workers left."""
    now = parts.database.now()
    workers.extend_leases(tx, now, 2 * parts.settings.beat)
    workers.renew_unheard(tx, now, parts.settings.lease)
    dead = workers.find_dead(
        tx, parts.worker_id, now
    )  # locked: none of them can renew its lease now
    whose = [worker.worker_id for worker in dead]
    cut_off = runs.find_orphans(tx, whose, parts.worker_id)
    owed = deliveries.find_orphans(tx, whose, parts.worker_id)
    asked = crons.find_orphans(tx, whose, parts.worker_id)
    known = find_suspected((*cut_off, *owed, *asked))
    for row in cut_off:
        log.warning("run %s lost its worker in its attempt %s", row.run_id, row.attempt)
        runs.recount_hooks(tx, row.run_id)
        give_up(tx, parts, row, lost=is_blamed(row, known))
    for each in owed:
        _release_delivery(tx, parts, each, lost=is_blamed(each, known))
    for cron in asked:
        _release_cron(tx, parts, cron, lost=is_blamed(cron, known))
    if cut_off or owed or asked:
        parts.last_chance.search_again()
    for worker in dead:
        _close_worker_calls(tx, worker)
        workers.remove(tx, worker.worker_id)


def _release_delivery(tx: Tx, parts: RunServices, row: Delivery, *, lost: bool) -> None:
    """Free a delivery that went down with its worker; one that takes each down is dead."""
    times = row.lost + lost
    changed: dict[str, Any] = {"last_error": "the process that carried it out went away"}
    if times >= parts.settings.most_lost:
        error = f"{times} processes went away while they carried it out: it is not tried again"
        changed = {"status": "dead", "ended_at": tx.time(), "last_error": error}
        told = (row.kind, row.delivery_id, row.run_id, error)
        log.error("the %s delivery %s of run %s is dead: %s", *told)
    changed |= {"attempts": row.attempts + lost, "lost": times}
    deliveries.store_result(tx, row.delivery_id, row.worker_id, **changed)
    if "status" in changed:
        deliveries.give_up_behind(tx, row, tx.time())
    if row.run_id is not None:
        _close_records(tx, row.run_id, row.worker_id)
    tx.publish("work", "")


def _release_cron(tx: Tx, parts: RunServices, row: Cron, *, lost: bool) -> None:
    """Free a cron whose server died with it; one that takes each down is switched off."""
    times = row.lost + lost
    changed: dict[str, Any] = {"worker_id": None, "lost": times}
    if times >= parts.settings.most_lost:
        error = f"{times} processes went away while its run was asked for: it is switched off"
        log.error("the cron %s is switched off: %s", row.cron_id, error)
        off = {"enabled": False, "next_run_at": None, "occurrence": None}
        changed |= {**off, "lost": 0, "last_error": error}
    crons.update_cron(tx, row.cron_id, **changed)
    tx.publish("clock", "")


def give_up(tx: Tx, parts: RunServices, row: Run, *, lost: bool, begun: bool = True) -> None:
    """Take a run from its worker, if it has it: to be resumed, or to end.

    A run that was handed back has not `lost` a lease. One that its worker has not `begun` with in
    this attempt goes on, whatever its agent says of crashes.
    """
    lock_thread(tx, row)
    fence = {"worker_id": row.worker_id, "attempt": row.attempt}
    row = replace(row, last_seq=events.last_seq(tx, row.run_id), lost=row.lost + lost)
    if (ended := _final_outcome(parts, row, begun=begun)) is not None:
        runs.update_if(tx, row.run_id, fence, lost=row.lost)
        changed = end_unclaimed_run(tx, parts, row, ended, **fence)
    else:
        changed = _make_ready(tx, row, fence)
    if changed:
        _close_records(tx, row.run_id, row.worker_id)


def _make_ready(tx: Tx, row: Run, fence: dict[str, Any]) -> bool:
    """Let others take a run; False: somebody else has it already."""
    kept = {"suspended_state": None} if _was_entered(row) else {}
    changed = runs.update_if(
        tx,
        row.run_id,
        fence,
        **kept,
        worker_id=None,
        status="pending" if row.suspended_state is None else "running",
        phase=_resume_phase(row),
        ready_at=tx.time(),
        lost=row.lost,
        last_seq=row.last_seq,
        updated_at=tx.time(),
    )
    if changed:
        tx.publish("work", "")
    return changed


def _resume_phase(row: Run) -> str:
    """Return where a run goes on: with a stored result, only hooks are left to be fired."""
    if row.suspended_state is not None and MEMO not in row.suspended_state:
        return "running"
    return "starting" if row.phase == "starting" else "ready"


def _was_entered(row: Run) -> bool:
    """Return whether a suspended job may have been entered again."""
    return row.suspended_state is not None and GIVEN in row.suspended_state


def _final_outcome(parts: RunServices, row: Run, *, begun: bool = True) -> RunOutcome | None:
    """Return the outcome of a run that cannot go on; None: it can."""
    if row.cancel == "rollback":
        return None  # whoever takes it next has to remove what it left
    if row.cancel is not None:
        return outcomes.cancelled_outcome()
    if row.lost >= parts.settings.most_lost:
        error = f"the run lost its worker {row.lost} times and is not tried again"
        log.error("run %s of %s ends: %s", row.run_id, row.agent_name, error)
        return outcomes.error_outcome(error, "WorkerLost")
    repeats = row.phase != "starting" and (row.suspended_state is None or _was_entered(row))
    if begun and repeats and parts.on_crash(row.agent_name) == "fail":
        why = "its worker went away while it ran, and its agent says on_crash: fail"
        return outcomes.error_outcome(f"the run was cut off: {why}", "WorkerLost")
    return None


def _close_worker_calls(tx: Tx, worker: Worker) -> None:
    """End the hook calls that a worker took down with it, whosever run they were for."""
    since = (worker.expires_at or tx.time()) - _LONGEST
    _end_calls(tx, records.unfinished_since(tx, since, worker.worker_id))


def _close_records(tx: Tx, run_id: str, worker_id: str | None) -> None:
    """End the calls that were cut off with a run or delivery; what others call goes on."""
    _end_calls(tx, records.unfinished_in_run(tx, run_id, worker_id))


def _end_calls(tx: Tx, starts: list[StoredRecord]) -> None:
    now = tx.time()
    records.add(tx, [_lost_record(start, now) for start in starts])


def _lost_record(start: StoredRecord, now: float) -> StoredRecord:
    event_type, record_id = "hook_failed", uuid7()
    told = {
        **start.record,
        "event_type": event_type,
        "record_id": record_id,
        "kind": "hook_failed",
        "failure": "lost",
        "error": "the process that ran this hook went away",
        "time": now,
        "timestamp": iso_time(now),
    }
    return replace(
        start, seq=0, event_type=event_type, record_id=record_id, created_at=now, record=told
    )
