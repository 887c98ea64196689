"""Finding a thread, as far as the caller may."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Request

from checkrail.runs.errors import NotFoundError
from checkrail.server.auth import Access, Caller, matches
from checkrail.server.services import Services
from checkrail.store import threads
from checkrail.store.rows import Row


async def found(
    request: Request,
    served: Services,
    thread_id: UUID,
    action: str,
    value: dict[str, Any] | None = None,
) -> tuple[Caller, Row]:
    """Find a thread that the caller may touch; `value` is what is to become of it."""
    told = {} if value is None else value
    told |= {"thread_id": thread_id}
    caller, access = await served.access(request, "threads", action, told)
    row = await served.database.read(lambda reads: threads.get(reads, str(thread_id)))
    if row is None or not visible(row, access):
        raise missing(str(thread_id))
    return caller, row


def visible(row: Row, access: Access) -> bool:
    """Return whether a caller may touch a thread."""
    mine = access.owner in (None, row["owner"])
    return mine and (access.filter is None or matches(access.filter, row["metadata"]))


def missing(thread_id: str) -> NotFoundError:
    """Say that there is no such thread; one of somebody else is none."""
    return NotFoundError(f"thread {thread_id!r} not found. Create it first")
