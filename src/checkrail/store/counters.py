"""Counters: amounts by key and window of time, added to by any number of processes.

Hits of a rate limit are counted in windows of a tenth of its time. All that may reach into the last
stretch of that time count, so no stretch sees more than the limit.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, null, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_postgres
from sqlalchemy.dialects.sqlite import insert as insert_sqlite

from checkrail.store import migrate
from checkrail.store.database import Database, Reads, Tx, Waiter, open_database
from checkrail.store.tables import counters

PARTS = 10
"""How many windows the time of a rate limit has."""

_LOCKED = text(
    "SELECT pg_advisory_xact_lock(hashtextextended(key, 0)) "
    "FROM (SELECT unnest(CAST(:keys AS text[])) AS key ORDER BY 1) AS keys"
)

_TOUCHED = update(counters).where(counters.c.key == null()).values(amount=counters.c.amount)
"""Changes nothing, but makes SQLite take the lock for writing before anything is read."""

_AT = select(counters.c.key, counters.c.amount).where(
    counters.c.key.in_(bindparam("keys", expanding=True)),
    counters.c.window_start == bindparam("start"),
)
_SINCE = (
    select(counters.c.key, counters.c.window_start, counters.c.amount)
    .where(
        counters.c.key.in_(bindparam("keys", expanding=True)),
        counters.c.window_start > bindparam("since"),
    )
    .order_by(counters.c.window_start)
)


@dataclass(frozen=True, slots=True)
class Hit:
    """One more for a key, if no more than `limit` are counted in `per` seconds."""

    key: str
    limit: int
    per: float

    @property
    def width(self) -> float:
        """How long the windows are in which it is counted."""
        return self.per / PARTS

    def expires_at(self, start: float) -> float:
        """Return when what was counted in a window counts no more."""
        return start + self.width + self.per


def load_amounts(reads: Reads, keys: Sequence[str], start: float) -> list[float]:
    """Return the amount of each key in the window that begins at a time."""
    rows = reads.execute(_AT, {"keys": keys, "start": start})
    found: dict[str, float] = {row.key: row.amount for row in rows}
    return [found.get(key, 0.0) for key in keys]


def add(tx: Tx, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add to amounts: rows of key, window_start, amount and expires_at.

    They are added in one order everywhere, so that no two processes wait for each other.
    """
    summed: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        place = row["key"], row["window_start"]
        known = summed.get(place, {"amount": 0.0})
        summed[place] = {**row, "amount": known["amount"] + row["amount"]}
    if not summed:
        return
    make = insert_postgres if tx.dialect.name == "postgresql" else insert_sqlite
    query = make(counters)
    query = query.on_conflict_do_update(
        index_elements=["key", "window_start"],
        set_={
            "amount": counters.c.amount + query.excluded.amount,
            "expires_at": query.excluded.expires_at,
        },
    )
    tx.execute(query, [summed[place] for place in sorted(summed)])


def count_hits(tx: Tx, hits: Sequence[Hit], now: float) -> list[tuple[bool, float]]:
    """Count the hits that their limits allow; for the others, return in how many seconds they will.

    Among several of one key, those that come first are let through.
    """
    _lock_keys(tx, {one.key for one in hits})
    counted: dict[str, dict[float, float]] = {}
    for per in {one.per for one in hits}:
        known = {one.key for one in hits if one.per == per}
        since = now - per - per / PARTS
        for key, start, amount in tx.execute(_SINCE, {"keys": [*known], "since": since}):
            counted.setdefault(key, {})[start] = amount
    answers, rows = [], []
    for one in hits:
        windows = counted.setdefault(one.key, {})
        if (wait := _seconds_to_room(one, windows, now)) is None:
            start = math.floor(now / one.width) * one.width
            windows[start] = windows.get(start, 0.0) + 1
            rows.append(_hit_row(one, start))
        answers.append((wait is None, wait or 0.0))
    add(tx, rows)
    return answers


def forget_expired(tx: Tx, now: float, most: int) -> int:
    """Remove some of those that nobody reads any more."""
    place = tuple_(counters.c.key, counters.c.window_start)
    old = select(counters.c.key, counters.c.window_start).where(counters.c.expires_at <= now)
    old = old.limit(most).with_for_update(skip_locked=True)  # which SQLite does without
    return tx.execute(delete(counters).where(place.in_(old))).rowcount


def _lock_keys(tx: Tx, keys: Iterable[str]) -> None:
    """Keep other processes from counting the same hits until this is kept."""
    if tx.dialect.name == "postgresql":
        tx.execute(_LOCKED, {"keys": sorted(keys)})
    else:
        tx.execute(_TOUCHED)


def _seconds_to_room(one: Hit, windows: Mapping[float, float], now: float) -> float | None:
    """Return in how many seconds there is room for one more; None: there is."""
    over = sum(windows.values()) + 1 - one.limit
    if over <= 0:
        return None
    for start in sorted(windows):
        over -= windows[start]
        if over <= 0:
            return max(0.0, one.expires_at(start) - now)
    return one.per  # pragma: no cover - a limit is at least 1, so the loop finds one


def _hit_row(one: Hit, start: float) -> dict[str, Any]:
    return {
        "key": one.key,
        "window_start": start,
        "amount": 1.0,
        "expires_at": one.expires_at(start),
    }


_AT_ONCE = 500
_CLEAN_EVERY = 60.0
_FORGOTTEN_AT_ONCE = 2000


class _CounterRequest(NamedTuple):
    """A hit, or rows to be added, and who waits for it."""

    hit: Hit | None
    rows: list[dict[str, Any]]
    waiter: Waiter


class StoredCounters:
    """Counts in a database, from any loop.

    What is asked for while a write is under way goes into the next one, all of it together: so
    there is never more than one transaction of this process that other processes may wait for.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._asked: list[_CounterRequest] = []
        self._busy = False
        self._cleaned_at = 0.0

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:  # noqa: ARG002
        """Count a hit if the limit allows it; else return in how many seconds it will.

        The time is the database's.
        """
        answer: tuple[bool, float] = await self._request_count(Hit(key, limit, per), [])
        return answer

    async def used(self, keys: Sequence[str], start: float) -> list[float]:
        """Return the amount of each key."""
        return await self._database.read(partial(load_amounts, keys=keys, start=start))

    async def add(self, amounts: Mapping[str, float], start: float, until: float) -> None:
        """Add to the amounts of some keys; nobody reads them after `until`."""
        rows = [
            {"key": key, "window_start": start, "amount": amount, "expires_at": until}
            for key, amount in amounts.items()
        ]
        await self._request_count(None, rows)

    async def _request_count(self, hit: Hit | None, rows: list[dict[str, Any]]) -> Any:
        waiter = Waiter()
        with self._lock:
            self._asked.append(_CounterRequest(hit, rows, waiter))
            begin, self._busy = not self._busy, True
        if begin:
            self._write_next()
        return await waiter.future

    def _write_next(self) -> None:
        """Write what was requested, if anything was."""
        with self._lock:
            batch, self._asked = self._asked[:_AT_ONCE], self._asked[_AT_ONCE:]
            self._busy = bool(batch)
        if batch:
            written = self._database.write_soon(partial(self._write_batch, batch=batch))
            written.add_done_callback(partial(self._resolve_batch, batch))

    def _write_batch(self, tx: Tx, batch: list[_CounterRequest]) -> list[Any]:
        """Count a batch; should it fail, it is done again from the beginning."""
        now = self._database_time(tx)
        hits = [asked.hit for asked in batch if asked.hit is not None]
        answers = iter(count_hits(tx, hits, now) if hits else [])
        add(tx, [row for asked in batch for row in asked.rows])
        if abs(now - self._cleaned_at) > _CLEAN_EVERY:
            forget_expired(tx, now, _FORGOTTEN_AT_ONCE)
            self._cleaned_at = now
        return [None if asked.hit is None else next(answers) for asked in batch]

    def _database_time(self, tx: Tx) -> float:
        """Return the time that all processes go by."""
        if not self._database.postgres:
            return time.time()
        return float(tx.execute(select(self._database.now())).scalar_one())

    def _resolve_batch(
        self, batch: list[_CounterRequest], done: concurrent.futures.Future[list[Any]]
    ) -> None:
        error = done.exception()
        for place, asked in enumerate(batch):
            if error is None:
                asked.waiter.set_result(done.result()[place])
            else:
                asked.waiter.set_exception(error)  # type: ignore[arg-type]
        self._write_next()


@contextlib.contextmanager
def open_counters(url: str) -> Iterator[StoredCounters]:
    """Open the counters of a database without a server; create tables if needed."""
    with open_database(url) as database:
        migrate.upgrade(database.engine)
        yield StoredCounters(database)
