"""Everything that happens, as far as the caller may see it, as one stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from checkrail.runs.admit.requests import Principal
from checkrail.runs.events.follower import Feed
from checkrail.server.auth import caller_of
from checkrail.server.deferred import Router
from checkrail.server.fields import LastEvent
from checkrail.server.lookups import can_touch, parse_last_event
from checkrail.server.openapi_models import STREAM
from checkrail.server.renderers import render_record
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import EventStream
from checkrail.server.streams.sse import encode_frame, join_frames
from checkrail.store import records, runs
from checkrail.store.database import Reads
from checkrail.store.records import FeedFilter, StoredRecord

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Types = Annotated[
    list[Annotated[str, StringConstraints(max_length=64, pattern=r"^[a-z_]*\*?$")]],
    Query(max_length=20),
]
Agent = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")]
After = Annotated[int | None, Query(ge=0, lt=2**63)]


@router.get("/events", responses=STREAM)
async def follow_everything(
    request: Request,
    served: Served,
    last_event: LastEvent = None,
    after: After = None,
    types: Types = [],  # noqa: B006 - as FastAPI has it
    agent_name: Agent = None,
) -> Response:
    """Stream what becomes of runs and approvals, and what hooks do, from now on.

    `types` are the events that are wanted, as in `run_*`; it can be repeated.

    With `Last-Event-ID`, or `after`, from a number on: 0 is everything that is kept. The order is
    that of the sequence, but for what several servers do at the same moment.
    """
    asker = await served.principal(request, "events", "read", {"metadata": {}})
    start = parse_last_event(last_event) if last_event is not None else after
    if start is None:
        start = await served.database.read(records.last_seq)
    only = FeedFilter(types, agent_name)
    feed = Feed(served.database, served.runs.parts.hub, start, only)
    whole = caller_of(request).is_admin
    return EventStream(served, _feed_frames(served, feed, asker, whole=whole))


async def _feed_frames(
    served: Services, feed: Feed, asker: Principal, *, whole: bool
) -> AsyncIterator[bytes]:
    async for last, rows in feed.follow():
        seen = await filter_visible(served, rows, asker)
        if not rows:
            yield b""
        for piece in join_frames(_frame_row(last, row, whole=whole) for row in seen):
            yield piece


async def filter_visible(
    served: Services, rows: list[StoredRecord], asker: Principal
) -> list[StoredRecord]:
    """Return the rows that are for the caller; what belongs to no run is for admins."""
    told = [row for row in rows if row.event_type]
    if asker.owner is not None:
        told = [row for row in told if row.owner == asker.owner]
    if asker.filters is None or not told:
        return told

    def find_visible_runs(reads: Reads) -> set[str]:
        found = {row.run_id: runs.get(reads, row.run_id) for row in told if row.run_id}
        return {
            run_id
            for run_id, run in found.items()
            if run is not None and can_touch(reads, run, asker)
        }

    mine = await served.database.read(find_visible_runs)
    return [row for row in told if row.run_id in mine]


def _frame_row(last: int, row: StoredRecord, *, whole: bool) -> bytes:
    number = str(min(last, row.seq))
    record = render_record(row.whole, whole=whole)
    return encode_frame(number, row.event_type, {"seq": row.seq, **record})
