"""Agents that were made over HTTP, in versions, and agents of files that were switched there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import agent_versions, agents, named_hooks

State = tuple[Any, ...]
"""Tells whether any agent or named hook has changed."""


def hold(tx: Tx) -> None:
    """Keep other processes from changing agents until the transaction ends: they name each other.

    On SQLite there is one writer in any case.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(text("LOCK TABLE agents IN SHARE ROW EXCLUSIVE MODE"))


def state(reads: Reads) -> State:
    """Give something that is another after every change."""
    found: list[Any] = []
    for table in (agents, named_hooks):
        times = table.c.updated_at  # of several clocks: the newest need not be the last
        query = select(func.count(), func.max(times), func.sum(times))
        found += [*reads.execute(query.select_from(table)).one()]
    return tuple(found)


def get(reads: Reads, name: str) -> Row | None:
    """Find an agent, or the switch of one of a file."""
    return one_of(reads, select(agents).where(agents.c.name == name))


def everything(reads: Reads) -> list[Row]:
    """Give all of them by name."""
    return all_of(reads, select(agents).order_by(agents.c.name))


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep a new agent with its first version, or the switch of one of a file."""
    tx.execute(insert(agents), dict(row))
    if row["blueprint"] is not None:
        _add_version(tx, row)


def revise(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep the next version of an agent."""
    change(tx, row["name"], **{key: value for key, value in row.items() if key != "name"})
    _add_version(tx, row)


def change(tx: Tx, name: str, /, **values: Any) -> bool:
    """Change an agent."""
    return bool(tx.execute(update(agents).where(agents.c.name == name).values(**values)).rowcount)


def remove(tx: Tx, name: str) -> bool:
    """Remove an agent with all its versions."""
    tx.execute(delete(agent_versions).where(agent_versions.c.name == name))
    return bool(tx.execute(delete(agents).where(agents.c.name == name)).rowcount)


def versions(reads: Reads, name: str, limit: int, offset: int = 0) -> list[Row]:
    """Give the versions of an agent, the newest first."""
    query = select(agent_versions).where(agent_versions.c.name == name)
    newest = query.order_by(agent_versions.c.version.desc())
    return all_of(reads, newest.limit(limit).offset(offset))


def _add_version(tx: Tx, row: Mapping[str, Any]) -> None:
    same = {key: row[key] for key in ("name", "version", "owner", "blueprint")}
    tx.execute(insert(agent_versions), same | {"created_at": row["updated_at"]})
