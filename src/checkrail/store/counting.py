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
from checkrail.store.database import Database, Tx, Waiter, opened

_AT_ONCE = 500
_CLEAN_EVERY = 60.0
_FORGOTTEN_AT_ONCE = 2000


class _Asked(NamedTuple):
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
        self._asked: list[_Asked] = []
        self._busy = False
        self._cleaned_at = 0.0

    async def hit(self, key: str, limit: int, per: float, now: float) -> tuple[bool, float]:  # noqa: ARG002
        """Count a hit if the limit allows it; else say in how many seconds it will.

        The time is the database's.
        """
        answer: tuple[bool, float] = await self._ask(Hit(key, limit, per), [])
        return answer

    async def used(self, keys: Sequence[str], start: float) -> list[float]:
        """Return the amount of each key."""
        return await self._database.read(partial(counters.amounts, keys=keys, start=start))

    async def add(self, amounts: Mapping[str, float], start: float, until: float) -> None:
        """Add to the amounts of some keys; nobody asks for them after `until`."""
        rows = [
            {"key": key, "window_start": start, "amount": amount, "expires_at": until}
            for key, amount in amounts.items()
        ]
        await self._ask(None, rows)

    async def _ask(self, hit: Hit | None, rows: list[dict[str, Any]]) -> Any:
        waiter = Waiter()
        with self._lock:
            self._asked.append(_Asked(hit, rows, waiter))
            begin, self._busy = not self._busy, True
        if begin:
            self._next()
        return await waiter.future

    def _next(self) -> None:
        """Carry out what was asked for, if anything was."""
        with self._lock:
            batch, self._asked = self._asked[:_AT_ONCE], self._asked[_AT_ONCE:]
            self._busy = bool(batch)
        if batch:
            written = self._database.write_soon(partial(self._write, batch=batch))
            written.add_done_callback(partial(self._written, batch))

    def _write(self, tx: Tx, batch: list[_Asked]) -> list[Any]:
        """Count a batch; should it fail, it is done again from the beginning."""
        now = self._now(tx)
        hits = [asked.hit for asked in batch if asked.hit is not None]
        answers = iter(counters.hit(tx, hits, now) if hits else [])
        counters.add(tx, [row for asked in batch for row in asked.rows])
        if abs(now - self._cleaned_at) > _CLEAN_EVERY:
            counters.forget_expired(tx, now, _FORGOTTEN_AT_ONCE)
            self._cleaned_at = now
        return [None if asked.hit is None else next(answers) for asked in batch]

    def _now(self, tx: Tx) -> float:
        """Return the time that all processes go by."""
        if not self._database.postgres:
            return time.time()
        return float(tx.execute(select(self._database.now())).scalar_one())

    def _written(self, batch: list[_Asked], done: concurrent.futures.Future[list[Any]]) -> None:
        error = done.exception()
        for place, asked in enumerate(batch):
            if error is None:
                asked.waiter.set_result(done.result()[place])
            else:
                asked.waiter.set_exception(error)  # type: ignore[arg-type]
        self._next()


@contextlib.contextmanager
def counting(url: str) -> Iterator[StoredCounters]:
    """Count in a database for a while, where no server has opened it; tables are made if needed."""
    with opened(url) as database:
        migrate.upgrade(database.engine)
        yield StoredCounters(database)
