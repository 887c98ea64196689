"""Counting in the database: what limits and budgets of several processes share."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import select

from checkrail.store import counters, migrate
from checkrail.store.counters import Hit
from checkrail.store.database import Database, Tx, Waiter, open_database

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
        return await self._database.read(partial(counters.load_amounts, keys=keys, start=start))

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
        answers = iter(counters.count_hits(tx, hits, now) if hits else [])
        counters.add(tx, [row for asked in batch for row in asked.rows])
        if abs(now - self._cleaned_at) > _CLEAN_EVERY:
            counters.forget_expired(tx, now, _FORGOTTEN_AT_ONCE)
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
