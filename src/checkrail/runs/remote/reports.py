"""What a runner reports of a run, kept with the run until hooks have ruled on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from checkrail.runs import jsons
from checkrail.runs.approvals import APPROVAL, question_event, resumed_columns
from checkrail.runs.errors import InvalidError
from checkrail.runs.execute.job import MEMO
from checkrail.runs.execute.live_run import EventLimits
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.outcome import RunOutcome
from checkrail.runs.graphs.requests import MODES
from checkrail.runs.remote import leases
from checkrail.runs.remote.leases import RunLease
from checkrail.runs.remote.snapshots import check_snapshot, sign_snapshot
from checkrail.store import approvals, events, runs
from checkrail.store.database import Tx
from checkrail.store.events import RunEvent
from checkrail.store.runs import Run

_COUNTED = 500  # events, or
_COUNTED_BYTES = 1 << 18  # bytes at a time, after which all that a run has told is counted

_STEPS = {
    f"{step}_{what}" for step in ("node", "model", "tool") for what in ("started", "finished")
}
BODY_EVENTS = MODES | {"events", "lifecycle"} | _STEPS
"""The events that the body of a run may emit; all others are the server's own."""


def store_report(tx: Tx, lease: RunLease, kept: Mapping[str, Any]) -> None:
    """Take a run from its runner with its result; any server may finish it.

    The very report that was taken before is taken again; another one, or one under a lease that
    is lost, is not.
    """
    check_events(event for event, _, _ in kept.get("events", ()))
    data = jsons.dumps(kept)
    _store_report(tx, lease, data, _report_signature(lease, data))


def _report_signature(lease: RunLease, data: bytes) -> str:
    """Return what identifies a report: the lease under which it came, and its digest."""
    return f"{lease.runner_id}:{lease.attempt}:{sha256(data).hexdigest()}"


def _store_report(tx: Tx, lease: RunLease, data: bytes, reported_by: str) -> None:
    taken = runs.update_owned(
        tx,
        *lease,
        worker_id=None,
        suspended_state=data,
        reported_by=reported_by,
        last_seq=events.last_seq(tx, lease.run_id),
        updated_at=tx.time(),
    )
    if taken:
        tx.publish("work", "")
        return
    row = runs.get(tx, lease.run_id)
    if row is None or row.reported_by != reported_by:
        raise leases.lease_lost(lease.run_id)


def store_suspended(tx: Tx, lease: RunLease, kept: Mapping[str, Any]) -> None:
    """Take a run from its runner that is suspended for an answer, which may be there by now.

    One that was to be stopped meanwhile has stopped.
    """
    reported_by = _report_signature(lease, jsons.dumps(kept))
    row = runs.get(tx, lease.run_id)
    if row is not None and row.reported_by == reported_by:
        return
    _check_suspended(tx, leases.require_held(tx, lease), kept)
    now = tx.time()
    if not runs.update_owned(tx, *lease, updated_at=now):
        raise leases.lease_lost(lease.run_id)
    row = leases.require_held(tx, lease)  # from here on nobody else changes it
    if row.cancel is not None:
        ended = {"usage": kept["usage"], "ended": {"as": "stopped", "unwound": True}}
        _store_report(tx, lease, jsons.dumps(ended), reported_by)
        return
    changed: dict[str, Any] = {"worker_id": None, "phase": "waiting", "updated_at": now}
    answered = [each for each in approvals.find_answered(tx, lease.run_id) if each.used_at is None]
    if answered:  # before anybody knew that the run would wait for it
        append_events(
            tx, row, [(APPROVAL, (), jsons.dumps(question_event(each))) for each in answered]
        )
        changed |= resumed_columns(kept, now)
        tx.publish("work", "")
    changed |= {"reported_by": reported_by, "last_seq": events.last_seq(tx, lease.run_id)}
    bound = sign_snapshot(
        lease.run_id, lease.attempt, {**kept, "seconds_left": _time_left(row, kept)}
    )
    if kept["usage"]:
        changed["usage"] = jsons.dumps(kept["usage"])
    runs.update_owned(tx, *lease, suspended_state=jsons.dumps(bound), **changed)
    tx.publish("run", lease.run_id)


def _time_left(row: Run, kept: Mapping[str, Any]) -> float | None:
    """Return the seconds that a run has left: as its runner says, but not more than it had."""
    most: float | None = row.timeout_seconds
    left: float | None = kept["seconds_left"]
    if most is None or left is None:
        return most
    return max(0.0, min(left, most))


def _check_suspended(tx: Tx, row: Run, kept: Mapping[str, Any]) -> None:
    """Refuse a suspended run with what its job cannot have emitted, stored or waited for."""
    check_events(event for event, _, _ in kept["events"])
    check_snapshot(row.needs.partition("/")[0], kept[MEMO])
    asked = [each for each in approvals.of_run(tx, row.run_id) if each.used_at is None]
    if row.cancel is None and all(each.status == "void" for each in asked):
        what = f"nobody was asked about the run {row.run_id!r}: there is no answer to wait for"
        raise InvalidError(f"{what}. Reach a point whose hooks ask first")


NewEvent = tuple[str, tuple[str, ...], bytes]
TimedEvent = tuple[str, tuple[str, ...], bytes, float]
"""An event that did not happen just now."""


def check_events(names: Iterable[str]) -> None:
    """Refuse events that the job of a run does not emit."""
    if foreign := sorted(set(names) - BODY_EVENTS):
        known = ", ".join(sorted(BODY_EVENTS))
        raise InvalidError(
            f"a runner cannot tell {foreign[0]!r} events: those are the server's. What it can tell "
            f"is: {known}"
        )


def store_events(tx: Tx, row: Run, news: Sequence[RunEvent], limits: EventLimits) -> None:
    """Store a run's events: those that are stored already are left out, and none may be missing.

    A runner counts its own events from 1; the numbers that others see are ours.
    """
    check_events(event.event for event in news)
    heard = row.events_received or 0
    fresh = [event for event in news if event.seq > heard]
    if not fresh:
        return
    wanted = range(heard + 1, heard + 1 + len(fresh))
    if [event.seq for event in fresh] != [*wanted]:
        found = f"the next one is {heard + 1}, not {fresh[0].seq}"
        raise InvalidError(f"events of the run {row.run_id!r} are missing: {found}")
    if any(len(event.raw) > limits.event_bytes for event in fresh):
        raise InvalidError(f"an event has more than the {limits.event_bytes} bytes it may have")
    if fresh[-1].seq > limits.events:
        raise InvalidError(f"the run told more than {limits.events} events, which is the limit")
    _check_bytes(tx, row.run_id, fresh, limits)
    lease = RunLease(row.run_id, row.worker_id or "", row.attempt)
    if not runs.update_owned(tx, *lease, events_received=fresh[-1].seq):
        raise leases.lease_lost(row.run_id)
    append_events(tx, row, [(event.event, event.ns, event.raw, event.time) for event in fresh])


def _check_bytes(tx: Tx, run_id: str, news: Sequence[RunEvent], limits: EventLimits) -> None:
    """Refuse events of a run that has as many bytes of them as it may; not each batch counts."""
    size = sum(len(event.raw) for event in news)
    counts = size > _COUNTED_BYTES or news[0].seq // _COUNTED != (news[-1].seq + 1) // _COUNTED
    if counts and size + events.stored_bytes(tx, run_id) > limits.bytes:
        raise InvalidError(f"the run told more than {limits.bytes} bytes, which is the limit")


def append_events(tx: Tx, row: Run, news: Sequence[NewEvent | TimedEvent], gap: int = 0) -> None:
    """Store events of a run behind those that it has; `gap` numbers are left out before them."""
    first = events.last_seq(tx, row.run_id) + 1 + gap
    made = [
        RunEvent(seq, event, ns, raw=raw, at=at[0] if at else None)
        for seq, (event, ns, raw, *at) in enumerate(news, first)
    ]
    events.add(tx, events.rows_of(row.run_id, row.thread_id, made))
    tx.publish("run", row.run_id)
    tx.publish("thread", row.thread_id)


def reported_outcome(kept: Mapping[str, Any], row: Run) -> RunOutcome | None:
    """Return the outcome of a run that did not come to a result; None: it did."""
    report = kept.get("ended")
    if report is None:
        return None
    rolls_back = row.cancel == "rollback"
    if report["as"] == "stopped" or rolls_back:
        return outcomes.cancelled_outcome(rolled_back=rolls_back, unwound=report.get("unwound"))
    error, by = report["error"], report.get("blocked_by")
    if report["phase"] == "blocked":
        return outcomes.blocked_outcome(by, error)
    if report["phase"] == "timeout":
        return outcomes.timeout_outcome(error, unwound=report.get("unwound"))
    return outcomes.error_outcome(error, report["error_type"], blocked_by=by)
