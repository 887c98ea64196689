"""Agents that were made over HTTP, in versions, and agents of files that were switched there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.prepared import Prepared
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import agent_set, agent_versions, agents

_VERSION = Prepared(select(agent_set.c.version))


def set_version(reads: Reads) -> int:
    """Return the version of the set of all agents and named hooks.

    A transaction looks once: what was requested of it was requested before it began.
    """
    known = reads.agents_version if isinstance(reads, Tx) else None
    if known is None:
        known = int(_VERSION.run(reads, {}).fetchall()[0][0])
        if isinstance(reads, Tx):
            reads.agents_version = known
    return known


def lock_set(tx: Tx) -> int:
    """Keep others from changing agents until the transaction ends, and return the version.

    Agents name each other, so one change is made at a time.
    """
    found = tx.execute(select(agent_set.c.version).with_for_update()).scalar_one()
    tx.agents_version = int(found)
    return tx.agents_version


def raise_version(tx: Tx) -> None:
    """Make the set another one, in the transaction that changes an agent or a named hook."""
    tx.execute(update(agent_set).values(version=agent_set.c.version + 1))
    tx.agents_version = None


def get(reads: Reads, name: str) -> Row | None:
    """Find an agent, or the switch of one of a file."""
    return one_of(reads, select(agents).where(agents.c.name == name))


def everything(reads: Reads) -> list[Row]:
    """Return all of them by name."""
    return all_of(reads, select(agents).order_by(agents.c.name))


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep a new agent with its first version, or the switch of one of a file."""
    raise_version(tx)
    tx.execute(insert(agents), dict(row))
    if row["blueprint"] is not None:
        _add_version(tx, row)


def revise(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep the next version of an agent."""
    change(tx, row["name"], **{key: value for key, value in row.items() if key != "name"})
    _add_version(tx, row)


def change(tx: Tx, name: str, /, **values: Any) -> bool:
    """Change an agent."""
    raise_version(tx)
    return bool(tx.execute(update(agents).where(agents.c.name == name).values(**values)).rowcount)


def remove(tx: Tx, name: str) -> bool:
    """Remove an agent with all its versions."""
    raise_version(tx)
    tx.execute(delete(agent_versions).where(agent_versions.c.name == name))
    return bool(tx.execute(delete(agents).where(agents.c.name == name)).rowcount)


def versions(reads: Reads, name: str, limit: int, offset: int = 0) -> list[Row]:
    """Return the versions of an agent, the newest first."""
    query = select(agent_versions).where(agent_versions.c.name == name)
    newest = query.order_by(agent_versions.c.version.desc())
    return all_of(reads, newest.limit(limit).offset(offset))


def _add_version(tx: Tx, row: Mapping[str, Any]) -> None:
    same = {key: row[key] for key in ("name", "version", "owner", "blueprint")}
    tx.execute(insert(agent_versions), same | {"created_at": row["updated_at"]})
