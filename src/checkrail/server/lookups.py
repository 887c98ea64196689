"""Finding runs that a caller may touch; all others are not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from starlette.requests import HTTPConnection, Request

from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import matches_filter
from checkrail.server.services import Services
from checkrail.store import runs, sessions, threads
from checkrail.store.database import Reads
from checkrail.store.runs import Run
from checkrail.store.sessions import Session
from checkrail.store.threads import Thread


async def find_run(request: Request, served: Services, run_id: UUID, action: str) -> Run:
    """Return a run by its id alone."""
    row = await served.database.read(lambda reads: runs.get(reads, str(run_id)))
    thread_id = None if row is None else row.thread_id
    value: dict[str, Any] = {"thread_id": _parse_uuid(thread_id), "run_id": run_id}
    asker = await served.principal(request, "threads", action, value)
    if row is None or not await served.database.read(lambda reads: can_touch(reads, row, asker)):
        raise NotFoundError(f"run {str(run_id)!r} not found")
    return row


async def check_thread(
    connection: HTTPConnection,
    served: Services,
    thread_id: UUID,
    action: str,
    *,
    may_be_new: bool = False,
) -> Principal:
    """Return the principal for a thread, or raise if it is not theirs; it `may_be_new`, and absent.

    Whoever listens to it has to look again when there is a run: see `may_follow`.
    """
    asker = await served.principal(connection, "threads", action, {"thread_id": thread_id})
    row = await served.database.read(lambda reads: threads.get(reads, str(thread_id)))
    if row is None and may_be_new:
        return asker
    mine = row is not None and asker.owner in (None, row.owner)
    if row is None or not mine or not _matches_filters(asker, row.metadata):
        raise NotFoundError(f"thread {str(thread_id)!r} not found")
    return asker


def can_follow(reads: Reads, row: Run | Thread, asker: Principal) -> bool:
    """Return whether the thread of a run is the caller's: it may be new."""
    thread = threads.get(reads, row.thread_id)
    if thread is None:
        return can_touch(reads, row, asker)
    return asker.owner in (None, thread.owner) and _matches_filters(asker, thread.metadata)


async def find_session(
    connection: HTTPConnection, served: Services, session_id: UUID, action: str
) -> Session:
    """Return a session; to auth handlers it is a thread."""
    value: dict[str, Any] = {"session_id": session_id, "metadata": {}}
    asker = await served.principal(connection, "sessions", action, value)
    row = await served.database.read(lambda reads: sessions.get(reads, str(session_id)))
    mine = row is not None and asker.owner in (None, row.owner)
    if row is None or not mine or not _matches_filters(asker, row.metadata):
        raise NotFoundError(f"session {str(session_id)!r} not found")
    return row


def _matches_filters(asker: Principal, metadata: Mapping[str, Any]) -> bool:
    return asker.filters is None or matches_filter(asker.filters, metadata)


def parse_last_event(last_event: str | None) -> int:
    """Parse the last event that a client has; nothing, `-` and `-1` are nothing yet."""
    if last_event is None or last_event in ("", "-", "-1"):
        return 0
    if not _is_number(last_event):
        raise InvalidError(f"Last-Event-ID is the number of an event, not {last_event[:40]!r}")
    return int(last_event)


def parse_any_last_event(last_event: str | None) -> int:
    """Return what a client of LangGraph has; of ids that are another server's, it has nothing."""
    return int(last_event) if last_event is not None and _is_number(last_event) else 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def can_touch(reads: Reads, row: Run | Thread, asker: Principal) -> bool:
    """Return whether a run is the caller's, and what the auth handlers let through."""
    if asker.owner not in (None, row.owner):
        return False
    if asker.filters is None:
        return True
    thread = threads.get(reads, row.thread_id)
    return matches_filter(asker.filters, row.metadata if thread is None else thread.metadata)


def owner_without_metadata(asker: Principal) -> str | None:
    """Return whose rows somebody may see that have no metadata; None: everybody's.

    No filter of an auth handler can match those, so that the rule of owners holds.
    """
    return asker.owner if asker.filters is None else asker.owner_of_new


def to_text(number: UUID | None) -> str | None:
    """Return an id as it is stored."""
    return None if number is None else str(number)


def _parse_uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
