"""Assistants: agents with settings of their own, in versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.prepared import Prepared
from checkrail.store.rows import Filters, Page, Row, all_of, contains, holds, one_of, paged
from checkrail.store.tables import assistant_versions, assistants

SORTS = ("assistant_id", "graph_id", "name", "created_at", "updated_at")
VERSIONED = ("graph_id", "name", "description", "config", "context", "metadata")

_FIND = select(assistants).where(assistants.c.assistant_id == bindparam("id"))
_GET = Prepared(_FIND)


def add(tx: Tx, row: Mapping[str, Any]) -> bool:
    """Keep a new assistant and its first version; False: there is one of that id already."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(assistants).on_conflict_do_nothing(index_elements=["assistant_id"])
    if tx.execute(query.returning(assistants.c.assistant_id), dict(row)).first() is None:
        return False
    _add_version(tx, row, row["version"], row["created_at"])
    return True


def get(reads: Reads, assistant_id: str) -> Row | None:
    """Find an assistant."""
    return _GET.row(reads, {"id": assistant_id})


def lock(tx: Tx, assistant_id: str) -> Row | None:
    """Find an assistant that is about to be changed."""
    return one_of(tx, _FIND.with_for_update(), {"id": assistant_id})


def revise(tx: Tx, row: Row, now: float) -> Row:
    """Keep a changed assistant as its newest version."""
    query = select(func.max(assistant_versions.c.version)).where(
        assistant_versions.c.assistant_id == row["assistant_id"]
    )
    version = (tx.execute(query).scalar() or 0) + 1
    _add_version(tx, row, version, now)
    return use(tx, row, version, now)


def use(tx: Tx, row: Row, version: int, now: float) -> Row:
    """Make an assistant what one of its versions says."""
    changed = {**row, "version": version, "updated_at": now}
    values = {name: changed[name] for name in (*VERSIONED, "version", "updated_at", "stored_bytes")}
    query = update(assistants).where(assistants.c.assistant_id == row["assistant_id"])
    tx.execute(query.values(**values))
    return changed


def describe(tx: Tx, assistant_id: str, description: str | None, now: float) -> None:
    """Change what the first version of an assistant says of itself."""
    first = update(assistant_versions).where(
        assistant_versions.c.assistant_id == assistant_id, assistant_versions.c.version == 1
    )
    tx.execute(first.values(description=description))
    own = update(assistants).where(assistants.c.assistant_id == assistant_id)
    tx.execute(own.values(description=description, updated_at=now))


def _add_version(tx: Tx, row: Mapping[str, Any], version: int, now: float) -> None:
    values = {name: row.get(name) for name in VERSIONED}
    own = {"assistant_id": row["assistant_id"], "version": version, "created_at": now}
    tx.execute(insert(assistant_versions).values(**values, **own))


def version(reads: Reads, assistant_id: str, number: int) -> Row | None:
    """Find one version of an assistant."""
    query = select(assistant_versions).where(
        assistant_versions.c.assistant_id == assistant_id,
        assistant_versions.c.version == number,
    )
    return one_of(reads, query)


def versions(
    reads: Reads,
    assistant_id: str,
    metadata: Filters | None = None,
    limit: int = 10,
    offset: int = 0,
) -> list[Row]:
    """Return the versions of an assistant, the newest first."""
    query = select(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id)
    if metadata:
        query = query.where(contains(reads, assistant_versions.c.metadata, metadata))
    newest = query.order_by(assistant_versions.c.version.desc())
    return all_of(reads, newest.limit(limit).offset(offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which assistants; `filters` are what the caller may see, in the words of metadata."""

    owner: str | None = None
    graph_id: str | None = None
    name: str | None = None
    metadata: Filters | None = None
    filters: Filters | None = None


def _matching(reads: Reads, query: Select[Any], wanted: Wanted) -> Select[Any]:
    if wanted.owner is not None:  # those of the server itself are everybody's
        own = assistants.c.owner == wanted.owner
        query = query.where(own | assistants.c.owner.is_(None))
    if wanted.graph_id is not None:
        query = query.where(assistants.c.graph_id == wanted.graph_id)
    if wanted.name is not None:
        query = query.where(assistants.c.name.icontains(wanted.name, autoescape=True))
    if wanted.metadata:
        query = query.where(contains(reads, assistants.c.metadata, wanted.metadata))
    if wanted.filters:
        query = query.where(holds(reads, assistants.c.metadata, wanted.filters))
    return query


def search(reads: Reads, wanted: Wanted, page: Page) -> list[Row]:
    """Return a page of assistants, sorted by one of `SORTS`."""
    query = _matching(reads, select(assistants), wanted)
    return all_of(reads, paged(query, assistants, page, "assistant_id"))


def count(reads: Reads, wanted: Wanted) -> int:
    """Count assistants."""
    query = _matching(reads, select(func.count()).select_from(assistants), wanted)
    return int(reads.execute(query).scalar_one())


def remove(tx: Tx, assistant_id: str) -> bool:
    """Remove an assistant with all its versions."""
    tx.execute(delete(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id))
    gone = tx.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id))
    return bool(gone.rowcount)
