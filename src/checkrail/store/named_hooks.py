"""Named hooks that were defined over HTTP, for agents that refer to them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from checkrail.store.agents import raise_version
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import named_hooks


def get(reads: Reads, name: str) -> Row | None:
    """Find a named hook."""
    return one_of(reads, select(named_hooks).where(named_hooks.c.name == name))


def everything(reads: Reads) -> list[Row]:
    """Return all of them by name."""
    return all_of(reads, select(named_hooks).order_by(named_hooks.c.name))


def put(tx: Tx, name: str, owner: str | None, definition: Any, now: float) -> bool:
    """Keep a definition, and say whether it is new."""
    raise_version(tx)
    same = {"owner": owner, "definition": definition, "updated_at": now}
    changed = update(named_hooks).where(named_hooks.c.name == name).values(**same)
    if tx.execute(changed).rowcount:
        return False
    tx.execute(insert(named_hooks), {"name": name, "created_at": now, **same})
    return True


def remove(tx: Tx, name: str) -> bool:
    """Remove a named hook."""
    raise_version(tx)
    return bool(tx.execute(delete(named_hooks).where(named_hooks.c.name == name)).rowcount)
