"""Threads that go with the assistant that they were for."""

from __future__ import annotations

from uuid import UUID

from fastapi import Request

from checkrail.server.routes.thread_access import visible
from checkrail.server.routes.thread_removal import remove_thread
from checkrail.server.services import Services
from checkrail.store import threads
from checkrail.store.database import Reads
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
            if visible(row, access):
                await remove_thread(served, row["thread_id"])
            else:
                stay += 1
