"""Hook records: every call of a hook that a run or a request made, in one sequence for all runs.

What becomes of runs is noted among them, so that whoever follows everything reads it in order.
Such a note stands at no point.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import (
    PAGE_BYTES,
    column_values,
    fetch_row,
    fetch_rows,
    keys_within_bytes,
    select_rows,
)
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import hook_records
from checkrail.times import iso_time, uuid7


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A call of a hook, or a note of what became of a run; one not stored yet has no number."""

    record_id: str
    event_type: str
    point: str
    hook: str
    created_at: float
    record: Any
    seq: int = 0
    run_id: str | None = None
    thread_id: str | None = None
    owner: str | None = None
    worker_id: str | None = None
    call_id: str | None = None
    agent_name: str | None = None
    change: Any = None
    decision: str | None = None
    failure: str | None = None
    changed: bool | None = None
    shadow: bool | None = None
    duration_ms: float | None = None

    @property
    def whole(self) -> dict[str, Any]:
        """The record with its values, as it was written."""
        return {**self.record, **(self.change or {})}


class _Ending(Protocol):
    """How a call of a hook ended: a row, or the engine's own record."""

    @property
    def decision(self) -> str | None: ...

    @property
    def failure(self) -> str | None: ...

    @property
    def changed(self) -> bool | None: ...

    @property
    def shadow(self) -> bool | None: ...

    @property
    def duration_ms(self) -> float | None: ...


@dataclass(slots=True)
class HookCounts:
    """How many calls of hooks there were, what they came to, and how long they took."""

    calls: int = 0
    changed: int = 0
    blocked: int = 0
    would_block: int = 0
    failed: int = 0
    asked: int = 0
    ms: float = 0.0

    def add(self, row: StoredRecord) -> None:
        """Count a call by its ending; its start counts for nothing."""
        if row.event_type != "hook_start" and row.point:
            self.add_ending(row)

    def add_ending(self, ending: _Ending) -> None:
        """Count a call by what is told of its end."""
        refuses, acts = ending.decision in _REFUSALS, not ending.shadow
        self.calls += 1
        self.changed += bool(ending.changed) and acts
        self.blocked += refuses and acts
        self.would_block += refuses and not acts
        self.failed += ending.failure is not None
        self.asked += ending.decision == "ask" and acts
        self.ms += max(0.0, ending.duration_ms or 0.0)

    def columns(self) -> dict[str, Any]:
        """Return them by the names that they have with a run."""
        return {f"hook_{each.name}": getattr(self, each.name) for each in fields(self)}


COUNTS = tuple(HookCounts().columns())
_REFUSALS = ("block", "fail")


def count_by_run(rows: Iterable[StoredRecord]) -> dict[str, HookCounts]:
    """Count calls of hooks by their runs."""
    found: dict[str, HookCounts] = {}
    for row in rows:
        if row.run_id is not None:
            found.setdefault(row.run_id, HookCounts()).add(row)
    return found


def count_calls(reads: Reads, run_ids: Sequence[str]) -> dict[str, HookCounts]:
    """Count the calls of some runs' hooks by their records."""
    columns = hook_records.c
    acts, shadow = columns.shadow.is_not(True), columns.shadow.is_(True)
    refuses = columns.decision.in_(_REFUSALS)

    def count(*which: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((and_(*which), 1), else_=0))

    query = select(
        columns.run_id,
        func.count(),
        count(columns.changed.is_(True), acts),
        count(refuses, acts),
        count(refuses, shadow),
        count(columns.failure.is_not(None)),
        count(columns.decision == "ask", acts),
        func.sum(func.coalesce(columns.duration_ms, 0.0)),
    ).where(columns.run_id.in_([*run_ids]), columns.point != "", columns.event_type != "hook_start")
    rows = reads.execute(query.group_by(columns.run_id))
    return {run_id: HookCounts(*(each or 0 for each in told)) for run_id, *told in rows}


_SELECT = select_rows(StoredRecord, hook_records)

_SIZED = (hook_records.c.seq, hook_records.c.record, hook_records.c.change)

FEED = ("feed", "")
"""Told whenever there is something new in the sequence."""

_NOTE = PreparedStatement(insert(hook_records).inline())
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


def add(tx: Tx, rows: Sequence[StoredRecord]) -> None:
    """Insert records; a call that has its ending gets no second one.

    Recovery ends the calls of a process that it takes for dead, which may wake up.
    """
    if rows:
        tx.execute(_ADD[tx.dialect.name], [column_values(row) for row in rows])
        _publish(tx)


class _Noted(Protocol):
    """A run, or what has to do with one."""

    @property
    def run_id(self) -> str | None: ...

    @property
    def thread_id(self) -> str | None: ...

    @property
    def owner(self) -> str | None: ...


def note_event(tx: Tx, event_type: str, run: _Noted, **more: Any) -> None:
    """Note what became of a run, or of something of it."""
    now = time.time()
    said = {name: getattr(run, name, None) for name in _NOTED} | more
    told = {"event_type": event_type, "time": now, "timestamp": iso_time(now)}
    told |= {name: _storable_text(value) for name, value in said.items() if value is not None}
    row = {
        "record_id": uuid7(now),
        "event_type": event_type,
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "owner": run.owner,
        "agent_name": told.get("agent_name"),
        "point": "",
        "hook": "",
        "created_at": now,
        "record": told,
    }
    _NOTE.run(tx, row)
    _publish(tx)


def _publish(tx: Tx) -> None:
    if isinstance(tx, Tx):  # and not a connection of somebody who tells nobody
        tx.publish(*FEED)


def _storable_text(value: Any) -> Any:
    """Return a text without halves of surrogate pairs, which JSON cannot hold."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """What of the sequence somebody wants; of all else they are given the numbers alone."""

    types: Sequence[str] = ()
    """Names of events; one that ends with a star is the beginning of some."""
    agent_name: str | None = None

    def condition(self) -> ColumnElement[bool]:
        """Return the SQL condition of what is wanted."""
        columns = hook_records.c
        each = [
            columns.event_type.startswith(name[:-1], autoescape=True)
            if name.endswith("*")
            else columns.event_type == name
            for name in self.types
        ]
        found = or_(*each) if each else true()
        return found if self.agent_name is None else found & (columns.agent_name == self.agent_name)


EVERYTHING = FeedFilter()
_FILTERED = tuple(
    field.name for field in fields(StoredRecord) if field.name in ("record", "change")
)


def load_after(
    reads: Reads,
    seq: int,
    missing: Collection[int],
    limit: int,
    only: FeedFilter = EVERYTHING,
) -> list[StoredRecord]:
    """Return what comes after a number in the sequence, and what was missing before it.

    What is not wanted has an empty record, which is not read: its number has to be known.
    """
    wanted = hook_records.c.seq > seq
    if missing:
        wanted = or_(wanted, hook_records.c.seq.in_([*missing]))
    rows = select(hook_records.c.seq).where(wanted)
    if only == EVERYTHING:
        return _load_page(reads, rows, limit)
    kept = {name: case((only.condition(), hook_records.c[name]), else_=None) for name in _FILTERED}
    found = keys_within_bytes(
        rows, hook_records.c.seq, func.coalesce(kept["record"], "", type_=Text)
    )
    columns = (kept.get(each.name, hook_records.c[each.name]) for each in fields(StoredRecord))
    query = select(*columns).where(hook_records.c.seq.in_(found)).order_by(hook_records.c.seq)
    page = fetch_rows(reads, StoredRecord, query.params(rows=limit, bytes=PAGE_BYTES))
    return [row if row.record is not None else replace(row, event_type="") for row in page]


def _load_page(reads: Reads, wanted: Select[Any], limit: int) -> list[StoredRecord]:
    """Read records in order, a page of bytes at most."""
    found = keys_within_bytes(wanted, *_SIZED)
    query = _SELECT.where(hook_records.c.seq.in_(found)).order_by(hook_records.c.seq)
    return fetch_rows(reads, StoredRecord, query.params(rows=limit, bytes=PAGE_BYTES))


def last_seq(reads: Reads) -> int:
    """Return the last number of the sequence."""
    return int(reads.execute(select(func.max(hook_records.c.seq))).scalar() or 0)


def of_run(reads: Reads, run_id: str, limit: int = 1000, after: int = 0) -> list[StoredRecord]:
    """Return the records of a run after a number, in order; a page of bytes at most."""
    wanted = select(hook_records.c.seq).where(*_is_of_run(run_id), hook_records.c.seq > after)
    return _load_page(reads, wanted, limit)


def _is_of_run(run_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return hook_records.c.run_id == run_id, hook_records.c.point != ""


def summaries_of_run(
    reads: Reads, run_id: str, limit: int = 1000, after: int = 0
) -> list[tuple[int, dict[str, Any]]]:
    """Return the numbers and records of a run after a number, in order, without their values."""
    columns = hook_records.c
    query = select(columns.seq, columns.record).where(*_is_of_run(run_id), columns.seq > after)
    found = reads.execute(query.order_by(columns.seq).limit(limit))
    return [(row.seq, row.record) for row in found]


def find_in_run(reads: Reads, run_id: str, record_id: str) -> StoredRecord | None:
    """Find a record of a run."""
    query = _SELECT.where(*_is_of_run(run_id), hook_records.c.record_id == record_id)
    return fetch_row(reads, StoredRecord, query)


def before_run(reads: Reads, run_id: str) -> list[StoredRecord]:
    """Return the records of a run's admission, in order."""
    query = _SELECT.where(hook_records.c.run_id == run_id, hook_records.c.point == "before_run")
    return fetch_rows(reads, StoredRecord, query.order_by(hook_records.c.seq))


def unfinished_in_run(reads: Reads, run_id: str, worker_id: str | None) -> list[StoredRecord]:
    """Return the starts without an ending of a worker's hook calls for one run."""
    return _find_unfinished(reads, hook_records.c.run_id == run_id, worker_id)


def unfinished_since(reads: Reads, since: float, worker_id: str) -> list[StoredRecord]:
    """Return the starts without an ending of a worker's hook calls, for whatever they were."""
    return _find_unfinished(reads, hook_records.c.created_at > since, worker_id)


def _find_unfinished(
    reads: Reads, which: ColumnElement[bool], worker_id: str | None
) -> list[StoredRecord]:
    start: ColumnElement[str] = literal_column("'hook_start'")  # as the index says it
    ending = hook_records.alias()
    ended = exists(
        select(1).where(ending.c.call_id == hook_records.c.call_id, ending.c.event_type != start)
    )
    query = _SELECT.where(
        which, hook_records.c.worker_id == worker_id, hook_records.c.event_type == start, ~ended
    )
    return fetch_rows(reads, StoredRecord, query.order_by(hook_records.c.seq))


def remove_of_runs(tx: Tx, run_ids: Sequence[str]) -> None:
    """Remove the records of runs."""
    last = _last_to_keep(tx)
    tx.execute(delete(hook_records).where(hook_records.c.run_id.in_([*run_ids])))
    _hold_number(tx, last)


def forget_before(tx: Tx, when: float) -> int:
    """Remove old records."""
    last = _last_to_keep(tx)
    gone = tx.execute(delete(hook_records).where(hook_records.c.created_at < when)).rowcount
    _hold_number(tx, last)
    return gone


def _last_to_keep(tx: Tx) -> int:
    """Return the number that has to stay taken: SQLite would give it away again."""
    return last_seq(tx) if tx.dialect.name == "sqlite" else 0


def _hold_number(tx: Tx, last: int) -> None:
    """Insert an empty record in place of the last one, so that followers miss none."""
    if last and last_seq(tx) < last:
        nothing = dict.fromkeys(("record_id", "event_type", "point", "hook"), "")
        now = time.time()
        tx.execute(insert(hook_records).values(seq=last, created_at=now, record={}, **nothing))
