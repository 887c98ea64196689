"""API keys: kept as digests only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, func, insert, select, update

from checkrail.store.database import CHANNEL, Reads, Tx
from checkrail.store.rows import column_values, fetch_row, fetch_rows, select_rows
from checkrail.store.tables import api_keys


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, of which only the digest is kept."""

    key_id: str
    digest: str
    name: str
    role: str
    owner: str
    created_at: float
    revoked_at: float | None = None


_SELECT = select_rows(Key, api_keys)

CHANGED = ("keys", "")
"""What is told when a key goes out of force."""

_FIND = _SELECT.where(api_keys.c.digest == bindparam("digest"), api_keys.c.revoked_at.is_(None))


def add(tx: Tx, key: Key) -> None:
    """Insert a new key."""
    tx.execute(insert(api_keys), column_values(key))


def find(reads: Reads, digest: str) -> Key | None:
    """Return a key that is in force."""
    return fetch_row(reads, Key, _FIND, {"digest": digest})


def all_keys(reads: Reads) -> list[Key]:
    """Return all keys, the newest first."""
    return fetch_rows(reads, Key, _SELECT.order_by(api_keys.c.created_at.desc()))


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
    return {row.key_id: row.role for row in reads.execute(query)}
