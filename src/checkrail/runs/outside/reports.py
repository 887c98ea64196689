"""What a runner reports of a run, kept with the run until hooks have ruled on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from checkrail.runs import jsons
from checkrail.runs import outcome as outcomes
from checkrail.runs.approving import APPROVAL, awake, told
from checkrail.runs.errors import InvalidError
from checkrail.runs.live import Limits
from checkrail.runs.outcome import Outcome
from checkrail.runs.outside import leases
from checkrail.store import approvals, events, runs
from checkrail.store.database import Tx
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row


def keep(tx: Tx, runner_id: str, run_id: str, attempt: int, kept: Mapping[str, Any]) -> None:
    """Take a run from its runner with what came of it; whoever comes may finish it.

    A report that was taken before is taken again; one under a lease that is lost is not.
    """
    lease = f"{runner_id}:{attempt}"
    taken = runs.change_owned(
        tx,
        run_id,
        runner_id,
        attempt,
        worker_id=None,
        kept=jsons.dumps(kept),
        reported_by=lease,
        last_seq=events.last_seq(tx, run_id),
        updated_at=time.time(),
    )
    if taken:
        tx.tell("work", "")
        return
    row = runs.get(tx, run_id)
    if row is None or row["reported_by"] != lease:
        raise leases.lost(run_id)


def leave(tx: Tx, runner_id: str, run_id: str, attempt: int, kept: Mapping[str, Any]) -> None:
    """Take a run from its runner that is left for somebody to answer; it may be answered by now.

    One that was to be stopped meanwhile has stopped.
    """
    row = runs.get(tx, run_id)
    if row is not None and row["cancel"] is not None:
        ended = {"usage": kept["usage"], "ended": {"as": "stopped", "unwound": True}}
        keep(tx, runner_id, run_id, attempt, ended)
        return
    lease, now = f"{runner_id}:{attempt}", time.time()
    changed = {"worker_id": None, "phase": "waiting", "updated_at": now, "reported_by": lease}
    answered = [each for each in approvals.answered(tx, run_id) if each["used_at"] is None]
    if row is not None and answered:  # before anybody knew that the run would wait for it
        add_events(tx, row, [(APPROVAL, (), jsons.dumps(told(each))) for each in answered])
        changed |= awake(kept, now)
        tx.tell("work", "")
    last = events.last_seq(tx, run_id)
    if runs.change_owned(
        tx, run_id, runner_id, attempt, kept=jsons.dumps(kept), last_seq=last, **changed
    ):
        tx.tell("run", run_id)
        return
    if row is None or row["reported_by"] != lease:
        raise leases.lost(run_id)


def keep_events(tx: Tx, row: Row, news: Sequence[RunEvent], limits: Limits) -> None:
    """Keep what a run tells: what is kept already is left out, and nothing may be missing.

    A runner counts its own events from 1; the numbers that others see are ours.
    """
    heard = row["heard"] or 0
    fresh = [event for event in news if event.seq > heard]
    if not fresh:
        return
    wanted = range(heard + 1, heard + 1 + len(fresh))
    if [event.seq for event in fresh] != [*wanted]:
        found = f"the next one is {heard + 1}, not {fresh[0].seq}"
        raise InvalidError(f"events of the run {row['run_id']!r} are missing: {found}")
    if any(len(event.raw) > limits.event_bytes for event in fresh):
        raise InvalidError(f"an event has more than the {limits.event_bytes} bytes it may have")
    if fresh[-1].seq > limits.events:
        raise InvalidError(f"the run told more than {limits.events} events, which is the limit")
    lease = row["run_id"], row["worker_id"], row["attempt"]
    if not runs.change_owned(tx, *lease, heard=fresh[-1].seq):
        raise leases.lost(row["run_id"])
    add_events(tx, row, [(event.event, event.ns, event.raw) for event in fresh])


def add_events(
    tx: Tx, row: Row, news: Sequence[tuple[str, tuple[str, ...], bytes]], gap: int = 0
) -> None:
    """Keep events of a run behind those that it has; `gap` numbers are left out before them."""
    first = events.last_seq(tx, row["run_id"]) + 1 + gap
    made = [RunEvent(seq, event, ns, raw=raw) for seq, (event, ns, raw) in enumerate(news, first)]
    events.add(tx, [events.row_of(row["run_id"], row["thread_id"], made)])
    tx.tell("run", row["run_id"])
    tx.tell("thread", row["thread_id"])


def ended_by(kept: Mapping[str, Any], row: Row) -> Outcome | None:
    """Give the end of a run that did not come to a result; None: it did."""
    report = kept.get("ended")
    if report is None:
        return None
    rolls_back = row["cancel"] == "rollback"
    if report["as"] == "stopped" or rolls_back:
        return outcomes.cancelled(rolled_back=rolls_back, unwound=report.get("unwound"))
    error, by = report["error"], report.get("blocked_by")
    if report["phase"] == "blocked":
        return outcomes.blocked(by, error)
    if report["phase"] == "timeout":
        return outcomes.timed_out(error, unwound=report.get("unwound"))
    return outcomes.failed(error, report["error_type"], blocked_by=by)
