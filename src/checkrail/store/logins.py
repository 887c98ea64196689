"""Logins of browsers by API key: of each only a digest is kept, with the key's id."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, or_, select, update

from checkrail.store.database import Reads, Tx
from checkrail.store.keys import Key
from checkrail.store.rows import column_values, fetch_row
from checkrail.store.tables import api_keys, logins

IDLE = 12 * 3600.0  # seconds until a login that is not used ends
LONGEST = 7 * 86_400.0  # seconds until any login ends


@dataclass(frozen=True, slots=True)
class Login:
    """A browser's login, good as long as its key is."""

    digest: str
    key_id: str
    created_at: float
    seen_at: float


_KEY = (
    select(api_keys, logins.c.seen_at)
    .join(logins, logins.c.key_id == api_keys.c.key_id)
    .where(
        logins.c.digest == bindparam("digest"),
        logins.c.created_at > bindparam("made_after"),
        logins.c.seen_at > bindparam("seen_after"),
        api_keys.c.revoked_at.is_(None),
    )
)


@dataclass(frozen=True, slots=True)
class UsedKey(Key):
    """A key by which a browser is logged in, and when that was used last."""

    seen_at: float = 0.0


def add(tx: Tx, row: Login) -> None:
    """Insert a login, and delete those that have ended."""
    ended = or_(
        logins.c.created_at <= row.created_at - LONGEST, logins.c.seen_at <= row.seen_at - IDLE
    )
    tx.execute(delete(logins).where(ended))
    tx.execute(insert(logins), column_values(row))


def find_key(reads: Reads, digest: str, now: float) -> UsedKey | None:
    """Return the key of a login, if both are in force."""
    since = {"digest": digest, "made_after": now - LONGEST, "seen_after": now - IDLE}
    return fetch_row(reads, UsedKey, _KEY, since)


def touch(tx: Tx, digest: str, now: float) -> None:
    """Set when a login was used last."""
    tx.execute(update(logins).where(logins.c.digest == digest).values(seen_at=now))


def remove(tx: Tx, digest: str) -> None:
    """Delete a login."""
    tx.execute(delete(logins).where(logins.c.digest == digest))
