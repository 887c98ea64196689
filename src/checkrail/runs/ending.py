"""Ending a run: its outcome, its last events and all that is owed for it, in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from checkrail.engine.records import uuid7
from checkrail.runs import finishing, jsons
from checkrail.runs.callbacks import CALLBACK, callback
from checkrail.runs.live import LiveRun
from checkrail.runs.outcome import Outcome
from checkrail.runs.parts import Parts
from checkrail.store import approvals, deliveries, events, records, runs, threads
from checkrail.store.database import Tx
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row
from checkrail.store.tables import SLOT


def owed(
    parts: Parts, row: Mapping[str, Any], outcome: Outcome, worker_id: str | None
) -> list[Row]:
    """Return the deliveries that the end of a run calls for, for a worker or for whoever comes."""
    now = parts.database.time()
    point = "after_run" if outcome.good else "on_run_error"
    payloads: list[tuple[str, Any]] = []
    if parts.has(point, row["agent_name"]):
        told = _told(row, outcome, now)
        payloads += [(point, {**told, **more}) for more in finishing.shares(parts, row, point)]
    if row["kwargs"].get("webhook"):
        sent = {"url": row["kwargs"]["webhook"], "run": _webhook(row, outcome, now)}
        payloads.append(("webhook", sent))
    if (row.get("told") or {}).get("session_id"):
        payloads.append((CALLBACK, callback(row, outcome)))
    return [_delivery(row, kind, told, worker_id, now) for kind, told in payloads]


def _delivery(
    row: Mapping[str, Any], kind: str, payload: Any, worker_id: str | None, now: float
) -> Row:
    return {
        "delivery_id": uuid7(),
        "run_id": row["run_id"],
        "kind": kind,
        "payload": jsons.dumps(payload),
        "status": "owed",
        "attempts": 0,
        "due_at": now,
        "worker_id": worker_id,
        "created_at": now,
    }


_IDS = (
    "run_id",
    "thread_id",
    "session_id",
    "parent_run_id",
    "assistant_id",
    "agent_name",
    "user",
    "attempt",
    "metadata",
    "depth",
    "scope",
    "told",
)


def _told(row: Mapping[str, Any], outcome: Outcome, now: float) -> dict[str, Any]:
    """Tell all that a finish hook is told, so that it needs nothing that may be gone by then."""
    config = row["kwargs"].get("config") or {}
    changed = row["parameters"] is not None and row["input"] is not None
    return {
        "run": {**{name: row.get(name) for name in _IDS}, "kwargs": {"config": config}},
        "input": _input(row),
        **({"original_parameters": row["input"]} if changed else {}),
        "output": outcome.output,
        "status": outcome.status,
        "phase": outcome.phase,
        "error": outcome.error,
        "error_type": outcome.error_type,
        "usage": outcome.usage,
        "duration_ms": (now - (row.get("started_at") or row["created_at"])) * 1000,
    }


def _input(row: Mapping[str, Any]) -> Any:
    given = row["parameters"] if row["parameters"] is not None else row["input"]
    return given if given is not None else row["kwargs"].get("command") or {}


def _webhook(row: Mapping[str, Any], outcome: Outcome, now: float) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("run_id", "thread_id", "assistant_id", "metadata")},
        "agent_name": row["agent_name"],
        "status": outcome.status,
        "phase": outcome.phase,
        "error": outcome.error,
        "values": outcome.output,
        "created_at": row["created_at"],
        "run_started_at": row.get("started_at"),
        "run_ended_at": now,
    }


def end_unheld(tx: Tx, parts: Parts, row: Row, outcome: Outcome, **fence: Any) -> bool:
    """End a run that nobody works on; False: somebody got there first."""
    lock_thread(tx, row)
    if used := (row["kept"] or {}).get("usage") or row["usage"]:
        outcome = dataclasses.replace(outcome, usage=used)
    closing = closing_events(outcome, row["last_seq"])
    changed = _ended(outcome, closing[-1].seq, tx.time())
    if not row["temporary"] and row["phase"] not in SLOT:  # it never began, but its end is told
        changed["base_seq"] = threads.last_seq(tx, row["thread_id"])
    if not runs.change_if(tx, row["run_id"], fence, **changed):
        return False
    if row["attempt"]:
        approvals.void_open(tx, row["run_id"])
    debts = owed(parts, row, outcome, None)
    if debts:
        tx.tell("work", "")
    _wind_up(tx, row, outcome, debts, events.rows_of(row["run_id"], row["thread_id"], closing))
    return True


def closing_events(outcome: Outcome, seq: int) -> list[RunEvent]:
    """Make the last events of a run, which are kept in the transaction that ends it."""
    words = outcome.last_words()
    return [
        RunEvent(seq + number, event, (), raw=jsons.dumps(data))
        for number, (event, data) in enumerate(words, 1)
    ]


def lock_thread(tx: Tx, row: Mapping[str, Any]) -> None:
    """Lock the thread of a run: always before the run itself, so that nobody waits in a circle."""
    if not row["temporary"]:
        threads.hold(tx, row["thread_id"])


def _ended(outcome: Outcome, last_seq: int, now: float) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "phase": outcome.phase,
        "output": None if outcome.output is None else jsons.dumps(outcome.output),
        "error": outcome.error,
        "error_type": outcome.error_type,
        "blocked_by": outcome.blocked_by,
        "block_reason": outcome.block_reason,
        "usage": jsons.dumps(outcome.usage) if outcome.usage else None,
        "unwound": outcome.unwound,
        "worker_id": None,
        "kept": None,
        "last_seq": last_seq,
        "updated_at": now,
        "ended_at": now,
    }


def _wind_up(tx: Tx, row: Row, outcome: Outcome, debts: list[Row], kept: list[Row]) -> None:
    """Keep the last events and what is owed, and hand the thread to its next run."""
    now = tx.time()
    deliveries.add(tx, debts)
    if outcome.rolled_back:
        events.forget(tx, [row["run_id"]])
        approvals.forget(tx, [row["run_id"]])
        runs.remove(tx, [row["run_id"]])
    else:
        events.add(tx, kept)
    following = None
    if not row["temporary"] and row["phase"] in SLOT:  # one that waited never had the thread
        following = runs.free_slot(tx, row["thread_id"], now)
        last = row["base_seq"] + kept[-1]["last_seq"]
        _leave_thread(tx, row["thread_id"], outcome, following, last)
    _note(tx, row, outcome)
    tx.tell("run", row["run_id"])
    tx.tell("thread", row["thread_id"])
    if following:
        tx.tell("work", "")


def _note(tx: Tx, row: Row, outcome: Outcome) -> None:
    now_is = {"status": outcome.status, "phase": outcome.phase}
    records.note(
        tx,
        "run_ended",
        {**row, **now_is},
        error=outcome.error,
        error_type=outcome.error_type,
        blocked_by=outcome.blocked_by,
        block_reason=outcome.block_reason,
        rolled_back=outcome.rolled_back or None,
    )


def _thread_error(outcome: Outcome) -> str:
    told = {"error": outcome.error_type or "Error", "message": outcome.error or ""}
    return jsons.dumps(told).decode()


def _leave_thread(
    tx: Tx, thread_id: str, outcome: Outcome, following: str | None, last_seq: int
) -> None:
    now = tx.time()
    status = "busy" if following else outcome.thread_status
    changed: dict[str, Any] = {"status": status, "last_seq": last_seq, "updated_at": now}
    if not outcome.keeps_values:
        changed["values"] = jsons.dumps(outcome.values)
        changed["interrupts"] = jsons.dumps(outcome.interrupts)
        changed["state_updated_at"] = now
    changed["error"] = _thread_error(outcome) if outcome.thread_status == "error" else None
    threads.change(tx, thread_id, **changed)
    if following:
        runs.change(tx, following, base_seq=last_seq)


class Finisher:
    """Ends the runs that this process works on."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def finish(self, live: LiveRun, outcome: Outcome) -> list[Row] | None:
        """End a run as its owner, and give what is owed; None: it is no longer ours to end."""
        parts, row = self._parts, live.row
        live.mute = True
        outcome = dataclasses.replace(outcome, usage=dict(live.usage))
        pending = await parts.log.taken(live)
        closing = closing_events(outcome, live.seq)
        kept = events.rows_of(live.run_id, live.thread_id, [*pending, *closing])
        told = parts.log.taken_records(live.run_id)
        debts = owed(parts, row, outcome, parts.worker_id)
        changed = _ended(outcome, closing[-1].seq, parts.database.time())
        told_elsewhere = live.attempt > 1 or row.get("reported_by") is not None

        def end(tx: Tx) -> bool:
            told_bytes = events.stored_bytes(tx, live.run_id) if told_elsewhere else live.bytes
            given_bytes = row.get("stored_bytes") or 0
            changed["stored_bytes"] = given_bytes + told_bytes + len(changed["output"] or b"")
            lock_thread(tx, row)
            if not runs.change_owned(tx, live.run_id, parts.worker_id, live.attempt, **changed):
                return False
            records.add(tx, told)
            if live.asked or live.attempt > 1 or row["kept"] is not None:
                approvals.use(tx, [each["approval_id"] for each in live.answers], tx.time())
                approvals.void_open(tx, live.run_id)
            _wind_up(tx, row, outcome, debts, kept)
            return True

        ended = False
        try:
            ended = await parts.database.write(end, patient=True)
        finally:
            if not ended:  # the hooks were called all the same
                parts.log.keep_all(told)
        if not ended:
            return None
        live.tell(closing)
        told_as = {"output": outcome.output, "usage": dict(outcome.usage) or None}
        live.ended.set_result(row | changed | told_as)
        return debts
