"""Hook records: every call of a hook that a run or a request made, in one sequence for all runs.

What becomes of runs is noted among them, so that whoever follows everything reads it in order.
Such a note stands at no point.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, exists, func, insert, or_, select

from checkrail.engine.records import uuid7
from checkrail.store.database import Reads, Tx
from checkrail.store.prepared import Prepared
from checkrail.store.rows import Row, all_of
from checkrail.store.tables import hook_records, runs

FEED = ("feed", "")
"""Told whenever there is something new in the sequence."""

FINISH = ("after_run", "on_run_error")
"""The points that come after a run."""

_NOTE = Prepared(insert(hook_records).inline())
_NOTED = (
    "run_id",
    "thread_id",
    "session_id",
    "parent_run_id",
    "assistant_id",
    "agent_name",
    "origin",
    "status",
    "phase",
    "attempt",
)


def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep records."""
    if rows:
        tx.execute(insert(hook_records), [dict(row) for row in rows])
        _tell(tx)


def note(tx: Tx, event_type: str, run: Mapping[str, Any], **more: Any) -> None:
    """Note what became of a run, or of something of it."""
    now = time.time()
    said = {name: run.get(name) for name in _NOTED} | more
    told = {"event_type": event_type, "time": now}
    told |= {name: _sayable(value) for name, value in said.items() if value is not None}
    row = {
        "record_id": uuid7(now),
        "event_type": event_type,
        "run_id": run["run_id"],
        "thread_id": run["thread_id"],
        "owner": run.get("owner"),
        "point": "",
        "hook": "",
        "created_at": now,
        "record": told,
    }
    _NOTE.run(tx, row)
    _tell(tx)


def _tell(tx: Tx) -> None:
    if isinstance(tx, Tx):  # and not a connection of somebody who tells nobody
        tx.tell(*FEED)


def _sayable(value: Any) -> Any:
    """Give a text without halves of surrogate pairs, which JSON cannot hold."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def after(reads: Reads, seq: int, missing: Collection[int], limit: int) -> list[Row]:
    """Give what comes after a number in the sequence, and what was missing before it."""
    wanted = hook_records.c.seq > seq
    if missing:
        wanted = or_(wanted, hook_records.c.seq.in_([*missing]))
    return all_of(
        reads, select(hook_records).where(wanted).order_by(hook_records.c.seq).limit(limit)
    )


def last_seq(reads: Reads) -> int:
    """Give the last number of the sequence."""
    return int(reads.execute(select(func.max(hook_records.c.seq))).scalar() or 0)


def of_run(reads: Reads, run_id: str, limit: int = 1000, after: int = 0) -> list[Row]:
    """Give the records of a run, in order."""
    query = (
        select(hook_records)
        .where(
            hook_records.c.run_id == run_id, hook_records.c.seq > after, hook_records.c.point != ""
        )
        .order_by(hook_records.c.seq)
        .limit(limit)
    )
    return all_of(reads, query)


def before_run(reads: Reads, run_id: str) -> list[Row]:
    """Give the records of a run's admission, in order."""
    query = select(hook_records).where(
        hook_records.c.run_id == run_id, hook_records.c.point == "before_run"
    )
    return all_of(reads, query.order_by(hook_records.c.seq))


def unfinished(reads: Reads, run_id: str) -> list[Row]:
    """Give the starts of a run's hook calls that have no ending."""
    query = select(hook_records).where(hook_records.c.run_id == run_id)
    return _open(all_of(reads, query.order_by(hook_records.c.seq)))


def unfinished_requests(reads: Reads, worker_id: str, since: float) -> list[Row]:
    """Give the starts without an ending of a worker's hook calls for runs that never came to be."""
    query = select(hook_records).where(
        hook_records.c.created_at > since, hook_records.c.worker_id == worker_id
    )
    admitted = exists(select(1).where(runs.c.run_id == hook_records.c.run_id))
    return _open(all_of(reads, query.where(~admitted).order_by(hook_records.c.seq)))


def unfinished_finishes(reads: Reads, worker_id: str, since: float) -> list[Row]:
    """Give the starts without an ending of a worker's hook calls for runs that had ended.

    Such a call may outlive its delivery: a hook that is an agent is told when its run exists.
    """
    start, ending = hook_records, hook_records.alias()
    ended = exists(
        select(1).where(
            *(ending.c[name] == start.c[name] for name in ("run_id", "point", "hook")),
            ending.c.seq > start.c.seq,
            ending.c.event_type != "hook_start",
        )
    )
    query = select(start).where(
        start.c.created_at > since,
        start.c.worker_id == worker_id,
        start.c.event_type == "hook_start",
        start.c.point.in_(FINISH),
        ~ended,
    )
    return all_of(reads, query.order_by(start.c.seq))


def _open(records: Sequence[Row]) -> list[Row]:
    """Pair starts with their endings, and give those that are left."""
    open_calls: dict[tuple[str, str, str], list[Row]] = {}
    for row in records:
        calls = open_calls.setdefault((row["run_id"], row["point"], row["hook"]), [])
        if row["event_type"] == "hook_start":
            calls.append(row)
        elif calls:
            calls.pop(0)
    return [row for calls in open_calls.values() for row in calls]


def forget(tx: Tx, run_ids: Sequence[str]) -> None:
    """Remove the records of runs."""
    last = _last_to_keep(tx)
    tx.execute(delete(hook_records).where(hook_records.c.run_id.in_([*run_ids])))
    _keep_number(tx, last)


def forget_before(tx: Tx, when: float) -> int:
    """Remove old records."""
    last = _last_to_keep(tx)
    gone = tx.execute(delete(hook_records).where(hook_records.c.created_at < when)).rowcount
    _keep_number(tx, last)
    return gone


def _last_to_keep(tx: Tx) -> int:
    """Give the number that has to stay taken: SQLite would give it away again."""
    return last_seq(tx) if tx.dialect.name == "sqlite" else 0


def _keep_number(tx: Tx, last: int) -> None:
    """Put nothing where the last record was, so that who follows the sequence misses none."""
    if last and last_seq(tx) < last:
        nothing = dict.fromkeys(("record_id", "event_type", "point", "hook"), "")
        now = time.time()
        tx.execute(insert(hook_records).values(seq=last, created_at=now, record={}, **nothing))
