"""Named hooks that were defined over HTTP, for agents that refer to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, update

from checkrail.store.agents import raise_version
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import fetch_row, fetch_rows, select_rows
from checkrail.store.tables import named_hooks


@dataclass(frozen=True, slots=True)
class NamedHook:
    """A hook that agents refer to by its name."""

    name: str
    definition: Any
    created_at: float
    updated_at: float
    owner: str | None = None


_SELECT = select_rows(NamedHook, named_hooks)


def get(reads: Reads, name: str) -> NamedHook | None:
    """Find a named hook."""
    return fetch_row(reads, NamedHook, _SELECT.where(named_hooks.c.name == name))


def all_by_name(reads: Reads) -> list[NamedHook]:
    """Return all of them by name."""
    return fetch_rows(reads, NamedHook, _SELECT.order_by(named_hooks.c.name))


def put(tx: Tx, name: str, owner: str | None, definition: Any, now: float) -> bool:
    """Store a definition, and return whether it is new."""
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
