"""Hook records: every call of a hook that a run or a request made, in one sequence for all runs.

What becomes of runs is noted among them, so that whoever follows everything reads it in order.
Such a note stands at no point.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.engine.records import iso_time, uuid7
from checkrail.store.database import Reads, Tx
from checkrail.store.paging import PAGE_BYTES, within_bytes
from checkrail.store.prepared import Prepared
from checkrail.store.rows import Row, all_of
from checkrail.store.tables import hook_records

FEED = ("feed", "")
"""Told whenever there is something new in the sequence."""

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


_ADD = {
    name: make(hook_records).on_conflict_do_nothing()
    for name, make in (("postgresql", insert_postgres), ("sqlite", insert_sqlite))
}


def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep records; a call that has its ending gets no second one.

    Recovery ends the calls of a process that it takes for dead, which may wake up.
    """
    if rows:
        tx.execute(_ADD[tx.dialect.name], [*rows])
        _tell(tx)


def note(tx: Tx, event_type: str, run: Mapping[str, Any], **more: Any) -> None:
    """Note what became of a run, or of something of it."""
    now = time.time()
    said = {name: run.get(name) for name in _NOTED} | more
    told = {"event_type": event_type, "time": now, "timestamp": iso_time(now)}
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
    """Return a text without halves of surrogate pairs, which JSON cannot hold."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def after(reads: Reads, seq: int, missing: Collection[int], limit: int) -> list[Row]:
    """Return what comes after a number in the sequence, and what was missing before it."""
    wanted = hook_records.c.seq > seq
    if missing:
        wanted = or_(wanted, hook_records.c.seq.in_([*missing]))
    return _page(reads, select(hook_records.c.seq).where(wanted), limit)


def _page(reads: Reads, wanted: Select[Any], limit: int) -> list[Row]:
    """Read records in order, a page of bytes at most."""
    found = within_bytes(wanted, hook_records.c.seq, hook_records.c.record)
    query = select(hook_records).where(hook_records.c.seq.in_(found)).order_by(hook_records.c.seq)
    return all_of(reads, query.params(rows=limit, bytes=PAGE_BYTES))


def last_seq(reads: Reads) -> int:
    """Return the last number of the sequence."""
    return int(reads.execute(select(func.max(hook_records.c.seq))).scalar() or 0)


def of_run(reads: Reads, run_id: str, limit: int = 1000, after: int = 0) -> list[Row]:
    """Give the records of a run after a number, in order; a page of bytes, and none at the end."""
    wanted = select(hook_records.c.seq).where(
        hook_records.c.run_id == run_id, hook_records.c.seq > after, hook_records.c.point != ""
    )
    return _page(reads, wanted, limit)


def before_run(reads: Reads, run_id: str) -> list[Row]:
    """Return the records of a run's admission, in order."""
    query = select(hook_records).where(
        hook_records.c.run_id == run_id, hook_records.c.point == "before_run"
    )
    return all_of(reads, query.order_by(hook_records.c.seq))


def unfinished_in_run(reads: Reads, run_id: str, worker_id: str) -> list[Row]:
    """Return the starts without an ending of a worker's hook calls for one run."""
    return _unfinished(reads, hook_records.c.run_id == run_id, worker_id)


def unfinished_since(reads: Reads, since: float, worker_id: str) -> list[Row]:
    """Return the starts without an ending of a worker's hook calls, for whatever they were."""
    return _unfinished(reads, hook_records.c.created_at > since, worker_id)


def _unfinished(reads: Reads, which: ColumnElement[bool], worker_id: str) -> list[Row]:
    start: ColumnElement[str] = literal_column("'hook_start'")  # as the index says it
    ending = hook_records.alias()
    ended = exists(
        select(1).where(ending.c.call_id == hook_records.c.call_id, ending.c.event_type != start)
    )
    query = select(hook_records).where(
        which, hook_records.c.worker_id == worker_id, hook_records.c.event_type == start, ~ended
    )
    return all_of(reads, query.order_by(hook_records.c.seq))


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
    """Return the number that has to stay taken: SQLite would give it away again."""
    return last_seq(tx) if tx.dialect.name == "sqlite" else 0


def _keep_number(tx: Tx, last: int) -> None:
    """Put nothing where the last record was, so that who follows the sequence misses none."""
    if last and last_seq(tx) < last:
        nothing = dict.fromkeys(("record_id", "event_type", "point", "hook"), "")
        now = time.time()
        tx.execute(insert(hook_records).values(seq=last, created_at=now, record={}, **nothing))
