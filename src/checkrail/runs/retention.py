"""Retention: runs, events, records and threads that are too old are removed, a few at a time."""

from __future__ import annotations

import time
from functools import partial

from checkrail.runs.graphs import thread_rows
from checkrail.runs.parts import Parts
from checkrail.store import (
    approvals,
    crons,
    deliveries,
    events,
    idempotency,
    records,
    runs,
    threads,
)
from checkrail.store.database import Reads, Tx

_AT_ONCE = 200
_DAY = 86_400.0


class Retention:
    """Removes what the settings say is too old."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def clean(self) -> None:
        """Remove a batch of everything that is too old."""
        settings, now = self._parts.settings, time.time()
        await self._parts.database.write(lambda tx: idempotency.forget_before(tx, now - _DAY))
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
                await thread_rows.prune(saver, [thread_id], keep_latest=True)
                await self._parts.database.write(
                    partial(threads.change, thread_id=thread_id, expires_at=None)
                )
            else:
                await self._parts.database.write(partial(forget_threads, thread_ids=[thread_id]))
                await thread_rows.delete_thread(saver, thread_id)


def forget_runs(tx: Tx, run_ids: list[str]) -> None:
    """Remove runs with all that was kept of them; deliveries that are owed stay."""
    events.forget(tx, run_ids)
    records.forget(tx, run_ids)
    approvals.forget(tx, run_ids)
    deliveries.forget(tx, run_ids)
    runs.remove(tx, run_ids)


def forget_threads(tx: Tx, thread_ids: list[str]) -> int:
    """Remove threads with all their runs."""
    forget_runs(tx, runs.of_threads(tx, thread_ids))
    crons.remove_of_threads(tx, thread_ids)
    return threads.remove(tx, thread_ids)
