"""Idempotency keys: which runs a request has made already."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, delete
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import column_values, fetch_row, select_rows
from checkrail.store.tables import idempotency


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request that has made runs, by the key that its client gave it."""

    owner: str
    route: str
    key: str
    digest: str
    run_ids: list[str]
    created_at: float


_SELECT = select_rows(StoredRequest, idempotency)

_FIND = _SELECT.where(
    idempotency.c.owner == bindparam("owner"),
    idempotency.c.route == bindparam("route"),
    idempotency.c.key == bindparam("key"),
)


def find(reads: Reads, owner: str, route: str, key: str) -> StoredRequest | None:
    """Return what a request has created before."""
    return fetch_row(reads, StoredRequest, _FIND, {"owner": owner, "route": route, "key": key})


def add(tx: Tx, request: StoredRequest) -> bool:
    """Store what a request has created, in the same transaction; False: another has."""
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(idempotency).on_conflict_do_nothing().returning(idempotency.c.key)
    return tx.execute(query, column_values(request)).first() is not None


def drop_before(tx: Tx, owner: str, route: str, key: str, when: float) -> None:
    """Forget one that is too old to count."""
    mine = (idempotency.c.owner == owner, idempotency.c.route == route, idempotency.c.key == key)
    tx.execute(delete(idempotency).where(*mine, idempotency.c.created_at < when))


def forget_before(tx: Tx, when: float) -> None:
    """Forget old ones."""
    tx.execute(delete(idempotency).where(idempotency.c.created_at < when))
