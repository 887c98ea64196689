"""Retention: runs, events, records and threads that are too old are removed, a few at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from checkrail.runs.graphs import thread_rows
from checkrail.runs.parts import Parts
from checkrail.runs.quotas import stored_size
from checkrail.store import (
    approvals,
    crons,
    deliveries,
    events,
    idempotency,
    items,
    records,
    runs,
    sessions,
    threads,
    workers,
)
from checkrail.store.database import Database, Reads, Tx

_AT_ONCE = 200
_DAY = 86_400.0
_HOUR = 3_600.0


class Retention:
    """Removes what the settings say is too old."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def clean(self) -> None:
        """Remove a batch of everything that is too old."""
        settings, now = self._parts.settings, self._parts.database.time()
        await self._parts.database.write(lambda tx: idempotency.forget_before(tx, now - _DAY))
        await self._parts.database.write(lambda tx: workers.forget_writers(tx, now - 7 * _DAY))
        if settings.keep_records is not None:
            before = now - settings.keep_records
            await self._parts.database.write(partial(records.forget_before, when=before))
        if settings.keep_events is not None:
            await self._events(now - settings.keep_events)
        if settings.keep_deliveries is not None:
            before = now - settings.keep_deliveries
            await self._parts.database.write(partial(deliveries.forget_before, when=before))
        if settings.keep_stateless is not None:
            await self._runs(now - settings.keep_stateless, temporary=True)
        if settings.keep_runs is not None:
            await self._runs(now - settings.keep_runs)
        await self._threads(now)
        await self._items(now)

    async def _runs(self, before: float, *, temporary: bool = False) -> None:
        def old(reads: Reads) -> list[str]:
            return runs.ended_before(reads, before, _AT_ONCE, temporary=temporary)

        while found := await self._parts.database.read(old):
            await self._parts.database.write(partial(forget_runs, run_ids=found))

    async def _events(self, before: float) -> None:
        while await self._parts.database.write(
            lambda tx: events.forget_ended_before(tx, before, _AT_ONCE)
        ):
            pass

    async def _threads(self, now: float) -> None:
        """Let go of threads whose time to live is over; one that is busy lives on."""

        def old(reads: Reads) -> list[tuple[str, str | None]]:
            found = threads.expired(reads, now, _AT_ONCE)
            return [(row["thread_id"], row["ttl_strategy"]) for row in found]

        for thread_id, strategy in await self._parts.database.read(old):
            saver = self._parts.checkpointer
            if strategy == "keep_latest":
                await prune_thread(self._parts.database, saver, thread_id)
                await self._parts.database.write(
                    partial(threads.change, thread_id=thread_id, expires_at=None)
                )
            else:
                forget = partial(forget_expired, thread_id=thread_id, now=now)
                if await self._parts.database.write(forget):
                    await thread_rows.delete_thread(saver, thread_id)

    async def _items(self, now: float) -> None:
        """Count items of the store no longer that have expired; a read may let one live on."""
        find_store = self._parts.find_store
        found = await self._parts.database.read(lambda reads: items.expired(reads, now, _AT_ONCE))
        if not found or find_store is None:
            return
        store = await find_store()
        for row in found:
            place = tuple(row["namespace"].split("."))
            if await store.aget(place, row["key"], refresh_ttl=False) is None:
                change = partial(items.remove, row=row)
            else:
                change = partial(
                    items.look_again, row=row, when=now + min(row["ttl_seconds"], _HOUR)
                )
            await self._parts.database.write(change)


async def prune_thread(database: Database, saver: Any, thread_id: str) -> None:
    """Forget the history of a thread but its latest state, and count what is left of it."""
    await thread_rows.prune(saver, [thread_id], keep_latest=True)
    left = await thread_rows.stored_size(saver, thread_id)

    def count(tx: Tx) -> None:
        row = threads.lock(tx, thread_id)
        if row is not None and row["stored_bytes"]:
            size = left + stored_size(row["metadata"])
            threads.change(tx, thread_id, stored_bytes=min(row["stored_bytes"], size))

    await database.write(count)


def forget_runs(tx: Tx, run_ids: list[str]) -> None:
    """Remove runs with all that was kept of them; deliveries that are owed stay."""
    events.forget(tx, run_ids)
    records.forget(tx, run_ids)
    approvals.forget(tx, run_ids)
    deliveries.forget(tx, run_ids)
    runs.remove(tx, run_ids)


def forget_expired(tx: Tx, thread_id: str, now: float) -> bool:
    """Remove a thread, unless it was used again since somebody looked."""
    row = threads.lock(tx, thread_id)
    if row is None or row["expires_at"] is None or row["expires_at"] > now:
        return False
    return not runs.live_ids(tx, thread_id=thread_id) and bool(forget_threads(tx, [thread_id]))


def forget_threads(tx: Tx, thread_ids: list[str]) -> int:
    """Remove threads with all their runs."""
    forget_runs(tx, runs.of_threads(tx, thread_ids))
    crons.remove_of_threads(tx, thread_ids)
    session_ids = threads.session_ids(tx, thread_ids)
    removed = threads.remove(tx, thread_ids)
    sessions.forget(tx, session_ids)
    return removed
