"""Events of a run: numbered, kept in rows of many, and read again by whoever comes back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import bindparam, delete, func, insert, select

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import PAGE_BYTES, column_values, keys_within_bytes
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import events, runs

MARKS = frozenset(
    {
        "attempt_started",
        "node_started",
        "node_finished",
        "model_started",
        "model_finished",
        "tool_started",
        "tool_finished",
        "approval",
        "error",
        "end",
    }
)
"""The events that say when a step of a run began or ended, which are found without the others."""


class RunEvent:
    """One line of a run's log. `raw` is its data as JSON; either form is made when first read."""

    __slots__ = ("_data", "_raw", "event", "ns", "seq", "time")

    def __init__(
        self,
        seq: int,
        event: str,
        ns: tuple[str, ...] = (),
        data: Any = None,
        raw: bytes | None = None,
        *,
        at: float | None = None,
    ) -> None:
        self.time = time.time() if at is None else at
        self.seq = seq
        self.event = event
        self.ns = ns
        self._data = data
        self._raw = raw

    @property
    def data(self) -> Any:
        """The data of the event."""
        if self._data is None and self._raw is not None:
            self._data = orjson.loads(self._raw)
        return self._data

    @property
    def raw(self) -> bytes:
        """The data as JSON."""
        if self._raw is None:
            self._raw = orjson.dumps(self._data)
        return self._raw

    def __repr__(self) -> str:
        return f"RunEvent({self.seq}, {self.event!r}, {self.ns!r}, {self.data!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunEvent):
            return NotImplemented
        mine = (self.seq, self.event, self.ns, self.data)
        return mine == (other.seq, other.event, other.ns, other.data)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class EventRow:
    """Events of a run that follow each other, as one row."""

    run_id: str
    thread_id: str
    first_seq: int
    last_seq: int
    payload: bytes
    marks: bytes | None = None


ROW_BYTES = 512 * 1024
"""From here on, events go to another row."""

_INSERT = PreparedStatement(insert(events))
_AFTER = keys_within_bytes(
    select(events.c.last_seq).where(
        events.c.run_id == bindparam("run"), events.c.last_seq > bindparam("after")
    ),
    events.c.last_seq,
    events.c.payload,
)
_PAGE = (
    select(events.c.payload)
    .where(events.c.run_id == bindparam("run"), events.c.last_seq.in_(_AFTER))
    .order_by(events.c.last_seq)
)


def rows_of(run_id: str, thread_id: str, batch: Sequence[RunEvent]) -> list[EventRow]:
    """Pack events that follow each other into rows that are not too large to be read one by one."""
    rows, some, size = list[EventRow](), list[RunEvent](), 0
    for event in batch:
        if some and size + len(event.raw) > ROW_BYTES:
            rows.append(row_of(run_id, thread_id, some))
            some, size = [], 0
        some.append(event)
        size += len(event.raw)
    return [*rows, row_of(run_id, thread_id, some)]


def row_of(run_id: str, thread_id: str, batch: Sequence[RunEvent]) -> EventRow:
    """Pack events that follow each other into one row."""
    marks = [event for event in batch if event.event in MARKS]
    return EventRow(
        run_id=run_id,
        thread_id=thread_id,
        first_seq=batch[0].seq,
        last_seq=batch[-1].seq,
        payload=_pack_events(batch),
        marks=_pack_events(marks) if marks else None,
    )


def _pack_events(batch: Sequence[RunEvent]) -> bytes:
    return b"[" + b",".join(map(_pack_event, batch)) + b"]"


def _pack_event(event: RunEvent) -> bytes:
    head = orjson.dumps([event.seq, event.event, event.ns, round(event.time, 6)])
    return head[:-1] + b"," + event.raw + b"]"


def add(tx: Tx, rows: Sequence[EventRow]) -> None:
    """Insert rows of events."""
    for row in rows:
        _INSERT.run(tx, column_values(row))


def append_events(tx: Tx, run_id: str, thread_id: str, told: Sequence[tuple[str, bytes]]) -> int:
    """Store events of a run behind those that it has, and return the last number."""
    first = last_seq(tx, run_id) + 1
    made = [RunEvent(seq, event, raw=raw) for seq, (event, raw) in enumerate(told, first)]
    add(tx, rows_of(run_id, thread_id, made))
    return made[-1].seq


def load_after(
    reads: Reads, run_id: str, seq: int, rows: int = 200, size: int = PAGE_BYTES
) -> list[RunEvent]:
    """Return the next events of a run after a number; an empty list: there are no more yet.

    Rows are read until they have so many bytes: whoever reads slowly holds no more of a run.
    """
    found = reads.execute(_PAGE, {"run": run_id, "after": seq, "rows": rows, "bytes": size})
    return [event for row in found for event in _unpack_events(row.payload) if event.seq > seq]


def _unpack_events(payload: bytes) -> Iterator[RunEvent]:
    for seq, event, ns, at, data in orjson.loads(payload):
        yield RunEvent(seq, event, tuple(ns), data, at=at)


def marks_of_run(reads: Reads, run_id: str) -> list[RunEvent]:
    """Return the events of a run that say when its steps began and ended, in order."""
    query = select(events.c.marks).where(events.c.run_id == run_id, events.c.marks.is_not(None))
    found = reads.execute(query.order_by(events.c.last_seq))
    return [event for row in found for event in _unpack_events(row.marks)]


def last_seq(reads: Reads, run_id: str) -> int:
    """Return the number of the last event of a run that was kept."""
    query = select(func.max(events.c.last_seq)).where(events.c.run_id == run_id)
    return int(reads.execute(query).scalar() or 0)


def stored_bytes(reads: Reads, run_id: str) -> int:
    """Return the size of the events of a run that are kept."""
    query = select(func.sum(func.length(events.c.payload))).where(events.c.run_id == run_id)
    return int(reads.execute(query).scalar() or 0)


def remove_of_runs(tx: Tx, run_ids: Iterable[str]) -> None:
    """Remove the events of runs."""
    tx.execute(delete(events).where(events.c.run_id.in_([*run_ids])))


def forget_ended_before(tx: Tx, when: float, most: int) -> int:
    """Remove the events of some runs that ended long ago, and return of how many."""
    has_events = select(events.c.run_id).where(events.c.run_id == runs.c.run_id).exists()
    query = select(runs.c.run_id).where(runs.c.ended_at < when, has_events).limit(most)
    found = [row.run_id for row in tx.execute(query)]
    if found:
        remove_of_runs(tx, found)
    return len(found)
