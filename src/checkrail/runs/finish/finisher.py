"""Ending a run: its outcome, its last events and all that is owed for it, in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from checkrail.engine.chain import BoundHook
from checkrail.runs import jsons
from checkrail.runs.execute.live_run import LiveRun
from checkrail.runs.finish.callbacks import CALLBACK, callback_payload
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.finish.question_ends import withdraw_questions
from checkrail.runs.services import RunServices
from checkrail.runs.summaries import search_text, sum_costs, sum_tokens
from checkrail.store import (
    approvals,
    deliveries,
    events,
    messages,
    records,
    runs,
    sessions,
    threads,
)
from checkrail.store.database import Tx
from checkrail.store.deliveries import Delivery
from checkrail.store.events import EventRow, RunEvent
from checkrail.store.runs import Run
from checkrail.store.tables import SLOT
from checkrail.times import uuid7

AGENT = "agent"
OUTSIDE = (AGENT, "http")
"""Types of hooks whose delivery may have to be tried again, whatever became of the others."""


def build_deliveries(
    parts: RunServices, row: Run, outcome: RunOutcome, worker_id: str | None
) -> list[Delivery]:
    """Return the deliveries that the end of a run calls for, for a worker or for whoever comes."""
    now = parts.database.time()
    point = "after_run" if outcome.is_success else "on_run_error"
    payloads: list[tuple[str, Any]] = []
    if parts.has_hooks(point, row.agent_name):
        told = _finish_payload(row, outcome, now)
        hooks = parts.scope(row).bound_hooks(point)
        payloads += [(point, {**told, **more}) for more in delivery_shares(hooks)]
    if row.kwargs.get("webhook"):
        sent = {"url": row.kwargs["webhook"], "run": _webhook_payload(row, outcome, now)}
        payloads.append(("webhook", sent))
    if (row.notify_on_end or {}).get("session_id"):
        payloads.append((CALLBACK, callback_payload(row, outcome)))
    return [
        Delivery(
            delivery_id=uuid7(),
            run_id=row.run_id,
            kind=kind,
            payload=jsons.dumps(told),
            status="owed",
            attempts=0,
            due_at=now,
            worker_id=worker_id,
            created_at=now,
        )
        for kind, told in payloads
    ]


def delivery_shares(hooks: Sequence[BoundHook]) -> list[dict[str, Any]]:
    """Return the hooks of each delivery: one for each hook outside, one for all others.

    One in the background has its own too, which is owed until the hook has ended.
    """
    own = [bound.key for bound in hooks if is_external(bound) or bound.spec.background]
    found: list[dict[str, Any]] = [{"hook": key} for key in own]
    if len(own) < len(hooks):
        found.insert(0, {"without": own})
    return found


def is_external(bound: BoundHook) -> bool:
    """Return whether a hook is outside, where it may not be reached."""
    return bound.spec.target_type in OUTSIDE


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
    "notify_on_end",
)


def _finish_payload(row: Run, outcome: RunOutcome, now: float) -> dict[str, Any]:
    """Return all that a finish hook is given, so that it needs nothing that may be gone by then."""
    config = row.kwargs.get("config") or {}
    changed = row.parameters is not None and row.input is not None
    return {
        "run": {**{name: getattr(row, name) for name in _IDS}, "kwargs": {"config": config}},
        "input": _run_input(row),
        **({"original_parameters": row.input} if changed else {}),
        "output": outcome.output,
        "status": outcome.status,
        "phase": outcome.phase,
        "error": outcome.error,
        "error_type": outcome.error_type,
        "usage": outcome.usage,
        "duration_ms": (now - (row.started_at or row.created_at)) * 1000,
    }


def _run_input(row: Run) -> Any:
    given = row.parameters if row.parameters is not None else row.input
    return given if given is not None else row.kwargs.get("command") or {}


def _webhook_payload(row: Run, outcome: RunOutcome, now: float) -> dict[str, Any]:
    return {
        **{
            name: getattr(row, name) for name in ("run_id", "thread_id", "assistant_id", "metadata")
        },
        "agent_name": row.agent_name,
        "status": outcome.status,
        "phase": outcome.phase,
        "error": outcome.error,
        "values": outcome.output,
        "created_at": row.created_at,
        "run_started_at": row.started_at,
        "run_ended_at": now,
    }


def end_unclaimed_run(
    tx: Tx, parts: RunServices, row: Run, outcome: RunOutcome, **fence: Any
) -> bool:
    """End a run that nobody holds; False: somebody got there first."""
    lock_thread(tx, row)
    if used := (row.suspended_state or {}).get("usage") or row.usage:
        outcome = dataclasses.replace(outcome, usage=used)
    closing = closing_events(outcome, row.last_seq)
    changed = _ended_columns(parts, row, outcome, closing[-1].seq, tx.time())
    if not row.temporary and row.phase not in SLOT:  # it never began, but its end is told
        changed["base_seq"] = threads.last_seq(tx, row.thread_id)
    if not runs.update_if(tx, row.run_id, fence, **changed):
        return False
    if row.attempt:
        withdraw_questions(tx, [row.run_id])
    debts = build_deliveries(parts, row, outcome, None)
    if debts:
        tx.publish("work", "")
    kept = events.rows_of(row.run_id, row.thread_id, closing)
    _store_end(tx, row, outcome, debts, kept)
    return True


def closing_events(outcome: RunOutcome, seq: int) -> list[RunEvent]:
    """Return the last events of a run, which are stored in the transaction that ends it."""
    words = outcome.last_events()
    return [
        RunEvent(seq + number, event, (), raw=jsons.dumps(data))
        for number, (event, data) in enumerate(words, 1)
    ]


def lock_thread(tx: Tx, row: Run) -> None:
    """Lock the thread of a run: always before the run itself, so that nobody waits in a circle."""
    if not row.temporary:
        threads.lock_only(tx, row.thread_id)


def _ended_columns(
    parts: RunServices, row: Run, outcome: RunOutcome, last_seq: int, now: float
) -> dict[str, Any]:
    usage = outcome.usage
    told = {} if outcome.error is None else {"search_text": search_text(row, outcome.error)}
    return {
        **told,
        "total_tokens": sum_tokens(usage),
        "cost_usd": sum_costs(usage, parts.settings.prices),
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
        "suspended_state": None,
        "last_seq": last_seq,
        "updated_at": now,
        "ended_at": now,
    }


def _store_end(
    tx: Tx, row: Run, outcome: RunOutcome, debts: list[Delivery], kept: list[EventRow]
) -> None:
    """Store the last events and the deliveries, and hand the thread to its next run."""
    now = tx.time()
    deliveries.add(tx, debts)
    if outcome.rolled_back:
        events.remove_of_runs(tx, [row.run_id])
        approvals.remove_of_runs(tx, [row.run_id])
        runs.remove(tx, [row.run_id])
    else:
        events.add(tx, kept)
    following = None
    if not row.temporary and row.phase in SLOT:  # one that waited never had the thread
        following = runs.fill_slot(tx, row.thread_id, now)
        last = row.base_seq + kept[-1].last_seq
        _release_thread(tx, row.thread_id, outcome, following, last)
    _note_end(tx, row, outcome)
    told = row.notify_on_end or {}
    if message_id := told.get("message_id"):
        by = {"agent_name": row.agent_name}
        messages.end_run(tx, message_id, _message_outcome(outcome), now, **by)
    if (session_id := told.get("summarizes")) and outcome.phase == "success":
        sessions.store_summary(tx, session_id, jsons.jsonable(outcome.output), now)
        tx.publish("session", session_id)
    tx.publish("run", row.run_id)
    tx.publish("thread", row.thread_id)
    if following:
        tx.publish("work", "")


def _message_outcome(outcome: RunOutcome) -> dict[str, Any]:
    """Return what the reply to a message is made of."""
    asked = [item for many in outcome.interrupts.values() for item in many]
    return {
        "status": outcome.status,
        "phase": outcome.phase,
        "output": jsons.jsonable(outcome.output),
        "error": outcome.error,
        "error_type": outcome.error_type,
        "blocked_by": outcome.blocked_by,
        "block_reason": outcome.block_reason,
        "interrupts": jsons.jsonable(asked),
    }


def _note_end(tx: Tx, row: Run, outcome: RunOutcome) -> None:
    now_is = {"status": outcome.status, "phase": outcome.phase}
    records.note_event(
        tx,
        "run_ended",
        row,
        **now_is,
        error=outcome.error,
        error_type=outcome.error_type,
        blocked_by=outcome.blocked_by,
        block_reason=outcome.block_reason,
        rolled_back=outcome.rolled_back or None,
    )


def _thread_error(outcome: RunOutcome) -> str:
    told = {"error": outcome.error_type or "Error", "message": outcome.error or ""}
    return jsons.dumps(told).decode()


def _release_thread(
    tx: Tx, thread_id: str, outcome: RunOutcome, following: str | None, last_seq: int
) -> None:
    now = tx.time()
    status = "busy" if following else outcome.thread_status
    changed: dict[str, Any] = {"status": status, "last_seq": last_seq, "updated_at": now}
    if not outcome.keeps_values:
        changed["values"] = jsons.dumps(outcome.values)
        changed["interrupts"] = jsons.dumps(outcome.interrupts)
        changed["state_updated_at"] = now
    changed["error"] = _thread_error(outcome) if outcome.thread_status == "error" else None
    threads.update_thread(tx, thread_id, **changed)
    if following:
        runs.update_run(tx, following, base_seq=last_seq)


class Finisher:
    """Ends the runs that this process holds."""

    def __init__(self, parts: RunServices) -> None:
        self._parts = parts

    async def finish(self, live: LiveRun, outcome: RunOutcome) -> list[Delivery] | None:
        """End a run as its owner, and return its deliveries; None: it is no longer ours to end."""
        parts, row = self._parts, live.row
        live.silence()
        outcome = dataclasses.replace(outcome, usage=dict(live.usage))
        pending = await parts.log.take_events(live)
        closing = closing_events(outcome, live.seq)
        kept = events.rows_of(live.run_id, live.thread_id, [*pending, *closing])
        told = parts.log.take_records(live.run_id)
        debts = build_deliveries(parts, row, outcome, parts.worker_id)
        changed = _ended_columns(parts, row, outcome, closing[-1].seq, parts.database.time())
        counts = live.hook_counts
        told_elsewhere = live.attempt > 1 or row.reported_by is not None

        def end_run(tx: Tx) -> bool:
            told_bytes = events.stored_bytes(tx, live.run_id) if told_elsewhere else live.bytes
            more_bytes = told_bytes + len(changed["output"] or b"")
            changed["stored_bytes"] = (row.stored_bytes or 0) + more_bytes
            lock_thread(tx, row)
            fence = (live.run_id, parts.worker_id, live.attempt)
            if not runs.end_owned(tx, fence, counts, **changed):
                return False
            parts.quotas.charge_bytes(row.owner, more_bytes)
            records.add(tx, told)
            if live.asked or live.attempt > 1 or row.suspended_state is not None:
                approvals.use_answers(tx, [each.approval_id for each in live.answers], tx.time())
                withdraw_questions(tx, [live.run_id])
            _store_end(tx, row, outcome, debts, kept)
            if parts.settings.brings_message(row):  # its session has been idle since now
                sessions.hold_open(tx, row.session_id or row.thread_id, tx.time())
            return True

        ended = False
        try:
            ended = await parts.database.write(end_run, patient=True)
        finally:
            if not ended:  # the hooks were called all the same
                parts.log.restore_records(told)
        if not ended:
            return None
        live.send_stored(closing)
        told_as = {"output": outcome.output, "usage": dict(outcome.usage) or None}
        told_as |= {name: getattr(row, name) + n for name, n in counts.columns().items()}
        live.ended.set_result(dataclasses.replace(row, **changed | told_as))
        return debts
