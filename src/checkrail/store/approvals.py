"""Approvals: questions that hooks put to people, and what was answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update

from checkrail.store import records
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Filters, Row, all_of, holds, one_of
from checkrail.store.tables import ASKED, approvals, runs, threads

_NOTED = ("approval_id", "point", "hook", "question", "expires_at", "answered_by", "reason")

ANSWERED = ("approved", "denied", "expired")
"""What became of a question that was not withdrawn."""


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep a new question."""
    tx.execute(insert(approvals), dict(row))
    note(tx, "approval_asked", row)


def note(tx: Tx, event_type: str, row: Mapping[str, Any]) -> None:
    """Note what became of a question, for whoever follows everything."""
    records.note(tx, event_type, row, **{name: row.get(name) for name in _NOTED})


def get(reads: Reads, approval_id: str) -> Row | None:
    """Find a question."""
    return one_of(reads, select(approvals).where(approvals.c.approval_id == approval_id))


def of_run(reads: Reads, run_id: str) -> list[Row]:
    """Return the questions of a run, the oldest first."""
    query = select(approvals).where(approvals.c.run_id == run_id)
    return all_of(reads, query.order_by(approvals.c.created_at, approvals.c.approval_id))


def answered(reads: Reads, run_id: str) -> list[Row]:
    """Return the questions of a run that somebody has answered, or that are expired."""
    query = select(approvals).where(approvals.c.run_id == run_id, approvals.c.status.in_(ANSWERED))
    return all_of(reads, query)


def find(reads: Reads, asked: Mapping[str, Any], but: Collection[str] = ()) -> Row | None:
    """Find what the same hook has asked of this very value before, if it is not used up."""
    query = (
        select(approvals)
        .where(
            approvals.c.run_id == asked["run_id"],
            approvals.c.point == asked["point"],
            approvals.c.hook == asked["hook"],
            approvals.c.digest == asked["digest"],
            approvals.c.status != "void",
            approvals.c.used_at.is_(None),
        )
        .order_by(approvals.c.created_at, approvals.c.approval_id)
    )
    return next((row for row in all_of(reads, query) if row["approval_id"] not in but), None)


def search(
    reads: Reads,
    *,
    owner: str | None = None,
    status: str | None = None,
    run_id: str | None = None,
    filters: Filters | None = None,
    before: Row | None = None,
    limit: int = 20,
) -> list[Row]:
    """Give questions, the newest first."""
    query = select(approvals).order_by(
        approvals.c.created_at.desc(), approvals.c.approval_id.desc()
    )
    for column, value in (("owner", owner), ("run_id", run_id), ("status", status)):
        if value is not None:
            query = query.where(approvals.c[column] == value)
    if status == "open":
        query = query.where(ASKED)
    if filters:  # of an auth handler: they are about threads
        query = query.join(runs, runs.c.run_id == approvals.c.run_id)
        query = query.outerjoin(threads, threads.c.thread_id == approvals.c.thread_id)
        told = func.coalesce(threads.c.metadata, runs.c.metadata)
        query = query.where(holds(reads, told, filters))
    if before is not None:
        at, last = before["created_at"], before["approval_id"]
        earlier = (approvals.c.created_at == at) & (approvals.c.approval_id < last)
        query = query.where(or_(approvals.c.created_at < at, earlier))
    return all_of(reads, query.limit(limit))


def answer(tx: Tx, approval_id: str, now: float, /, **values: Any) -> bool:
    """Keep an answer; False: there is one already, or it comes too late."""
    query = update(approvals).where(
        approvals.c.approval_id == approval_id,
        ASKED,
        or_(approvals.c.expires_at.is_(None), approvals.c.expires_at > now),
    )
    return bool(tx.execute(query.values(answered_at=now, **values)).rowcount)


def expire(tx: Tx, approval_id: str, now: float) -> bool:
    """Note that nobody has answered in time; False: somebody has."""
    query = update(approvals).where(
        approvals.c.approval_id == approval_id, ASKED, approvals.c.expires_at <= now
    )
    return bool(tx.execute(query.values(status="expired", answered_at=now)).rowcount)


def use(tx: Tx, approval_ids: Sequence[str], now: float) -> int:
    """Make use of answers, each of them once, and say of how many."""
    if not approval_ids:
        return 0
    query = update(approvals).where(
        approvals.c.approval_id.in_([*approval_ids]),
        approvals.c.status.in_(ANSWERED),
        approvals.c.used_at.is_(None),
    )
    return tx.execute(query.values(used_at=now)).rowcount


def void_open(tx: Tx, run_id: str) -> None:
    """Withdraw the questions of a run that nobody has answered."""
    query = update(approvals).where(approvals.c.run_id == run_id, ASKED)
    tx.execute(query.values(status="void"))


def void_others(tx: Tx, row: Mapping[str, Any]) -> None:
    """Withdraw what the same hook of the same run has asked of other values."""
    query = update(approvals).where(
        approvals.c.run_id == row["run_id"],
        approvals.c.point == row["point"],
        approvals.c.hook == row["hook"],
        approvals.c.digest != row["digest"],
        approvals.c.used_at.is_(None),
        approvals.c.status != "void",
    )
    tx.execute(query.values(status="void"))


def due(reads: Reads, now: float, most: int = 100) -> list[Row]:
    """Give questions whose time is over."""
    query = select(approvals).where(ASKED, approvals.c.expires_at <= now)
    return all_of(reads, query.order_by(approvals.c.expires_at).limit(most))


def next_due(reads: Reads) -> float | None:
    """Tell when the time of the next question is over."""
    query = select(func.min(approvals.c.expires_at)).where(
        ASKED, approvals.c.expires_at.is_not(None)
    )
    return reads.execute(query).scalar()


def forget(tx: Tx, run_ids: Sequence[str]) -> None:
    """Remove the questions of runs."""
    tx.execute(delete(approvals).where(approvals.c.run_id.in_([*run_ids])))
