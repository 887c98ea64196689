"""Everything that happens, as far as the caller may see it, as one stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from checkrail.runs.feed import Feed
from checkrail.runs.requests import Asker
from checkrail.server.auth import caller_of
from checkrail.server.documents import STREAM
from checkrail.server.finding import after_of, may_touch
from checkrail.server.routes.runs import LastEvent
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import record_json
from checkrail.server.streaming import EventStream
from checkrail.server.streams.sse import frame, join_frames
from checkrail.store import records, runs
from checkrail.store.database import Reads
from checkrail.store.rows import Row

router = APIRouter(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
After = Annotated[int | None, Query(ge=0, lt=2**63)]


@router.get("/events", responses=STREAM)
async def follow_everything(
    request: Request, served: Served, last_event: LastEvent = None, after: After = None
) -> Response:
    """Stream what becomes of runs and approvals, and what hooks do, from now on.

    With `Last-Event-ID`, or `after`, from a number on: 0 is everything that is kept. The order is
    that of the sequence, but for what several servers do at the same moment.
    """
    asker = await served.asker(request, "events", "read", {"metadata": {}})
    start = after_of(last_event) if last_event is not None else after
    if start is None:
        start = await served.database.read(records.last_seq)
    feed = Feed(served.database, served.runs.parts.hub, start)
    whole = caller_of(request).is_admin
    return EventStream(served, _frames(served, feed, asker, whole=whole))


async def _frames(
    served: Services, feed: Feed, asker: Asker, *, whole: bool
) -> AsyncIterator[bytes]:
    async for last, rows in feed.follow():
        seen = await seen_by(served, rows, asker)
        if not rows:
            yield b""
        for piece in join_frames(_framed(last, row, whole=whole) for row in seen):
            yield piece


async def seen_by(served: Services, rows: list[Row], asker: Asker) -> list[Row]:
    """Leave out what is not for the caller; what belongs to no run is for admins."""
    told = [row for row in rows if row["event_type"]]
    if asker.owner is not None:
        told = [row for row in told if row["owner"] == asker.owner]
    if asker.filters is None or not told:
        return told

    def allowed(reads: Reads) -> set[str]:
        found = {row["run_id"]: runs.get(reads, row["run_id"]) for row in told if row["run_id"]}
        return {
            run_id
            for run_id, run in found.items()
            if run is not None and may_touch(reads, run, asker)
        }

    mine = await served.database.read(allowed)
    return [row for row in told if row["run_id"] in mine]


def _framed(last: int, row: Row, *, whole: bool) -> bytes:
    number = str(min(last, row["seq"]))
    record = record_json(row["record"], whole=whole)
    return frame(number, row["event_type"], {"seq": row["seq"], **record})
