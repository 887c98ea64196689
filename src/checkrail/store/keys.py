"""API keys: kept as digests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from checkrail.store.database import CHANNEL, Reads, Tx
from checkrail.store.rows import Row, all_of, one_of
from checkrail.store.tables import api_keys

CHANGED = ("keys", "")
"""What is told when a key goes out of force."""

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
    """Return all keys, the newest first."""
    return all_of(reads, select(api_keys).order_by(api_keys.c.created_at.desc()))


def revoke(tx: Tx, key_id: str, now: float) -> bool:
    """Take a key out of force."""
    query = update(api_keys).where(api_keys.c.key_id == key_id, api_keys.c.revoked_at.is_(None))
    revoked = bool(tx.execute(query.values(revoked_at=now)).rowcount)
    if tx.dialect.name == "postgresql":  # whoever revokes is no server, and sends no notices
        tx.execute(select(func.pg_notify(CHANNEL, ":".join(CHANGED))))
    return revoked


def roles_in_force(reads: Reads, key_ids: Sequence[str]) -> dict[str, str]:
    """Return the roles of those keys that are in force."""
    query = select(api_keys.c.key_id, api_keys.c.role).where(
        api_keys.c.key_id.in_([*key_ids]), api_keys.c.revoked_at.is_(None)
    )
    return {row["key_id"]: row["role"] for row in all_of(reads, query)}
