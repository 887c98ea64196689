"""Runs by their own ids: listed, read with what hooks did to them, followed, and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from checkrail.runs.errors import NotFoundError
from checkrail.server.auth import caller_of
from checkrail.server.deferred import Router
from checkrail.server.fields import Action, LastEvent, Limit, Status
from checkrail.server.lookups import can_touch, find_run, parse_last_event, to_text
from checkrail.server.openapi_models import PROBLEMS, RUNS, STREAM, Answers, Delivery, EndedRun
from checkrail.server.renderers import (
    render_delivery,
    render_ended_run,
    render_record,
    render_run,
)
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.runs import cancel_and_answer
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import EventStream
from checkrail.server.streams.sse import encode_frame, join_frames
from checkrail.store import deliveries, records, runs
from checkrail.store.database import Reads
from checkrail.store.events import RunEvent
from checkrail.store.records import StoredRecord
from checkrail.store.runs import Run

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")]
After = Annotated[int, Query(ge=0, lt=2**63)]


class WholeRun(EndedRun):
    """A run with what it came to, and what is owed for it."""

    output: Any = None
    deliveries: list[Delivery]


WHOLE_RUN: Answers = {200: {"model": WholeRun}, **PROBLEMS}
RECORDS: Answers = {200: {"model": list[dict[str, Any]]}, **PROBLEMS}


@router.get("/runs", responses=RUNS)
async def list_all_runs(
    request: Request,
    served: Served,
    limit: Limit = 20,
    before: Annotated[UUID | None, Query()] = None,
    status: Annotated[Status | None, Query()] = None,
    agent_name: Name = None,
    thread_id: Annotated[UUID | None, Query()] = None,
    session_id: Annotated[UUID | None, Query()] = None,
    parent_run_id: Annotated[UUID | None, Query()] = None,
    live: Annotated[bool, Query()] = False,
) -> Response:
    """List runs, the newest first; the next page are those `before` the last of this one."""
    asker = await served.principal(request, "threads", "search", {"thread_id": thread_id})

    def find_page(reads: Reads) -> list[Run]:
        last = None if before is None else runs.get(reads, str(before))
        if before is not None and (last is None or not can_touch(reads, last, asker)):
            raise NotFoundError(f"run {str(before)!r} to go on from was not found")
        return runs.search(
            reads,
            owner=asker.owner,
            filters=asker.filters,
            before=None if last is None else last.seq,
            status=status,
            agent_name=agent_name,
            thread_id=to_text(thread_id),
            session_id=to_text(session_id),
            parent_run_id=to_text(parent_run_id),
            live=live or status in ("pending", "running"),  # which has an index of its own
            limit=limit,
        )

    return JsonResponse([render_run(row) for row in await served.database.read(find_page)])


@router.get("/runs/{run_id}", responses=WHOLE_RUN)
async def get_run_by_id(request: Request, served: Served, run_id: UUID) -> Response:
    """Return a run, what it came to, and what is owed for it."""
    row = await find_run(request, served, run_id, "read")
    owed = await served.database.read(lambda reads: deliveries.of_run(reads, row.run_id))
    whole = caller_of(request).is_admin
    told = {
        "output": row.output,
        "deliveries": [render_delivery(each, whole=whole) for each in owed],
    }
    return JsonResponse(render_ended_run(row) | told)


@router.get("/runs/{run_id}/hooks", responses=RECORDS)
async def list_records(
    request: Request, served: Served, run_id: UUID, after: After = 0, limit: Limit = 1000
) -> Response:
    """Return the records of a run's hooks in order, those `after` a number."""
    row = await find_run(request, served, run_id, "read")
    found = _read_records(served, row.run_id, after, limit)
    listed = _render_array(found, whole=caller_of(request).is_admin)
    return StreamingResponse(listed, media_type="application/json")


async def _read_records(
    served: Services, run_id: str, after: int, limit: int
) -> AsyncIterator[list[StoredRecord]]:
    """Read the records of a run page by page, so that one who reads slowly holds one page."""
    while limit > 0:
        read = partial(records.of_run, run_id=run_id, limit=limit, after=after)
        page = await served.database.read(read)
        if not page:
            return
        yield page
        after, limit = page[-1].seq, limit - len(page)


async def _render_array(
    pages: AsyncIterator[list[StoredRecord]], *, whole: bool
) -> AsyncIterator[bytes]:
    """Write records as one JSON array."""
    before = b"["
    async for page in pages:
        told = ({"seq": row.seq, **render_record(row.record, whole=whole)} for row in page)
        for piece in join_frames(b"," + orjson.dumps(each) for each in told):
            yield before + piece[1:] if before == b"[" else piece
            before = b""
    yield before + b"]"


@router.get("/runs/{run_id}/events", responses=STREAM)
async def follow_run(
    request: Request, served: Served, run_id: UUID, last_event: LastEvent = None
) -> Response:
    """Stream the events of a run as they are kept, after the last one that the client has."""
    after = parse_last_event(last_event)
    row = await find_run(request, served, run_id, "read")
    anew = not (last_event or "").isdigit()
    whole = caller_of(request).is_admin
    return EventStream(served, _event_frames(served, row.run_id, after, anew=anew, whole=whole))


async def _event_frames(
    served: Services, run_id: str, after: int, *, anew: bool, whole: bool
) -> AsyncIterator[bytes]:
    """Yield the events of a run; what hooks did before there was a run to tell of comes first."""
    if anew:
        await served.runs.parts.log.flush()
        found = await served.database.read(lambda reads: records.before_run(reads, run_id))
        if found:
            yield _record_frames(found, whole=whole)
    async for batch in served.runs.follow(run_id, after):
        if not batch:
            yield b""
        for piece in join_frames(_frame_event(event, whole=whole) for event in batch):
            yield piece


def _record_frames(rows: list[StoredRecord], *, whole: bool) -> bytes:
    """Frame records that came before the first event: whoever has them all needs none again."""
    told = [(row.event_type, render_record(row.record, whole=whole)) for row in rows]
    *before, last = [
        (name, {"seq": 0, "event": name, "ns": [], "data": data}) for name, data in told
    ]
    return b"".join([*(encode_frame(None, *told) for told in before), encode_frame("0", *last)])


def _frame_event(event: RunEvent, *, whole: bool) -> bytes:
    told = {"seq": event.seq, "event": event.event, "ns": event.ns}
    given: Any = orjson.Fragment(event.raw)
    if not whole and event.event == "hook_failed":
        given = render_record(orjson.loads(event.raw), whole=False)
    data = orjson.dumps(told | {"data": given})
    return encode_frame(str(event.seq), event.event, data)


@router.post("/runs/{run_id}/cancel", status_code=202, response_class=Response, responses=PROBLEMS)
async def cancel_run_by_id(
    request: Request,
    served: Served,
    run_id: UUID,
    wait: Annotated[bool, Query()] = False,
    action: Action = "interrupt",
) -> Response:
    """Cancel a run; cancelling it again changes nothing, and one that is over is a conflict."""
    row = await find_run(request, served, run_id, "update")
    return await cancel_and_answer(served, row, action, wait=wait)
