"""Idempotency keys: which runs a request has made already."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, one_of
from checkrail.store.tables import idempotency

_FIND = select(idempotency).where(
    idempotency.c.owner == bindparam("owner"),
    idempotency.c.route == bindparam("route"),
    idempotency.c.key == bindparam("key"),
)


def find(reads: Reads, owner: str, route: str, key: str) -> Row | None:
    """Find what a request has made before."""
    return one_of(reads, _FIND, {"owner": owner, "route": route, "key": key})


def add(tx: Tx, row: dict[str, Any]) -> bool:
    """Remember what a request has made, in the transaction that makes it; False: another has."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(idempotency).on_conflict_do_nothing().returning(idempotency.c.key)
    return tx.execute(query, row).first() is not None


def drop_before(tx: Tx, owner: str, route: str, key: str, when: float) -> None:
    """Forget one that is too old to count."""
    mine = (idempotency.c.owner == owner, idempotency.c.route == route, idempotency.c.key == key)
    tx.execute(delete(idempotency).where(*mine, idempotency.c.created_at < when))


def forget_before(tx: Tx, when: float) -> None:
    """Forget old ones."""
    tx.execute(delete(idempotency).where(idempotency.c.created_at < when))
