"""Agents as assistants: each agent has one that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkrail.runs.admission import own_assistant
from checkrail.store import assistants
from checkrail.store.database import Tx
from checkrail.store.rows import Row

METADATA = {"created_by": "system"}


def sync_agents(
    tx: Tx,
    agents: Mapping[str, str | None],
    now: float,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Keep an assistant for each agent, by its name and description; any number of times.

    `metadata` is for assistants that are new.
    """
    rows = [_row(name, description, now) for name, description in agents.items()]
    rows = [row | {"metadata": {**(metadata or {}), **row["metadata"]}} for row in rows]
    # Always in one order: two servers that start at once wait for each other, but not in a circle.
    for row in sorted(rows, key=lambda row: row["assistant_id"]):
        if not assistants.add(tx, row):
            _renew(tx, row)


def _renew(tx: Tx, row: Row) -> None:
    """Bring an assistant up to date with the config, unless somebody has revised it since."""
    kept = assistants.lock(tx, row["assistant_id"])
    if kept is None or kept["owner"] is not None or kept["graph_id"] != row["graph_id"]:
        assistants.remove(tx, row["assistant_id"])  # the id is the agent's, whoever took it
        assistants.add(tx, row)
    elif kept["version"] == 1 and kept["description"] != row["description"]:
        assistants.describe(tx, row["assistant_id"], row["description"], row["updated_at"])


def _row(name: str, description: str | None, now: float) -> dict[str, Any]:
    return {
        "assistant_id": own_assistant(name),
        "graph_id": name,
        "owner": None,
        "name": name,
        "description": description,
        "config": {},
        "context": {},
        "metadata": METADATA,
        "version": 1,
        "created_at": now,
        "updated_at": now,
    }
