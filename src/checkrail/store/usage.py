"""What owners have in the database; each question has an index, and stops where it is enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Select, Table, func, select, union_all

from checkrail.store.database import Reads
from checkrail.store.tables import agents, assistants, crons, runs, store_items, threads

_COUNTED = (runs, threads, assistants, agents, crons, store_items)


def count_live_runs(reads: Reads, owner: str, most: int) -> int:
    """Count the runs of an owner that have not ended, up to a number."""
    return _count_up_to(
        reads, select(1).where(runs.c.owner == owner, runs.c.ended_at.is_(None)), most
    )


def count_threads(reads: Reads, owner: str, most: int) -> int:
    """Count the threads of an owner, up to a number."""
    return _count_up_to(reads, select(1).where(threads.c.owner == owner), most)


def count_crons(reads: Reads, owner: str, most: int) -> int:
    """Count the crons of an owner, up to a number."""
    return _count_up_to(reads, select(1).where(crons.c.owner == owner), most)


def sum_stored_bytes(reads: Reads, owner: str, most: int) -> int:  # noqa: ARG001 - as the others
    """Sum what is stored of an owner: with runs, threads, assistants, agents, crons and items."""
    sums = union_all(*(_sum_bytes(table, owner) for table in _COUNTED)).subquery()
    return int(reads.execute(select(func.sum(sums.c.stored))).scalar() or 0)


def _sum_bytes(table: Table, owner: str) -> Select[tuple[int]]:
    size = table.c.stored_bytes
    return select(func.sum(size).label("stored")).where(table.c.owner == owner, size.is_not(None))


def _count_up_to(reads: Reads, rows: Select[tuple[int]], most: int) -> int:
    some = rows.limit(most).subquery()
    return int(reads.execute(select(func.count()).select_from(some)).scalar() or 0)


COUNT: Mapping[str, Callable[[Reads, str, int], int]] = {
    "live_runs": count_live_runs,
    "threads": count_threads,
    "crons": count_crons,
    "stored_bytes": sum_stored_bytes,
}
"""How much of each kind an owner has."""
