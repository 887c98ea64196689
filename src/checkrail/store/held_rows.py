"""Rows that workers hold while they are at work on them: messages, deliveries and crons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, Table, or_, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import fetch_rows, select_rows
from checkrail.store.tables import workers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldRows(Generic[T]):
    """The rows of a table that has a `worker_id`, and the name of the column with their ids."""

    kind: type[T]
    table: Table
    id_name: str

    def claim(self, tx: Tx, query: Select[Any], most: int, worker_id: str) -> list[T]:
        """Take rows of a query that `select_rows` began; those that others take now are left."""
        found = self._lock_rows(tx, query, most)
        if found:
            ids = [getattr(each, self.id_name) for each in found]
            taken = update(self.table).where(self.table.c[self.id_name].in_(ids))
            tx.execute(taken.values(worker_id=worker_id))
        return found

    def find_orphans(self, tx: Tx, dead: Sequence[str], but: str, most: int = 100) -> list[T]:
        """Return the rows of workers that are `dead` or gone; `but` one that asks is not."""
        holder = self.table.c.worker_id
        query = select_rows(self.kind, self.table).where(
            holder.is_not(None),
            holder != but,
            or_(holder.in_([*dead]), holder.not_in(select(workers.c.worker_id))),
        )
        return self._lock_rows(tx, query, most)

    def held_ids(self, reads: Reads, worker_id: str) -> list[str]:
        """Return the ids of the rows that a worker holds."""
        query = select(self.table.c[self.id_name]).where(self.table.c.worker_id == worker_id)
        return [*reads.execute(query).scalars()]

    def release_held(self, tx: Tx, worker_id: str, only: Sequence[str] | None = None) -> None:
        """Free what a worker holds, all of it or some."""
        query = update(self.table).where(self.table.c.worker_id == worker_id)
        if only is not None:
            query = query.where(self.table.c[self.id_name].in_([*only]))
        tx.execute(query.values(worker_id=None))

    def _lock_rows(self, tx: Tx, query: Select[Any], most: int) -> list[T]:
        return fetch_rows(tx, self.kind, query.limit(most).with_for_update(skip_locked=True))
