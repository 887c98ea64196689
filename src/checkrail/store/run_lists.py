"""Lists of runs: filtered, found by their text, counted; never by what is wide in a row."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Select, and_, func, literal_column, or_, select

from checkrail.store.database import Reads
from checkrail.store.rows import Filters, fetch_rows, json_matches, select_rows
from checkrail.store.runs import Run
from checkrail.store.tables import runs, threads

HOOKS: Mapping[str, ColumnElement[bool]] = {
    name: literal_column(f"runs.hook_{'calls' if name == 'any' else name} > 0", Boolean)
    for name in ("any", "changed", "blocked", "would_block", "failed", "asked")
}
"""What hooks did in a run, word for word as partial indexes have it."""

STATUSES = ("pending", "running", "success", "error", "timeout", "interrupted")
PHASES = (
    *("scheduled", "queued", "starting", "ready", "running", "waiting"),
    *("success", "interrupted", "cancelled", "error", "blocked", "refused", "timeout"),
)
_WINDOW = 2000  # rows whose text is looked at, before the clock is
_ROUNDED = 5e-7  # seconds: times are told to the microsecond
_UNORDERED = 100  # rows that may be stored in another order than they were created in


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; what is empty makes no difference."""

    owner: str | None = None
    filters: Filters | None = None
    metadata: Filters | None = None
    thread_id: str | None = None
    session_id: str | None = None
    parent_run_id: str | None = None
    agent_name: str | None = None
    user_id: str | None = None
    origin: str | None = None
    statuses: Sequence[str] = ()
    phases: Sequence[str] = ()
    hooks: Sequence[str] = ()
    since: float | None = None
    until: float | None = None
    live: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run as lists show it: nothing that it was given, nothing that it came to."""

    seq: int
    run_id: str
    thread_id: str
    session_id: str | None
    parent_run_id: str | None
    agent_name: str
    owner: str | None
    status: str
    phase: str
    blocked_by: str | None
    block_reason: str | None
    error: str | None
    error_type: str | None
    attempt: int
    origin: str
    summary: str | None
    usage: Any
    hook_calls: int
    hook_changed: int
    hook_blocked: int
    hook_would_block: int
    hook_failed: int
    hook_asked: int
    hook_ms: float
    total_tokens: int | None
    cost_usd: float | None
    created_at: float
    updated_at: float
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first, and how far back was looked, if that is not all the way."""

    rows: list[Any] = field(default_factory=list)
    searched_to: float | None = None


_NARROW = select_rows(ListedRun, runs)
_WHOLE = select_rows(Run, runs)


def list_runs(
    reads: Reads,
    wanted: RunFilter,
    *,
    before: int | None = None,
    limit: int = 20,
    narrow: bool = True,
    seconds: float = 0.3,
) -> RunPage:
    """Return runs, the newest first; a search by text stops after some `seconds`."""
    kind: type[Any] = ListedRun if narrow else Run
    query = _apply(reads, _NARROW if narrow else _WHOLE, wanted).order_by(runs.c.seq.desc())
    if not wanted.text:
        if before is not None:
            query = query.where(runs.c.seq < before)
        return RunPage(fetch_rows(reads, kind, query.limit(limit)))
    rows: list[Any] = []
    deadline, low, found = time.monotonic() + seconds, before, True
    while len(rows) < limit and found:
        low, keys = _find_by_text(reads, wanted.text, low)
        found = low is not None
        if keys:
            page = query.where(runs.c.seq.in_(keys)).limit(limit - len(rows))
            rows += fetch_rows(reads, kind, page)
        if found and time.monotonic() > deadline and len(rows) < limit:
            return RunPage(rows, _created_at(reads, low))
    return RunPage(rows)


def _find_by_text(reads: Reads, text: str, before: int | None) -> tuple[int | None, list[int]]:
    """Look at the text of some runs: where to go on from, or None, and those that have it."""
    window = select(runs.c.seq, runs.c.search_text).order_by(runs.c.seq.desc()).limit(_WINDOW)
    window = window.with_hint(runs, "INDEXED BY runs_by_text", "sqlite")
    if before is not None:
        window = window.where(runs.c.seq < before)
    some = window.subquery()
    matches = some.c.search_text.contains(text.casefold(), autoescape=True)
    last, size = reads.execute(select(func.min(some.c.seq), func.count())).one()
    if not size:
        return None, []
    keys = [row.seq for row in reads.execute(select(some.c.seq).where(matches))]
    return (last if size == _WINDOW else None), keys


def _created_at(reads: Reads, seq: int | None) -> float | None:
    return reads.execute(select(runs.c.created_at).where(runs.c.seq == seq)).scalar()


def count_runs(reads: Reads, wanted: RunFilter, most: int) -> int:
    """Count runs up to a number; a text is looked for among all of them."""
    query = _apply(reads, select(runs.c.seq), wanted)
    if wanted.text:
        matches = runs.c.search_text.contains(wanted.text.casefold(), autoescape=True)
        query = query.where(matches)
    some = query.limit(most).subquery()
    return int(reads.execute(select(func.count()).select_from(some)).scalar() or 0)


def _apply(reads: Reads, query: Select[Any], wanted: RunFilter) -> Select[Any]:
    columns = runs.c
    same = {"owner": wanted.owner, "thread_id": wanted.thread_id, "origin": wanted.origin}
    same |= {"session_id": wanted.session_id, "parent_run_id": wanted.parent_run_id}
    same |= {"agent_name": wanted.agent_name}
    query = query.where(*(columns[name] == said for name, said in same.items() if said is not None))
    if wanted.user_id is not None:
        query = query.where(columns.owner == wanted.user_id)
    query = query.where(*_is_one_of(columns.status, wanted.statuses))
    query = query.where(*_is_one_of(columns.phase, wanted.phases))
    if wanted.hooks:
        query = query.where(or_(*(HOOKS[name] for name in wanted.hooks)))
    if wanted.live:
        query = query.where(columns.ended_at.is_(None))
    query = query.where(*_is_between(wanted.since, wanted.until))
    if wanted.metadata:
        query = query.where(json_matches(reads, columns.metadata, wanted.metadata))
    if wanted.filters:  # of an auth handler: they are about threads
        query = query.outerjoin(threads, threads.c.thread_id == columns.thread_id)
        told = func.coalesce(threads.c.metadata, columns.metadata)
        query = query.where(json_matches(reads, told, wanted.filters))
    return query


def _is_one_of(column: Any, values: Sequence[str]) -> list[ColumnElement[bool]]:
    if not values:
        return []
    return [column == values[0] if len(values) == 1 else column.in_([*values])]


def _is_between(since: float | None, until: float | None) -> list[ColumnElement[bool]]:
    """Return the condition that runs were created in a time, with a bound for their numbers."""
    found: list[ColumnElement[bool]] = []
    if since is not None:
        soon = runs.c.created_at >= since - _ROUNDED
        first = select(runs.c.seq).where(soon).order_by(runs.c.created_at).limit(_UNORDERED)
        lowest = select(func.min(first.subquery().c.seq)).scalar_subquery()
        found += [and_(soon, runs.c.seq >= lowest)]
    if until is not None:
        found.append(runs.c.created_at < until - _ROUNDED)
    return found
