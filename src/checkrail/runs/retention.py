"""Retention: runs, events, records and threads that are too old are removed, a few at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.finish.question_ends import withdraw_questions
from checkrail.runs.graphs import thread_rows
from checkrail.runs.services import RunServices
from checkrail.store import (
    approvals,
    crons,
    deliveries,
    events,
    gateway_calls,
    idempotency,
    items,
    messages,
    records,
    runs,
    sessions,
    state_updates,
    threads,
    workers,
)
from checkrail.store.database import Database, Reads, Tx

_AT_ONCE = 200
_DAY = 86_400.0
_HOUR = 3_600.0
_REPLAYED = 7 * _DAY  # for so long a message that comes once more is known


class Retention:
    """Removes what the settings say is too old."""

    def __init__(self, parts: RunServices) -> None:
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
            await self._remove_events(now - settings.keep_events)
        if settings.keep_deliveries is not None:
            before = now - settings.keep_deliveries
            await self._parts.database.write(partial(deliveries.forget_before, when=before))
        if settings.keep_calls is not None:
            before = now - settings.keep_calls
            while await self._parts.database.write(
                partial(gateway_calls.forget_before, when=before)
            ):
                pass
            await self._parts.database.write(partial(approvals.forget_of_gateway, when=before))
        if settings.keep_stateless is not None:
            await self._remove_runs(now - settings.keep_stateless, temporary=True)
        if settings.keep_runs is not None:
            await self._remove_runs(now - settings.keep_runs)
            await self._remove_messages(now - max(settings.keep_runs, _REPLAYED))
        await self._remove_threads(now)
        await self._remove_items(now)

    async def _remove_runs(self, before: float, *, temporary: bool = False) -> None:
        def find_old_runs(reads: Reads) -> list[str]:
            return runs.ended_before(reads, before, _AT_ONCE, temporary=temporary)

        while found := await self._parts.database.read(find_old_runs):
            await self._parts.database.write(partial(forget_runs, run_ids=found))

    async def _remove_messages(self, before: float) -> None:
        forget = partial(messages.forget_before, when=before, most=_AT_ONCE)
        while await self._parts.database.write(forget):
            pass

    async def _remove_events(self, before: float) -> None:
        while await self._parts.database.write(
            lambda tx: events.forget_ended_before(tx, before, _AT_ONCE)
        ):
            pass
        while await self._parts.database.write(
            lambda tx: state_updates.forget_before(tx, before, _AT_ONCE)
        ):
            pass

    async def _remove_threads(self, now: float) -> None:
        """Remove threads whose time to live is over; one that is busy lives on."""

        def find_expired_threads(reads: Reads) -> list[tuple[str, str | None]]:
            found = threads.find_expired(reads, now, _AT_ONCE)
            return [(row.thread_id, row.ttl_strategy) for row in found]

        for thread_id, strategy in await self._parts.database.read(find_expired_threads):
            saver = self._parts.checkpointer
            if strategy == "keep_latest":
                await prune_thread(self._parts.database, saver, thread_id)
                await self._parts.database.write(
                    partial(threads.update_thread, thread_id=thread_id, expires_at=None)
                )
            else:
                forget = partial(forget_expired, thread_id=thread_id, now=now)
                if await self._parts.database.write(forget):
                    await thread_rows.delete_thread(saver, thread_id)

    async def _remove_items(self, now: float) -> None:
        """Count items of the store no longer that have expired; a read may let one live on."""
        find_store = self._parts.find_store
        found = await self._parts.database.read(
            lambda reads: items.find_expired(reads, now, _AT_ONCE)
        )
        if not found or find_store is None:
            return
        store = await find_store()
        for row in found:
            place = tuple(row.namespace.split("."))
            if await store.aget(place, row.key, refresh_ttl=False) is None:
                change = partial(items.remove_same, item=row)
            else:
                change = partial(
                    items.set_look_at, item=row, when=now + min(row.ttl_seconds or _HOUR, _HOUR)
                )
            await self._parts.database.write(change)


async def prune_thread(database: Database, saver: Any, thread_id: str) -> None:
    """Delete the history of a thread but its latest state, and count what is left of it."""
    await thread_rows.prune_threads(saver, [thread_id], keep_latest=True)
    left = await thread_rows.stored_size(saver, thread_id)

    def update_size(tx: Tx) -> None:
        row = threads.lock(tx, thread_id)
        state_updates.forget(tx, [thread_id])
        if row is not None and row.stored_bytes:
            size = left + stored_size(row.metadata)
            threads.update_thread(tx, thread_id, stored_bytes=min(row.stored_bytes, size))

    await database.write(update_size)


def forget_runs(tx: Tx, run_ids: list[str]) -> None:
    """Remove runs with all that was kept of them; deliveries that are owed stay."""
    events.remove_of_runs(tx, run_ids)
    records.remove_of_runs(tx, run_ids)
    withdraw_questions(tx, run_ids)
    approvals.remove_of_runs(tx, run_ids)
    deliveries.remove_of_runs(tx, run_ids)
    runs.remove(tx, run_ids)


def forget_expired(tx: Tx, thread_id: str, now: float) -> bool:
    """Remove a thread, unless it was used again since somebody looked."""
    row = threads.lock(tx, thread_id)
    if row is None or row.expires_at is None or row.expires_at > now:
        return False
    if runs.live_ids(tx, thread_id=thread_id) or messages.has_unfinished(tx, thread_id):
        return False
    return bool(forget_threads(tx, [thread_id]))


def forget_threads(tx: Tx, thread_ids: list[str]) -> int:
    """Remove threads with all their runs."""
    forget_runs(tx, runs.of_threads(tx, thread_ids))
    crons.remove_of_threads(tx, thread_ids)
    state_updates.forget(tx, thread_ids)
    messages.remove_of_threads(tx, thread_ids)
    session_ids = threads.session_ids(tx, thread_ids)
    removed = threads.remove(tx, thread_ids)
    sessions.remove_empty(tx, session_ids)
    return removed
