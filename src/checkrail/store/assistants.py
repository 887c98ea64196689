"""Assistants: agents with settings of their own, in versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import (
    Filters,
    Page,
    apply_page,
    column_values,
    contains_json,
    fetch_row,
    fetch_rows,
    json_matches,
    select_rows,
)
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import assistant_versions, assistants


@dataclass(frozen=True, slots=True)
class Assistant:
    """An agent with settings of its own; those of the server itself have no owner."""

    assistant_id: str
    graph_id: str
    name: str
    config: Any
    context: Any
    metadata: dict[str, Any]
    version: int
    created_at: float
    updated_at: float
    owner: str | None = None
    description: str | None = None
    stored_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AssistantVersion:
    """One version of an assistant."""

    assistant_id: str
    version: int
    graph_id: str
    name: str
    config: Any
    context: Any
    metadata: dict[str, Any]
    created_at: float
    description: str | None = None


_SELECT = select_rows(Assistant, assistants)
_SELECT_VERSION = select_rows(AssistantVersion, assistant_versions)

SORTS = ("assistant_id", "graph_id", "name", "created_at", "updated_at")
VERSIONED = ("graph_id", "name", "description", "config", "context", "metadata")

_FIND = _SELECT.where(assistants.c.assistant_id == bindparam("id"))
_GET = PreparedStatement(_FIND)


def add(tx: Tx, assistant: Assistant) -> bool:
    """Insert an assistant and its first version; False: there is one of that id already."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(assistants).on_conflict_do_nothing(index_elements=["assistant_id"])
    if (
        tx.execute(query.returning(assistants.c.assistant_id), column_values(assistant)).first()
        is None
    ):
        return False
    _insert_version(tx, assistant, assistant.version, assistant.created_at)
    return True


def get(reads: Reads, assistant_id: str) -> Assistant | None:
    """Find an assistant."""
    return _GET.find(reads, Assistant, {"id": assistant_id})


def lock(tx: Tx, assistant_id: str) -> Assistant | None:
    """Find an assistant that is about to be changed."""
    return fetch_row(tx, Assistant, _FIND.with_for_update(), {"id": assistant_id})


def add_version(tx: Tx, assistant: Assistant, now: float) -> Assistant:
    """Store a changed assistant as its newest version."""
    query = select(func.max(assistant_versions.c.version)).where(
        assistant_versions.c.assistant_id == assistant.assistant_id
    )
    version = (tx.execute(query).scalar() or 0) + 1
    _insert_version(tx, assistant, version, now)
    return use_version(tx, assistant, version, now)


def use_version(tx: Tx, assistant: Assistant, version: int, now: float) -> Assistant:
    """Make an assistant what one of its versions says."""
    changed = replace(assistant, version=version, updated_at=now)
    values = {
        name: getattr(changed, name)
        for name in (*VERSIONED, "version", "updated_at", "stored_bytes")
    }
    query = update(assistants).where(assistants.c.assistant_id == assistant.assistant_id)
    tx.execute(query.values(**values))
    return changed


def update_description(tx: Tx, assistant_id: str, description: str | None, now: float) -> None:
    """Change what the first version of an assistant says of itself."""
    first = update(assistant_versions).where(
        assistant_versions.c.assistant_id == assistant_id, assistant_versions.c.version == 1
    )
    tx.execute(first.values(description=description))
    own = update(assistants).where(assistants.c.assistant_id == assistant_id)
    tx.execute(own.values(description=description, updated_at=now))


def _insert_version(tx: Tx, assistant: Assistant, version: int, now: float) -> None:
    values = {name: getattr(assistant, name) for name in VERSIONED}
    own = {"assistant_id": assistant.assistant_id, "version": version, "created_at": now}
    tx.execute(insert(assistant_versions).values(**values, **own))


def get_version(reads: Reads, assistant_id: str, number: int) -> AssistantVersion | None:
    """Find one version of an assistant."""
    query = _SELECT_VERSION.where(
        assistant_versions.c.assistant_id == assistant_id,
        assistant_versions.c.version == number,
    )
    return fetch_row(reads, AssistantVersion, query)


def versions(
    reads: Reads,
    assistant_id: str,
    metadata: Filters | None = None,
    limit: int = 10,
    offset: int = 0,
) -> list[AssistantVersion]:
    """Return the versions of an assistant, the newest first."""
    query = _SELECT_VERSION.where(assistant_versions.c.assistant_id == assistant_id)
    if metadata:
        query = query.where(contains_json(reads, assistant_versions.c.metadata, metadata))
    newest = query.order_by(assistant_versions.c.version.desc())
    return fetch_rows(reads, AssistantVersion, newest.limit(limit).offset(offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantQuery:
    """Which assistants; `filters` are what the caller may see, by metadata."""

    owner: str | None = None
    graph_id: str | None = None
    name: str | None = None
    metadata: Filters | None = None
    filters: Filters | None = None


def _apply_query(reads: Reads, query: Select[Any], wanted: AssistantQuery) -> Select[Any]:
    if wanted.owner is not None:  # those of the server itself are everybody's
        own = assistants.c.owner == wanted.owner
        query = query.where(own | assistants.c.owner.is_(None))
    if wanted.graph_id is not None:
        query = query.where(assistants.c.graph_id == wanted.graph_id)
    if wanted.name is not None:
        query = query.where(assistants.c.name.icontains(wanted.name, autoescape=True))
    if wanted.metadata:
        query = query.where(contains_json(reads, assistants.c.metadata, wanted.metadata))
    if wanted.filters:
        query = query.where(json_matches(reads, assistants.c.metadata, wanted.filters))
    return query


def search(reads: Reads, wanted: AssistantQuery, page: Page) -> list[Assistant]:
    """Return a page of assistants, sorted by one of `SORTS`."""
    query = _apply_query(reads, _SELECT, wanted)
    return fetch_rows(reads, Assistant, apply_page(query, assistants, page, "assistant_id"))


def count(reads: Reads, wanted: AssistantQuery) -> int:
    """Count assistants."""
    query = _apply_query(reads, select(func.count()).select_from(assistants), wanted)
    return int(reads.execute(query).scalar_one())


def remove(tx: Tx, assistant_id: str) -> bool:
    """Remove an assistant with all its versions."""
    tx.execute(delete(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id))
    gone = tx.execute(delete(assistants).where(assistants.c.assistant_id == assistant_id))
    return bool(gone.rowcount)
