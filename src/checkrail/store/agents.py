"""Agents that were made over HTTP, in versions, and agents of files that were switched there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import column_values, fetch_row, fetch_rows, select_rows
from checkrail.store.statements import PreparedStatement
from checkrail.store.tables import agent_set, agent_versions, agents


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that was made over HTTP; without a blueprint it is the switch of one of a file."""

    name: str
    version: int
    enabled: bool
    created_at: float
    updated_at: float
    owner: str | None = None
    blueprint: Any = None
    stored_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """One version of an agent that was made over HTTP."""

    name: str
    version: int
    blueprint: dict[str, Any]
    created_at: float
    owner: str | None = None
    note: str | None = None


_SELECT = select_rows(Agent, agents)
_SELECT_VERSION = select_rows(AgentVersion, agent_versions)

_VERSION = PreparedStatement(select(agent_set.c.version))


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


def get(reads: Reads, name: str) -> Agent | None:
    """Return an agent, or the switch of one of a file."""
    return fetch_row(reads, Agent, _SELECT.where(agents.c.name == name))


def all_by_name(reads: Reads) -> list[Agent]:
    """Return all of them by name."""
    return fetch_rows(reads, Agent, _SELECT.order_by(agents.c.name))


def add(tx: Tx, agent: Agent) -> None:
    """Insert a new agent with its first version, or the switch of one of a file."""
    raise_version(tx)
    tx.execute(insert(agents), column_values(agent))
    if agent.blueprint is not None:
        _insert_version(tx, agent)


def add_version(tx: Tx, agent: Agent, note: str | None = None) -> None:
    """Insert the next version of an agent, with a note on what is different."""
    values = column_values(agent)
    update_agent(tx, values.pop("name"), **values)
    _insert_version(tx, agent, note)


def update_agent(tx: Tx, name: str, /, **values: Any) -> bool:
    """Change an agent."""
    raise_version(tx)
    return bool(tx.execute(update(agents).where(agents.c.name == name).values(**values)).rowcount)


def remove(tx: Tx, name: str) -> bool:
    """Remove an agent with all its versions."""
    raise_version(tx)
    tx.execute(delete(agent_versions).where(agent_versions.c.name == name))
    return bool(tx.execute(delete(agents).where(agents.c.name == name)).rowcount)


def versions(reads: Reads, name: str, limit: int, offset: int = 0) -> list[AgentVersion]:
    """Return the versions of an agent, the newest first."""
    query = _SELECT_VERSION.where(agent_versions.c.name == name)
    newest = query.order_by(agent_versions.c.version.desc())
    return fetch_rows(reads, AgentVersion, newest.limit(limit).offset(offset))


def find_version(reads: Reads, name: str, version: int) -> AgentVersion | None:
    """Find one version of an agent."""
    columns = agent_versions.c
    query = _SELECT_VERSION.where(columns.name == name, columns.version == version)
    return fetch_row(reads, AgentVersion, query)


def _insert_version(tx: Tx, agent: Agent, note: str | None = None) -> None:
    made = AgentVersion(
        agent.name,
        agent.version,
        agent.blueprint,
        agent.updated_at,
        owner=agent.owner,
        note=note,
    )
    tx.execute(insert(agent_versions), column_values(made))
