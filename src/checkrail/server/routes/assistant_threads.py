"""Threads that go with the assistant that they were for."""

from __future__ import annotations

import contextlib
from functools import partial
from uuid import UUID

from fastapi import Request

from checkrail.runs.errors import NotFoundError
from checkrail.runs.retention import forget_threads
from checkrail.server.auth import Access, matches
from checkrail.server.services import Services
from checkrail.store import crons, runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page, Row

_AT_ONCE = 100


async def remove_threads(request: Request, served: Services, assistant_id: str) -> None:
    """Remove the threads of an assistant that the caller may delete; those of others stay."""
    wanted = threads.Wanted(metadata={"assistant_id": assistant_id})
    stay = 0

    def batch(reads: Reads) -> list[Row]:
        return threads.search(reads, wanted, Page("thread_id", "asc", _AT_ONCE, stay))

    while rows := await served.database.read(batch):
        for row in rows:
            value = {"thread_id": UUID(row["thread_id"]), "run_id": None}
            _, access = await served.access(request, "threads", "delete", value)
            if _visible(row, access):
                await _remove(served, row["thread_id"])
            else:
                stay += 1


def _visible(row: Row, access: Access) -> bool:
    mine = access.owner in (None, row["owner"])
    return mine and (access.filter is None or matches(access.filter, row["metadata"]))


async def _remove(served: Services, thread_id: str) -> None:
    """Remove a thread once nothing runs on it any more."""
    live = await served.database.read(lambda reads: runs.live_of(reads, thread_id))
    for row in reversed(live):  # from the last: none of them is to begin now
        await served.runs.cancel(row["run_id"], "interrupt", "its thread was deleted")
    for row in live:
        with contextlib.suppress(NotFoundError):
            await served.runs.ended(row["run_id"])
    await served.database.write(partial(_forget, thread_id=thread_id))
    await served.checkpointer.adelete_thread(thread_id)


def _forget(tx: Tx, thread_id: str) -> None:
    crons.remove_of_threads(tx, [thread_id])
    forget_threads(tx, [thread_id])
