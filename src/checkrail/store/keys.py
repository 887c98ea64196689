"""API keys: kept as digests only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import api_keys

_FIND = select(api_keys).where(
    api_keys.c.digest == bindparam("digest"), api_keys.c.revoked_at.is_(None)
)


def add(tx: Tx, row: Mapping[str, Any]) -> None:
    """Keep a new key."""
    tx.execute(insert(api_keys), dict(row))


def find(reads: Reads, digest: str) -> Row | None:
    """Find a key that is in force."""
    return one_of(reads, _FIND, {"digest": digest})


def all_keys(reads: Reads) -> list[Row]:
    """Give all keys, the newest first."""
    return all_of(reads, select(api_keys).order_by(api_keys.c.created_at.desc()))


def revoke(tx: Tx, key_id: str, now: float) -> bool:
    """Take a key out of force."""
    query = update(api_keys).where(api_keys.c.key_id == key_id, api_keys.c.revoked_at.is_(None))
    return bool(tx.execute(query.values(revoked_at=now)).rowcount)
