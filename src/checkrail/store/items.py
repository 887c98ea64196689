"""Items of LangGraph's store, as far as they count for who put them there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import store_items as items

_KEY = ("namespace", "key")


def get(reads: Reads, namespace: str, key: str) -> Row | None:
    """Find an item."""
    return one_of(reads, select(items).where(items.c.namespace == namespace, items.c.key == key))


def put(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep an item, in place of the one that is there."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    changed = {name: value for name, value in row.items() if name not in _KEY}
    query = make(items).values(**row)
    tx.execute(query.on_conflict_do_update(index_elements=_KEY, set_=changed))


def look_again(tx: Tx, row: Row, when: float) -> None:
    """Note when an item may have expired that has not; one that was put anew has its own time."""
    same = [items.c[name] == row[name] for name in (*_KEY, "look_at")]
    tx.execute(update(items).where(*same).values(look_at=when))


def remove(tx: Tx, row: Mapping[str, Any]) -> None:
    """Remove an item that is gone; by a row that was read, only as long as it is the same."""
    same = [items.c[name] == row[name] for name in (*_KEY, "look_at") if name in row]
    tx.execute(delete(items).where(*same))


def expired(reads: Reads, now: float, most: int) -> list[Row]:
    """Return items that may have expired, those that may be gone longest first."""
    query = select(items).where(items.c.look_at <= now)
    return all_of(reads, query.order_by(items.c.look_at).limit(most))
