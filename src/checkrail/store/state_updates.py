"""States of threads that were written by hand, each kept as the event that tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, select, tuple_

from checkrail.store import threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import PAGE_BYTES, keys_within_bytes
from checkrail.store.tables import state_updates
from checkrail.store.threads import Thread

_PAGE_ROWS = 200
_AFTER = keys_within_bytes(
    select(state_updates.c.number).where(
        state_updates.c.thread_id == bindparam("thread"),
        state_updates.c.number > bindparam("number"),
        state_updates.c.after_seq >= bindparam("seq"),
        state_updates.c.after_seq <= bindparam("until"),
    ),
    state_updates.c.number,
    state_updates.c.payload,
)
_PAGE = (
    select(state_updates.c.after_seq, state_updates.c.number, state_updates.c.payload)
    .where(state_updates.c.thread_id == bindparam("thread"), state_updates.c.number.in_(_AFTER))
    .order_by(state_updates.c.number)
)
_ANY_SEQ = 2**62


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A state that was written after the event `after_seq` of a thread; `payload` is JSON."""

    after_seq: int
    number: int
    payload: bytes


def add(tx: Tx, thread: Thread, payload: bytes) -> None:
    """Keep a state that was written to a thread, whose row is locked.

    Nothing is counted for its owner: the request that wrote it was counted as the whole state.
    """
    thread_id, number = thread.thread_id, thread.states_written + 1
    threads.update_thread(tx, thread_id, states_written=number)
    row = {"thread_id": thread_id, "number": number, "after_seq": thread.last_seq}
    tx.execute(insert(state_updates), {**row, "payload": payload, "created_at": tx.time()})


def after(
    reads: Reads, thread_id: str, seq: int, number: int, until: int | None = None
) -> list[StateUpdate]:
    """Return the next states of a thread after an event and a state, up to those of an event."""
    asked = {"thread": thread_id, "seq": seq, "number": number}
    limits = {"until": _ANY_SEQ if until is None else until, "rows": _PAGE_ROWS}
    found = reads.execute(_PAGE, {**asked, **limits, "bytes": PAGE_BYTES})
    return [StateUpdate(row.after_seq, row.number, row.payload) for row in found]


def forget(tx: Tx, thread_ids: Sequence[str]) -> None:
    """Remove the states of threads that are removed, too."""
    tx.execute(delete(state_updates).where(state_updates.c.thread_id.in_([*thread_ids])))


def forget_before(tx: Tx, when: float, most: int) -> int:
    """Remove some of the states that are older, and return how many."""
    key = tuple_(state_updates.c.thread_id, state_updates.c.number)
    old = select(state_updates.c.thread_id, state_updates.c.number)
    some = old.where(state_updates.c.created_at < when).limit(most)
    return tx.execute(delete(state_updates).where(key.in_(some))).rowcount
