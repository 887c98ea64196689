"""Roll-ups: what runs and hooks came to in each minute and hour, one row a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import column_values, fetch_rows, select_rows
from checkrail.store.tables import rollups

RUN, HOOK = "run", "hook"
MINUTE, HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Rollup:
    """Figures of one process for a time that begins at a moment and lasts some seconds."""

    seconds: int
    moment: float
    kind: str
    name: str
    agent_name: str
    owner: str
    writer_id: str
    figures: Any


_SELECT = select_rows(Rollup, rollups)
_KEY = [column.name for column in rollups.primary_key.columns]


def put(tx: Tx, rows: Sequence[Rollup]) -> None:
    """Store figures in place of those that their process stored before."""
    if not rows:
        return
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(rollups)
    query = query.on_conflict_do_update(
        index_elements=_KEY, set_={"figures": query.excluded.figures}
    )
    tx.execute(query, [column_values(row) for row in rows])


def load(
    reads: Reads,
    kind: str,
    seconds: int,
    since: float,
    *,
    owner: str | None = None,
    agent_name: str | None = None,
) -> list[Rollup]:
    """Return the figures of a kind since a moment."""
    columns = rollups.c
    query = _SELECT.where(columns.kind == kind, columns.seconds == seconds, columns.moment >= since)
    if owner is not None:
        query = query.where(columns.owner == owner)
    if agent_name is not None:
        query = query.where(columns.agent_name == agent_name)
    return fetch_rows(reads, Rollup, query.order_by(columns.moment))


def forget_before(tx: Tx, seconds: int, when: float) -> None:
    """Remove old figures."""
    tx.execute(delete(rollups).where(rollups.c.seconds == seconds, rollups.c.moment < when))
