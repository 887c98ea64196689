"""Items of LangGraph's store, as far as they count for who put them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import column_values, fetch_row, fetch_rows, select_rows
from checkrail.store.tables import store_items as items


@dataclass(frozen=True, slots=True)
class Item:
    """An item, as it counts for its owner."""

    namespace: str
    key: str
    owner: str
    stored_bytes: int
    ttl_seconds: float | None = None
    look_at: float | None = None


_SELECT = select_rows(Item, items)

_KEY = ("namespace", "key")


def get(reads: Reads, namespace: str, key: str) -> Item | None:
    """Find an item."""
    return fetch_row(reads, Item, _SELECT.where(items.c.namespace == namespace, items.c.key == key))


def put(tx: Tx, item: Item) -> None:
    """Store an item, in place of the one that is there."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    values = column_values(item)
    changed = {name: value for name, value in values.items() if name not in _KEY}
    query = make(items).values(**values)
    tx.execute(query.on_conflict_do_update(index_elements=_KEY, set_=changed))


def set_look_at(tx: Tx, item: Item, when: float) -> None:
    """Note when an item may have expired that has not; one that was put anew has its own time."""
    tx.execute(_where_same(update(items), item).values(look_at=when))


def remove(tx: Tx, namespace: str, key: str) -> None:
    """Remove an item that is gone."""
    tx.execute(delete(items).where(items.c.namespace == namespace, items.c.key == key))


def remove_same(tx: Tx, item: Item) -> None:
    """Remove an item that is gone, unless it was put anew since it was read."""
    tx.execute(_where_same(delete(items), item))


def _where_same(query: Any, item: Item) -> Any:
    return query.where(
        items.c.namespace == item.namespace,
        items.c.key == item.key,
        items.c.look_at == item.look_at,
    )


def find_expired(reads: Reads, now: float, most: int) -> list[Item]:
    """Return items that may have expired, those that may be gone longest first."""
    query = _SELECT.where(items.c.look_at <= now)
    return fetch_rows(reads, Item, query.order_by(items.c.look_at).limit(most))
