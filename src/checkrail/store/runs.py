"""Runs: kept, claimed under a lease, and ended once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from checkrail.store import records
from checkrail.store.database import Reads, Tx
from checkrail.store.records import COUNTS, HookCounts
from checkrail.store.rows import (
    Filters,
    column_values,
    fetch_row,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import (
    HOLDS_SLOT,
    LAST_CHANCE,
    QUEUED,
    READY,
    REPORTED,
    SCHEDULED,
    STARTING,
    SUSPECTED,
    runs,
    threads,
    workers,
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run; one that was just requested is as the defaults say, and has no number (`seq`) yet."""

    run_id: str
    thread_id: str
    assistant_id: str
    agent_name: str
    metadata: dict[str, Any]
    kwargs: dict[str, Any]
    status: str = "pending"
    phase: str = "queued"
    multitask_strategy: str = "enqueue"
    attempt: int = 0
    lost: int = 0
    base_seq: int = 0
    last_seq: int = 0
    temporary: bool = False
    origin: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    seq: int = 0
    owner: str | None = None
    user: Any = None
    blocked_by: str | None = None
    block_reason: str | None = None
    input: Any = None
    parameters: Any = None
    output: Any = None
    error: str | None = None
    error_type: str | None = None
    usage: Any = None
    worker_id: str | None = None
    cancel: str | None = None
    cancel_reason: str | None = None
    due_at: float | None = None
    timeout_seconds: float | None = None
    unwound: bool | None = None
    session_id: str | None = None
    parent_run_id: str | None = None
    depth: int = 0
    needs: str = ""
    scope: Any = None
    notify_on_end: Any = None
    suspended_state: Any = None
    ready_at: float | None = None
    events_received: int | None = None
    reported_by: str | None = None
    stored_bytes: int | None = None
    summary: str | None = None
    agent_version: int | None = None
    search_text: str | None = None
    hook_calls: int = 0
    hook_changed: int = 0
    hook_blocked: int = 0
    hook_would_block: int = 0
    hook_failed: int = 0
    hook_asked: int = 0
    hook_ms: float = 0.0
    total_tokens: int | None = None
    cost_usd: float | None = None
    started_at: float | None = None
    ended_at: float | None = None


_SELECT = select_rows(Run, runs)

_INSERT = PreparedStatement(insert(runs).inline())
_GET = PreparedStatement(_SELECT.where(runs.c.run_id == bindparam("id")))
_SLOT_HOLDER = PreparedStatement(
    select(runs.c.run_id).where(runs.c.thread_id == bindparam("thread"), HOLDS_SLOT)
)
_LIVE_OF_THREAD = _SELECT.where(
    runs.c.thread_id == bindparam("thread"), runs.c.ended_at.is_(None)
).order_by(runs.c.seq)
_NEXT_QUEUED = PreparedStatement(
    select(runs.c.run_id)
    .where(runs.c.thread_id == bindparam("thread"), QUEUED)
    .order_by(runs.c.seq)
    .limit(1)
)
_OLDEST = (
    select(runs.c.seq)
    .order_by(runs.c.seq)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_UNSUSPECTED = runs.c.lost < LAST_CHANCE
_TO_START = _OLDEST.add_columns(runs.c.agent_name).where(STARTING)
_STARTING = _TO_START.where(_UNSUSPECTED)
_READY = _OLDEST.add_columns(runs.c.agent_name, runs.c.started_at).where(
    READY, _UNSUSPECTED, runs.c.needs == bindparam("needs")
)
_REPORTED = _OLDEST.where(REPORTED, _UNSUSPECTED)
_SUSPECTED = (
    select(runs.c.seq, runs.c.phase, runs.c.needs)
    .where(SUSPECTED, runs.c.phase.in_(["starting", "ready", "running"]))
    .order_by(runs.c.seq)
    .limit(100)
    .with_for_update(skip_locked=True)
)
# Each step finds the next value in the index: rows that are alike are never gone through.
_NEEDED = text(
    f"""
    WITH RECURSIVE found(needs) AS (
        SELECT min(needs) FROM runs WHERE {READY.text}
        UNION ALL
        SELECT (SELECT min(needs) FROM runs WHERE {READY.text} AND needs > found.needs)
        FROM found WHERE found.needs IS NOT NULL
    )
    SELECT needs FROM found WHERE needs IS NOT NULL
    """  # noqa: S608 - a constant of ours
)
_NEWEST_OF_THREAD = (
    _SELECT.where(runs.c.thread_id == bindparam("thread")).order_by(runs.c.seq.desc()).limit(1)
)
_STARTED = _SELECT.where(runs.c.started_at.is_not(None))
_UPDATE_OWNED = update(runs).where(
    runs.c.run_id == bindparam("fence_run"),
    runs.c.worker_id == bindparam("fence_worker"),
    runs.c.attempt == bindparam("fence_attempt"),
    runs.c.ended_at.is_(None),
)
_OWNED = PreparedStatement(_UPDATE_OWNED)
_MORE_COUNTS = {
    name: runs.c[name] + bindparam(f"more_{name}", type_=runs.c[name].type) for name in COUNTS
}
_END_OWNED = PreparedStatement(_UPDATE_OWNED.values(_MORE_COUNTS))
_COUNT = PreparedStatement(
    update(runs).where(runs.c.run_id == bindparam("counted")).values(_MORE_COUNTS)
)
_KNOWN_WORKERS = select(workers.c.worker_id)
_HELD_AMONG = select(runs.c.run_id, runs.c.attempt).where(
    runs.c.worker_id == bindparam("worker"), runs.c.run_id.in_(bindparam("ids", expanding=True))
)


def add(tx: Tx, run: Run, packed: Mapping[str, Any]) -> None:
    """Insert a new run, some columns of which are `packed` as JSON already."""
    _INSERT.run(tx, {**column_values(run), **packed})


def get(reads: Reads, run_id: str) -> Run | None:
    """Find a run."""
    return _GET.find(reads, Run, {"id": run_id})


def lock(tx: Tx, run_id: str) -> Run | None:
    """Find a run that is about to be changed."""
    return fetch_row(tx, Run, _SELECT.where(runs.c.run_id == run_id).with_for_update())


def slot_holder(reads: Reads, thread_id: str) -> str | None:
    """Find the run that holds a thread."""
    found = _SLOT_HOLDER.run(reads, {"thread": thread_id}).fetchall()
    return str(found[0][0]) if found else None


def live_of(reads: Reads, thread_id: str) -> list[Run]:
    """Return the runs of a thread that have not ended, in order."""
    return fetch_rows(reads, Run, _LIVE_OF_THREAD, {"thread": thread_id})


def newest_of(reads: Reads, thread_id: str) -> Run | None:
    """Return the run of a thread that was requested last."""
    return fetch_row(reads, Run, _NEWEST_OF_THREAD, {"thread": thread_id})


def agent_of_assistant(reads: Reads, assistant_id: str, owner: str | None) -> str | None:
    """Return the agent that an assistant stood for in some run, of an owner or of anybody."""
    query = select(runs.c.agent_name).where(runs.c.assistant_id == assistant_id).limit(1)
    if owner is not None:
        query = query.where(runs.c.owner == owner)
    found = reads.execute(query).scalar()
    return None if found is None else str(found)


def _apply_filters(
    reads: Reads,
    query: Select[Any],
    same: Mapping[str, Any],
    run_ids: Collection[str] | None,
    filters: Filters | None,
) -> Select[Any]:
    for column, value in same.items():
        if value is not None:
            query = query.where(runs.c[column] == value)
    if run_ids is not None:
        query = query.where(runs.c.run_id.in_([*run_ids]))
    if filters:  # of an auth handler: they are about threads
        query = query.outerjoin(threads, threads.c.thread_id == runs.c.thread_id)
        told = func.coalesce(threads.c.metadata, runs.c.metadata)
        query = query.where(json_matches(reads, told, filters))
    return query


def search(
    reads: Reads,
    *,
    thread_id: str | None = None,
    owner: str | None = None,
    status: str | None = None,
    agent_name: str | None = None,
    session_id: str | None = None,
    parent_run_id: str | None = None,
    metadata: Filters | None = None,
    filters: Filters | None = None,
    run_ids: Collection[str] | None = None,
    before: int | None = None,
    live: bool = False,
    limit: int = 10,
    offset: int = 0,
) -> list[Run]:
    """Return runs, the newest first."""
    query = _SELECT.order_by(runs.c.seq.desc()).limit(limit).offset(offset)
    same = {"thread_id": thread_id, "owner": owner, "status": status, "agent_name": agent_name}
    same |= {"session_id": session_id, "parent_run_id": parent_run_id}
    query = _apply_filters(reads, query, same, run_ids, filters)
    if metadata:
        query = query.where(json_matches(reads, runs.c.metadata, metadata))
    if before is not None:
        query = query.where(runs.c.seq < before)
    if live:
        query = query.where(runs.c.ended_at.is_(None))
    return fetch_rows(reads, Run, query)


def update_run(tx: Tx, run_id: str, /, **values: Any) -> bool:
    """Change a run that has not ended."""
    query = update(runs).where(runs.c.run_id == run_id, runs.c.ended_at.is_(None))
    return bool(tx.execute(query.values(**values)).rowcount)


def update_owned(tx: Tx, run_id: str, worker_id: str, attempt: int, /, **values: Any) -> bool:
    """Change a run as its owner; False: somebody else has it, or it is over."""
    fence = {"fence_run": run_id, "fence_worker": worker_id, "fence_attempt": attempt}
    return bool(_OWNED.run(tx, {**values, **fence}).rowcount)


def end_owned(tx: Tx, fence: tuple[str, str, int], counts: HookCounts, /, **values: Any) -> bool:
    """Change a run for the last time as its owner, and count its hooks' calls in it."""
    names = zip(("fence_run", "fence_worker", "fence_attempt"), fence, strict=True)
    return bool(_END_OWNED.run(tx, {**values, **dict(names), **_more_counts(counts)}).rowcount)


def count_hooks(tx: Tx, run_id: str, counts: HookCounts) -> None:
    """Count calls of hooks in a run, which may have ended."""
    _COUNT.run(tx, {"counted": run_id, **_more_counts(counts)})


def _more_counts(counts: HookCounts) -> dict[str, Any]:
    return {f"more_{name}": said for name, said in counts.columns().items()}


def recount_hooks(tx: Tx, run_id: str) -> None:
    """Count the calls of a run's hooks anew, by their records."""
    tx.execute(
        update(runs)
        .where(runs.c.run_id == run_id)
        .values(**records.count_calls(tx, [run_id]).get(run_id, HookCounts()).columns())
    )


def find_owned(reads: Reads, run_id: str, worker_id: str, attempt: int) -> Run | None:
    """Find a run that a worker still has, in an attempt; None: others have it, or it is over."""
    row = get(reads, run_id)
    if row is None or (row.worker_id, row.attempt) != (worker_id, attempt):
        return None
    return row if row.ended_at is None else None


def claim(
    tx: Tx,
    worker_id: str,
    most: int,
    now: float,
    *,
    fits: Callable[[str], bool],
    starts: bool = True,
    has_start_hooks: Callable[[str], bool] | None = None,
) -> list[Run]:
    """Take runs that are ready for somebody, the oldest first, if what they need `fits`.

    A server `starts` runs too, whoever carries them out in the end. A run that became ready
    because its agent had no start hooks is not ready any more if it has some now.
    """
    found = [row.seq for row in tx.execute(_STARTING, {"most": most})] if starts else []
    unasked: list[int] = []
    for needs in filter(fits, find_needs(tx)):
        rows = tx.execute(_READY, {"most": most, "needs": needs}).all()
        unasked += _needing_start_hooks(rows, has_start_hooks)
        found += [row.seq for row in rows]
    if unasked and not starts:
        _undo_ready(tx, unasked, now)
        found = [seq for seq in found if seq not in unasked]
    return _take(tx, sorted(found)[:most], worker_id, now, unasked)


def claim_beneath(
    tx: Tx,
    worker_id: str,
    now: float,
    *,
    fits: Callable[[str], bool],
    has_start_hooks: Callable[[str], bool] | None = None,
) -> list[Run]:
    """Take runs that hooks of this worker's own runs wait for, whatever its capacity."""
    held = select(runs.c.run_id).where(runs.c.worker_id == worker_id)
    query = select(runs.c.seq, runs.c.needs, runs.c.agent_name, runs.c.started_at).where(
        READY, runs.c.origin == "hook", runs.c.parent_run_id.in_(held)
    )
    found = tx.execute(query.order_by(runs.c.seq).with_for_update(skip_locked=True)).all()
    unasked = _needing_start_hooks(found, has_start_hooks)
    _undo_ready(tx, unasked, now)
    fitting = [row.seq for row in found if fits(row.needs) and row.seq not in unasked]
    return _take(tx, fitting, worker_id, now)


def claim_awaited(
    tx: Tx,
    worker_id: str,
    run_ids: Collection[str],
    now: float,
    *,
    fits: Callable[[str], bool],
    has_start_hooks: Callable[[str], bool],
) -> list[Run]:
    """Take runs that hooks in this process wait for, whatever its capacity."""
    if not run_ids:
        return []
    query = select(runs.c.seq, runs.c.needs, runs.c.agent_name, runs.c.started_at).where(
        runs.c.run_id.in_([*run_ids]), or_(STARTING, READY)
    )
    found = tx.execute(query.order_by(runs.c.seq).with_for_update(skip_locked=True)).all()
    fitting = [row for row in found if fits(row.needs)]
    taken = [row.seq for row in fitting]
    return _take(tx, taken, worker_id, now, _needing_start_hooks(fitting, has_start_hooks))


def _needing_start_hooks(
    rows: Sequence[Any], has_start_hooks: Callable[[str], bool] | None
) -> list[int]:
    """Return the runs that nobody ever took, and whose agents have start hooks by now."""
    if has_start_hooks is None:
        return []
    return [row.seq for row in rows if row.started_at is None and has_start_hooks(row.agent_name)]


def _undo_ready(tx: Tx, found: Sequence[int], now: float) -> None:
    """Have a server fire the start hooks of runs that were ready without any."""
    if found:
        query = update(runs).where(runs.c.seq.in_(found), runs.c.worker_id.is_(None))
        tx.execute(query.values(phase="starting", ready_at=None, updated_at=now))
        tx.publish("work", "")


def claim_reported(tx: Tx, worker_id: str, most: int, now: float) -> list[Run]:
    """Take runs that a runner has executed, to fire the hooks on the result and end them.

    This is the same attempt: nothing is executed again.
    """
    found = [row.seq for row in tx.execute(_REPORTED, {"most": most})]
    return _retake(tx, found, worker_id, now)


def claim_suspect(
    tx: Tx,
    worker_id: str,
    now: float,
    *,
    fits: Callable[[str], bool],
    executes_only: bool = False,
) -> list[Run]:
    """Take the oldest of the runs that are left out of all other claims.

    Processes have died with it under way, so that it is to be the only one of them in its process.
    A runner `executes_only`: to start a run, and to end it, is for servers.
    """
    for each in tx.execute(_SUSPECTED):
        if each.phase == "ready" and fits(each.needs):
            return _take(tx, [each.seq], worker_id, now)
        if each.phase == "starting" and not executes_only:
            return _take(tx, [each.seq], worker_id, now)
        if each.phase == "running" and not executes_only:
            return _retake(tx, [each.seq], worker_id, now)
    return []


def _retake(tx: Tx, found: Sequence[int], worker_id: str, now: float) -> list[Run]:
    """Make runs that are locked those of a worker, in the attempt that they are in."""
    if not found:
        return []
    query = update(runs).where(runs.c.seq.in_(found), runs.c.worker_id.is_(None))
    tx.execute(query.values(worker_id=worker_id, updated_at=now))
    return fetch_rows(tx, Run, _SELECT.where(runs.c.seq.in_(found)).order_by(runs.c.seq))


def _take(
    tx: Tx, found: Sequence[int], worker_id: str, now: float, unasked: Sequence[int] = ()
) -> list[Run]:
    """Make runs that are locked those of a worker, each in a new attempt.

    Those that are `unasked` have start hooks, though they were ready.
    """
    if not found:
        return []
    if isinstance(tx, Tx):  # what let them begin may have ended since the claim began
        now = max(now, tx.time())
    ready = and_(runs.c.phase == "ready", runs.c.seq.not_in(unasked))
    phase = case((ready, "running"), else_="starting")
    taken = (
        update(runs)
        .where(runs.c.seq.in_(found), runs.c.worker_id.is_(None))
        .values(
            worker_id=worker_id,
            attempt=runs.c.attempt + 1,
            status="running",
            phase=phase,
            started_at=func.coalesce(runs.c.started_at, now),
            updated_at=now,
        )
    )
    tx.execute(taken)
    query = _SELECT.where(runs.c.seq.in_(found)).order_by(runs.c.seq)
    rows = fetch_rows(tx, Run, query)
    for row in rows:
        if row.started_at == now:  # for the first time
            records.note_event(tx, "run_started", row)
    return rows


def find_needs(reads: Reads) -> list[str]:
    """Return what the runs that are ready need of a runner, each once."""
    return [row.needs for row in reads.execute(_NEEDED)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many runs wait for somebody who has what they need, and since when the oldest does."""

    needs: str
    waiting: int
    oldest: float | None


def waiting_by_needs(reads: Reads) -> list[Waiting]:
    """Count the runs that are ready by what they need."""
    query = select(runs.c.needs, func.count(), func.min(runs.c.ready_at)).where(READY)
    return [Waiting(*row) for row in reads.execute(query.group_by(runs.c.needs))]


def make_ready(
    tx: Tx, most: int, now: float, has_start_hooks: Callable[[str], bool] | None = None
) -> int:
    """Let anybody take runs that have no start hooks to be fired."""
    rows = tx.execute(_TO_START, {"most": most}).all()
    found = [row.seq for row in rows if not (has_start_hooks and has_start_hooks(row.agent_name))]
    if found:
        query = update(runs).where(runs.c.seq.in_(found), runs.c.worker_id.is_(None))
        tx.execute(query.values(phase="ready", ready_at=now, updated_at=now))
    return len(found)


def find_unclaimed(reads: Reads, since: float, needs: Sequence[str], most: int = 100) -> list[Run]:
    """Return runs with some needs that have been ready for long, and that nobody has taken."""
    query = _SELECT.where(READY, runs.c.ready_at <= since, runs.c.needs.in_([*needs]))
    query = query.limit(most)
    return fetch_rows(reads, Run, query.with_for_update(skip_locked=True))


def fill_slot(tx: Tx, thread_id: str, now: float) -> str | None:
    """Make the next run of a thread ready, now that the one before has ended."""
    found = _NEXT_QUEUED.run(tx, {"thread": thread_id}).fetchall()
    if not found:
        return None
    run_id = str(found[0][0])
    query = update(runs).where(runs.c.run_id == run_id, runs.c.phase == "queued")
    tx.execute(query.values(phase="starting", updated_at=now))
    return run_id


def held_by(reads: Reads, worker_id: str) -> list[Run]:
    """Return the runs that a worker holds."""
    return fetch_rows(reads, Run, _SELECT.where(runs.c.worker_id == worker_id))


def held_ids(reads: Reads, worker_id: str) -> list[str]:
    """Return the ids of the runs that a worker holds."""
    query = select(runs.c.run_id).where(runs.c.worker_id == worker_id)
    return [row.run_id for row in reads.execute(query)]


def cancels_of(reads: Reads, worker_id: str) -> list[tuple[str, str]]:
    """Return the runs of a worker that somebody wants cancelled, and how."""
    query = select(runs.c.run_id, runs.c.cancel).where(
        runs.c.worker_id == worker_id, runs.c.cancel.is_not(None)
    )
    return [(row.run_id, row.cancel) for row in reads.execute(query)]


def find_orphans(reads: Reads, dead: Sequence[str], but: str, most: int = 100) -> list[Run]:
    """Return the runs whose worker is `dead`, or is gone; `but` one that asks is not."""
    query = (
        _SELECT.where(
            runs.c.worker_id.is_not(None),
            runs.c.worker_id != but,
            or_(runs.c.worker_id.in_([*dead]), runs.c.worker_id.not_in(_KNOWN_WORKERS)),
        )
        .limit(most)  # in no order: for one, SQLite would go through all runs there ever were
        .with_for_update(skip_locked=True)
    )
    return fetch_rows(reads, Run, query)


def find_due(reads: Reads, now: float, most: int = 100) -> list[Run]:
    """Return the scheduled runs whose time has come."""
    query = (
        _SELECT.where(SCHEDULED, runs.c.due_at <= now)
        .order_by(runs.c.due_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return fetch_rows(reads, Run, query)


def next_due(reads: Reads) -> float | None:
    """Return when the next scheduled run is due."""
    query = select(func.min(runs.c.due_at)).where(SCHEDULED)
    return reads.execute(query).scalar()


def count_queued(reads: Reads, thread_id: str) -> int:
    """Count the runs that wait for a thread."""
    query = select(func.count()).where(runs.c.thread_id == thread_id, QUEUED)
    return int(reads.execute(query).scalar_one())


def ended_before(reads: Reads, when: float, most: int, *, temporary: bool) -> list[str]:
    """Return runs that ended long ago; with `temporary`, only those that had no thread to keep."""
    query = select(runs.c.run_id).where(runs.c.ended_at < when).limit(most)
    if temporary:
        query = query.where(runs.c.temporary)
    return [row.run_id for row in reads.execute(query)]


def remove(tx: Tx, run_ids: Sequence[str]) -> None:
    """Remove runs."""
    tx.execute(delete(runs).where(runs.c.run_id.in_([*run_ids])))


def of_threads(reads: Reads, thread_ids: Sequence[str]) -> list[str]:
    """Return the ids of all runs of some threads."""
    query = select(runs.c.run_id).where(runs.c.thread_id.in_([*thread_ids]))
    return [row.run_id for row in reads.execute(query)]


def count_by_phase(reads: Reads) -> dict[str, int]:
    """Count the runs that have not ended by their phase."""
    query = (
        select(runs.c.phase, func.count()).where(runs.c.ended_at.is_(None)).group_by(runs.c.phase)
    )
    return {row[0]: row[1] for row in reads.execute(query)}


def held_attempts(reads: Reads, worker_id: str, run_ids: Sequence[str]) -> dict[str, int]:
    """Return those of some runs that a worker still holds, and in which attempt."""
    if not run_ids:
        return {}
    found = reads.execute(_HELD_AMONG, {"worker": worker_id, "ids": [*run_ids]})
    return {row.run_id: row.attempt for row in found}


def update_if(tx: Tx, run_id: str, fence: Mapping[str, Any], /, **values: Any) -> bool:
    """Change a run that has not ended, if some of its columns are still as they were."""
    query = update(runs).where(runs.c.run_id == run_id, runs.c.ended_at.is_(None))
    for column, value in fence.items():
        query = query.where(runs.c[column] == value)
    return bool(tx.execute(query.values(**values)).rowcount)


def live_ids(
    reads: Reads,
    *,
    owner: str | None = None,
    thread_id: str | None = None,
    session_id: str | None = None,
    run_ids: Collection[str] | None = None,
    status: str | None = None,
    filters: Filters | None = None,
) -> list[str]:
    """Return the ids of runs that have not ended, the newest first."""
    query = select(runs.c.run_id).where(runs.c.ended_at.is_(None)).order_by(runs.c.seq.desc())
    same = {"owner": owner, "thread_id": thread_id, "session_id": session_id, "status": status}
    query = _apply_filters(reads, query, same, run_ids, filters)
    return [row.run_id for row in reads.execute(query)]


def started_at_or_before(reads: Reads, thread_id: str, base: int) -> Run | None:
    """Find the newest run of a thread whose events begin at a number or before it."""
    query = _STARTED.where(runs.c.thread_id == thread_id, runs.c.base_seq <= base)
    return fetch_row(reads, Run, query.order_by(runs.c.base_seq.desc(), runs.c.seq.desc()).limit(1))


def find_next_with_events(reads: Reads, thread_id: str, base: int, seq: int) -> Run | None:
    """Find the run of a thread that has events next, after the run of a base and a number.

    One that was cancelled before it began has its end to tell.
    """
    later = or_(runs.c.base_seq > base, and_(runs.c.base_seq == base, runs.c.seq > seq))
    told = or_(runs.c.started_at.is_not(None), runs.c.phase == "cancelled")
    query = _SELECT.where(runs.c.thread_id == thread_id, later, told)
    return fetch_row(reads, Run, query.order_by(runs.c.base_seq, runs.c.seq).limit(1))


def newest_started(reads: Reads, thread_id: str) -> Run | None:
    """Find the run of a thread that was started last."""
    query = _STARTED.where(runs.c.thread_id == thread_id)
    return fetch_row(reads, Run, query.order_by(runs.c.base_seq.desc(), runs.c.seq.desc()).limit(1))
