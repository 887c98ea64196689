"""Calls of models through the gateway: whose they were, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Select,
    Text,
    case,
    cast,
    delete,
    desc,
    func,
    insert,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB

from checkrail.llm.call_record import CallRecord
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import column_values, fetch_row, fetch_rows, select_rows
from checkrail.store.tables import gateway_calls

_SELECT = select_rows(CallRecord, gateway_calls)
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls are wanted; what is None makes no difference."""

    owner: str | None = None
    key: str | None = None
    user_id: str | None = None
    model: str | None = None
    """The name that was asked for, or the one that answered."""
    status: int | None = None
    since: float | None = None
    decision: str | None = None


def add(tx: Tx, rows: Sequence[CallRecord]) -> None:
    """Insert calls that are over."""
    tx.execute(insert(gateway_calls), [column_values(row) for row in rows])


def get(reads: Reads, call_id: str) -> CallRecord | None:
    """Find a call."""
    return fetch_row(reads, CallRecord, _SELECT.where(gateway_calls.c.call_id == call_id))


def search(
    reads: Reads, wanted: CallFilter, *, before: CallRecord | None = None, limit: int = 20
) -> list[CallRecord]:
    """Return calls, the newest first."""
    columns = gateway_calls.c
    query = _apply_filter(_SELECT, wanted)
    if before is not None:
        at, last = before.created_at, before.call_id
        earlier = (columns.created_at == at) & (columns.call_id < last)
        query = query.where(or_(columns.created_at < at, earlier))
    ordered = query.order_by(columns.created_at.desc(), columns.call_id.desc())
    return fetch_rows(reads, CallRecord, ordered.limit(limit))


def _apply_filter(query: Select[Any], wanted: CallFilter) -> Select[Any]:
    columns = gateway_calls.c
    for name in ("owner", "key", "user_id", "status", "decision"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(columns[name] == value)
    if wanted.model is not None:
        query = query.where(
            or_(columns.model == wanted.model, columns.answered_model == wanted.model)
        )
    if wanted.since is not None:
        query = query.where(columns.created_at >= wanted.since)
    return query


@dataclass(frozen=True, slots=True)
class CallFigures:
    """Calls of one key, user or model: how many, their tokens and cost, and what was refused."""

    name: str | None
    calls: int
    tokens: int
    cost: float | None
    blocked: int
    failed: int


def sum_calls(reads: Reads, wanted: CallFilter, by: str, most: int = 100) -> list[CallFigures]:
    """Return the figures of calls by a column, those with the most calls first."""
    columns = gateway_calls.c
    name = {"key": columns.key, "user": columns.user_id, "model": columns.model}[by]
    refused = columns.decision.in_(("block", "fail"))
    query = select(
        name,
        func.count().label("calls"),
        func.coalesce(func.sum(_tokens(reads)), 0),
        func.sum(columns.cost),
        func.sum(case((refused, 1), else_=0)),
        func.sum(case((columns.status >= 400, 1), else_=0)),
    )
    found = reads.execute(
        _apply_filter(query, wanted).group_by(name).order_by(desc("calls")).limit(most)
    )
    return [CallFigures(row[0], row[1], int(row[2]), *row[3:]) for row in found]


def _tokens(reads: Reads) -> ColumnElement[int]:
    """Return the tokens of a call, in all or as the sum of what came in and went out."""

    def read(name: str) -> ColumnElement[int]:
        if reads.dialect.name == "postgresql":
            told = cast(type_coerce(gateway_calls.c.usage, Text), JSONB)[name].astext
        else:
            told = func.json_extract(type_coerce(gateway_calls.c.usage, Text), f"$.{name}")
        return cast(cast(told, Double), BigInteger)

    parts = [func.coalesce(read(name), 0) for name in ("input_tokens", "output_tokens")]
    return func.coalesce(read("total_tokens"), parts[0] + parts[1])


def forget_before(tx: Tx, when: float) -> int:
    """Remove some old calls, and return how many there were."""
    old = select(gateway_calls.c.call_id).where(gateway_calls.c.created_at < when)
    query = delete(gateway_calls).where(gateway_calls.c.call_id.in_(old.limit(_AT_ONCE)))
    return tx.execute(query).rowcount
