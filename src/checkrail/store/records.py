"""Hook records: every call of a hook that a run or a request made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, exists, insert, select

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of
from checkrail.store.tables import hook_records, runs


def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep records."""
    if rows:
        tx.execute(insert(hook_records), [dict(row) for row in rows])


def of_run(reads: Reads, run_id: str, limit: int = 1000, after: int = 0) -> list[Row]:
    """Give the records of a run, in order."""
    query = (
        select(hook_records)
        .where(hook_records.c.run_id == run_id, hook_records.c.seq > after)
        .order_by(hook_records.c.seq)
        .limit(limit)
    )
    return all_of(reads, query)


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
    tx.execute(delete(hook_records).where(hook_records.c.run_id.in_([*run_ids])))


def forget_before(tx: Tx, when: float) -> int:
    """Remove old records."""
    return tx.execute(delete(hook_records).where(hook_records.c.created_at < when)).rowcount
