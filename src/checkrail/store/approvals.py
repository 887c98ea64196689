"""Approvals: questions that hooks put to people, and what was answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import delete, exists, func, insert, or_, select, update

from checkrail.store import records
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import (
    Filters,
    column_values,
    fetch_row,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.tables import ASKED, approvals, messages, runs, threads


@dataclass(frozen=True, slots=True)
class Approval:
    """A hook's question to people about a value, and what was answered."""

    approval_id: str
    point: str
    hook: str
    question: str
    digest: str
    status: str
    on_timeout: str
    created_at: float
    run_id: str | None = None
    """None: a call of the gateway waits for the answer, by its `request_id`."""
    thread_id: str | None = None
    agent_name: str | None = None
    request_id: str | None = None
    held_until: float | None = None
    session_id: str | None = None
    owner: str | None = None
    value: Any = None
    edited: Any = None
    reason: str | None = None
    answered_by: str | None = None
    answered_at: float | None = None
    expires_at: float | None = None
    used_at: float | None = None
    posted: Any = None


_SELECT = select_rows(Approval, approvals)

_NOTED = ("approval_id", "point", "hook", "question", "expires_at", "answered_by", "reason")

OF_GATEWAY = approvals.c.run_id.is_(None)

ANSWERED = ("approved", "denied", "expired")
"""What became of a question that was not withdrawn."""


def add(tx: Tx, row: Approval) -> None:
    """Insert a new question."""
    tx.execute(insert(approvals), column_values(row))
    note_event(tx, "approval_asked", row)


def note_event(tx: Tx, event_type: str, row: Approval) -> None:
    """Note what became of a question, for whoever follows everything."""
    records.note_event(tx, event_type, row, **{name: getattr(row, name) for name in _NOTED})


def get(reads: Reads, approval_id: str) -> Approval | None:
    """Find a question."""
    return fetch_row(reads, Approval, _SELECT.where(approvals.c.approval_id == approval_id))


def status_of(reads: Reads, approval_id: str) -> str | None:
    """Return the status of a question, without its value, which may be large."""
    query = select(approvals.c.status).where(approvals.c.approval_id == approval_id)
    found: str | None = reads.execute(query).scalar()
    return found


def of_run(reads: Reads, run_id: str) -> list[Approval]:
    """Return the questions of a run, the oldest first."""
    query = _SELECT.where(approvals.c.run_id == run_id)
    return fetch_rows(
        reads, Approval, query.order_by(approvals.c.created_at, approvals.c.approval_id)
    )


def open_of_request(reads: Reads, request_id: str) -> list[str]:
    """Return the questions that are open about a call of the gateway, or a message."""
    query = select(approvals.c.approval_id).where(ASKED, approvals.c.request_id == request_id)
    return [row.approval_id for row in reads.execute(query.order_by(approvals.c.created_at))]


def find_answered(reads: Reads, run_id: str) -> list[Approval]:
    """Return the questions of a run that somebody has answered, or that are expired."""
    query = _SELECT.where(approvals.c.run_id == run_id, approvals.c.status.in_(ANSWERED))
    return fetch_rows(reads, Approval, query)


def find_same(reads: Reads, asked: Approval, but: Collection[str] = ()) -> Approval | None:
    """Return the same hook's question about this very value, if its answer is not used up."""
    whose = approvals.c.run_id == asked.run_id
    if asked.run_id is None:
        whose = approvals.c.request_id == asked.request_id
    query = _SELECT.where(
        whose,
        approvals.c.point == asked.point,
        approvals.c.hook == asked.hook,
        approvals.c.digest == asked.digest,
        approvals.c.status != "void",
        approvals.c.used_at.is_(None),
    ).order_by(approvals.c.created_at, approvals.c.approval_id)
    return next(
        (row for row in fetch_rows(reads, Approval, query) if row.approval_id not in but), None
    )


def search(
    reads: Reads,
    *,
    owner: str | None = None,
    own: str | None = None,
    status: str | None = None,
    run_id: str | None = None,
    filters: Filters | None = None,
    before: Approval | None = None,
    limit: int = 20,
) -> list[Approval]:
    """Return questions, the newest first.

    No filter matches those of the gateway, which have no metadata: there are only those that are
    one's `own`.
    """
    query = _SELECT.order_by(approvals.c.created_at.desc(), approvals.c.approval_id.desc())
    same = {"owner": owner, "run_id": run_id, "status": status}
    query = _apply_filters(reads, query, same, filters, own)
    if before is not None:
        at, last = before.created_at, before.approval_id
        earlier = (approvals.c.created_at == at) & (approvals.c.approval_id < last)
        query = query.where(or_(approvals.c.created_at < at, earlier))
    return fetch_rows(reads, Approval, query.limit(limit))


def count(
    reads: Reads,
    most: int,
    *,
    owner: str | None = None,
    own: str | None = None,
    status: str | None = None,
    filters: Filters | None = None,
) -> int:
    """Count questions up to a number."""
    query = select(approvals.c.approval_id).limit(most)
    same = {"owner": owner, "status": status}
    some = _apply_filters(reads, query, same, filters, own).subquery()
    return int(reads.execute(select(func.count()).select_from(some)).scalar() or 0)


def _apply_filters(
    reads: Reads,
    query: Any,
    same: Mapping[str, str | None],
    filters: Filters | None,
    own: str | None,
) -> Any:
    for column, value in same.items():
        if value is not None:
            query = query.where(approvals.c[column] == value)
    if same["status"] == "open":
        query = query.where(ASKED)
    if filters:  # of an auth handler: they are about threads
        query = query.outerjoin(runs, runs.c.run_id == approvals.c.run_id)
        query = query.outerjoin(threads, threads.c.thread_id == approvals.c.thread_id)
        told = func.coalesce(threads.c.metadata, runs.c.metadata)
        matching = runs.c.run_id.is_not(None) & json_matches(reads, told, filters)
        query = query.where(or_(matching, OF_GATEWAY & (approvals.c.owner == own)))
    return query


def store_answer(tx: Tx, approval_id: str, now: float, /, **values: Any) -> bool:
    """Store an answer; False: there is one already, or it comes too late."""
    query = update(approvals).where(
        approvals.c.approval_id == approval_id,
        ASKED,
        or_(approvals.c.expires_at.is_(None), approvals.c.expires_at > now),
        or_(approvals.c.held_until.is_(None), approvals.c.held_until > now),
    )
    return bool(tx.execute(query.values(answered_at=now, **values)).rowcount)


def note_posted(tx: Tx, approval_id: str, posted: Any) -> bool:
    """Note where an open question stands on a channel; False: it is not open any more."""
    query = update(approvals).where(approvals.c.approval_id == approval_id, ASKED)
    return bool(tx.execute(query.values(posted=posted)).rowcount)


def hold_until(tx: Tx, approval_id: str, when: float) -> None:
    """Note how long a call of the gateway waits for an answer, unless its process says more."""
    query = update(approvals).where(approvals.c.approval_id == approval_id, ASKED)
    tx.execute(query.values(held_until=when))


def withdraw(tx: Tx, approval_id: str) -> bool:
    """Withdraw a question that nobody has answered."""
    query = update(approvals).where(approvals.c.approval_id == approval_id, ASKED)
    return bool(tx.execute(query.values(status="void")).rowcount)


def void_unheld(tx: Tx, now: float) -> int:
    """Withdraw the questions of calls for whose answers nobody waits any more."""
    query = update(approvals).where(
        ASKED, approvals.c.held_until.is_not(None), approvals.c.held_until <= now
    )
    return tx.execute(query.values(status="void")).rowcount


def forget_of_gateway(tx: Tx, when: float) -> None:
    """Remove old questions of the gateway and of messages, which are over."""
    is_over = approvals.c.status != "open"
    goes_on = exists().where(
        messages.c.message_id == approvals.c.request_id, messages.c.ended_at.is_(None)
    )
    query = delete(approvals).where(OF_GATEWAY, is_over, approvals.c.created_at < when, ~goes_on)
    tx.execute(query)


def mark_expired(tx: Tx, approval_id: str, now: float) -> bool:
    """Note that nobody has answered in time; False: somebody has."""
    query = update(approvals).where(
        approvals.c.approval_id == approval_id, ASKED, approvals.c.expires_at <= now
    )
    return bool(tx.execute(query.values(status="expired", answered_at=now)).rowcount)


def use_answers(tx: Tx, approval_ids: Sequence[str], now: float) -> int:
    """Mark answers as used, each of them once, and return how many were."""
    if not approval_ids:
        return 0
    query = update(approvals).where(
        approvals.c.approval_id.in_([*approval_ids]),
        approvals.c.status.in_(ANSWERED),
        approvals.c.used_at.is_(None),
    )
    return tx.execute(query.values(used_at=now)).rowcount


def void_open(
    tx: Tx, run_ids: Iterable[str] = (), request_ids: Iterable[str] = ()
) -> list[Approval]:
    """Withdraw the open questions of runs and messages; return those that stand on a channel."""
    of_run, of_request = approvals.c.run_id.in_([*run_ids]), approvals.c.request_id
    return _void(tx, or_(of_run, of_request.in_([*request_ids])), ASKED)


def void_others(tx: Tx, row: Approval) -> list[Approval]:
    """Withdraw the same hook's questions of the same run about other values.

    Return those that are open, and stand on a channel.
    """
    return _void(
        tx,
        approvals.c.run_id == row.run_id,
        approvals.c.point == row.point,
        approvals.c.hook == row.hook,
        approvals.c.digest != row.digest,
        approvals.c.used_at.is_(None),
        approvals.c.status != "void",
    )


def _void(tx: Tx, *which: Any) -> list[Approval]:
    on_channel = _SELECT.where(*which, ASKED, approvals.c.posted.is_not(None))
    posted = fetch_rows(tx, Approval, on_channel)
    tx.execute(update(approvals).where(*which).values(status="void"))
    return [replace(row, status="void") for row in posted]


def find_due(reads: Reads, now: float, most: int = 100) -> list[Approval]:
    """Return questions whose time is over."""
    query = _SELECT.where(ASKED, approvals.c.expires_at <= now)
    return fetch_rows(reads, Approval, query.order_by(approvals.c.expires_at).limit(most))


def next_due(reads: Reads) -> float | None:
    """Return when the time of the next question is over."""
    query = select(func.min(approvals.c.expires_at)).where(
        ASKED, approvals.c.expires_at.is_not(None)
    )
    return reads.execute(query).scalar()


def remove_of_runs(tx: Tx, run_ids: Sequence[str]) -> None:
    """Remove the questions of runs."""
    tx.execute(delete(approvals).where(approvals.c.run_id.in_([*run_ids])))
