"""Idempotency keys: which runs a request has made already."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, delete, insert, select

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


def add(tx: Tx, row: dict[str, Any]) -> None:
    """Remember what a request has made, in the transaction that makes it."""
    tx.execute(insert(idempotency), row)


def drop(tx: Tx, owner: str, route: str, key: str) -> None:
    """Forget one."""
    tx.execute(
        delete(idempotency).where(
            idempotency.c.owner == owner, idempotency.c.route == route, idempotency.c.key == key
        )
    )


def forget_before(tx: Tx, when: float) -> None:
    """Forget old ones."""
    tx.execute(delete(idempotency).where(idempotency.c.created_at < when))
