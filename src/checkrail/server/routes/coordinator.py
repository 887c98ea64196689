"""Runs by their own ids: listed, read with what hooks did to them, followed, and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from checkrail.runs.errors import NotFoundError
from checkrail.server.answers import Json
from checkrail.server.auth import caller_of
from checkrail.server.documents import PROBLEMS, RUNS, STREAM, Answers, EndedRun
from checkrail.server.finding import after_of, find_run, may_touch, text_of
from checkrail.server.routes.runs import Action, LastEvent, Limit, Status, cancelled
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import record_json, run_json, when, whole_run_json
from checkrail.server.streaming import EventStream
from checkrail.server.streams.sse import frame, join_frames
from checkrail.store import deliveries, records, runs
from checkrail.store.database import Reads
from checkrail.store.events import RunEvent
from checkrail.store.rows import Row

router = APIRouter(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")]
After = Annotated[int, Query(ge=0, lt=2**63)]


class Delivery(BaseModel):
    """What is owed when a run has ended: a finish hook, or a webhook."""

    delivery_id: str
    kind: str
    status: str
    attempts: int
    last_error: str | None = None
    due_at: str | None = None
    ended_at: str | None = None


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
    asker = await served.asker(request, "threads", "search", {"thread_id": thread_id})

    def find(reads: Reads) -> list[Row]:
        last = None if before is None else runs.get(reads, str(before))
        if before is not None and (last is None or not may_touch(reads, last, asker)):
            raise NotFoundError(f"run {str(before)!r} to go on from was not found")
        return runs.search(
            reads,
            owner=asker.owner,
            filters=asker.filters,
            before=None if last is None else last["seq"],
            status=status,
            agent_name=agent_name,
            thread_id=text_of(thread_id),
            session_id=text_of(session_id),
            parent_run_id=text_of(parent_run_id),
            live=live or status in ("pending", "running"),  # which has an index of its own
            limit=limit,
        )

    return Json([run_json(row) for row in await served.database.read(find)])


@router.get("/runs/{run_id}", responses=WHOLE_RUN)
async def get_run_by_id(request: Request, served: Served, run_id: UUID) -> Response:
    """Return a run, what it came to, and what is owed for it."""
    row = await find_run(request, served, run_id, "read")
    owed = await served.database.read(lambda reads: deliveries.of_run(reads, row["run_id"]))
    whole = caller_of(request).is_admin
    told = {"output": row["output"], "deliveries": [_delivery(each, whole=whole) for each in owed]}
    return Json(whole_run_json(row) | told)


def _delivery(row: Row, *, whole: bool) -> dict[str, Any]:
    """Return what is owed; why a hook's delivery failed is for who sees it `whole`."""
    owed = row["status"] == "owed"
    error = row["last_error"]
    if error is not None and row["kind"] != "webhook" and not whole:
        error = f"the {row['kind']} failed. Admins can see what its error was"
    return {
        **{name: row[name] for name in ("delivery_id", "kind", "status", "attempts")},
        "last_error": error,
        "due_at": when(row["due_at"]) if owed else None,
        "ended_at": when(row["ended_at"]),
    }


@router.get("/runs/{run_id}/hooks", responses=RECORDS)
async def list_records(
    request: Request, served: Served, run_id: UUID, after: After = 0, limit: Limit = 1000
) -> Response:
    """Return the records of a run's hooks in order, those `after` a number."""
    row = await find_run(request, served, run_id, "read")
    found = _records(served, row["run_id"], after, limit)
    listed = _listed(found, whole=caller_of(request).is_admin)
    return StreamingResponse(listed, media_type="application/json")


async def _records(
    served: Services, run_id: str, after: int, limit: int
) -> AsyncIterator[list[Row]]:
    """Read the records of a run page by page, so that one who reads slowly holds one page."""
    while limit > 0:
        read = partial(records.of_run, run_id=run_id, limit=limit, after=after)
        page = await served.database.read(read)
        if not page:
            return
        yield page
        after, limit = page[-1]["seq"], limit - len(page)


async def _listed(pages: AsyncIterator[list[Row]], *, whole: bool) -> AsyncIterator[bytes]:
    """Write records as one JSON array."""
    before = b"["
    async for page in pages:
        told = ({"seq": row["seq"], **record_json(row["record"], whole=whole)} for row in page)
        for piece in join_frames(b"," + orjson.dumps(each) for each in told):
            yield before + piece[1:] if before == b"[" else piece
            before = b""
    yield before + b"]"


@router.get("/runs/{run_id}/events", responses=STREAM)
async def follow_run(
    request: Request, served: Served, run_id: UUID, last_event: LastEvent = None
) -> Response:
    """Stream the events of a run as they are kept, after the last one that the client has."""
    after = after_of(last_event)
    row = await find_run(request, served, run_id, "read")
    anew = not (last_event or "").isdigit()
    whole = caller_of(request).is_admin
    return EventStream(served, _frames(served, row["run_id"], after, anew=anew, whole=whole))


async def _frames(
    served: Services, run_id: str, after: int, *, anew: bool, whole: bool
) -> AsyncIterator[bytes]:
    """Yield the events of a run; what hooks did before there was a run to tell of comes first."""
    if anew:
        await served.runs.parts.log.flush()
        found = await served.database.read(lambda reads: records.before_run(reads, run_id))
        if found:
            yield _framed_records(found, whole=whole)
    async for batch in served.runs.follow(run_id, after):
        if not batch:
            yield b""
        for piece in join_frames(_framed(event, whole=whole) for event in batch):
            yield piece


def _framed_records(rows: list[Row], *, whole: bool) -> bytes:
    """Frame records that came before the first event: whoever has them all needs none again."""
    told = [(row["event_type"], record_json(row["record"], whole=whole)) for row in rows]
    *before, last = [
        (name, {"seq": 0, "event": name, "ns": [], "data": data}) for name, data in told
    ]
    return b"".join([*(frame(None, *told) for told in before), frame("0", *last)])


def _framed(event: RunEvent, *, whole: bool) -> bytes:
    told = {"seq": event.seq, "event": event.event, "ns": event.ns}
    given: Any = orjson.Fragment(event.raw)
    if not whole and event.event == "hook_failed":
        given = record_json(orjson.loads(event.raw), whole=False)
    data = orjson.dumps(told | {"data": given})
    return frame(str(event.seq), event.event, data)


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
    return await cancelled(served, row, action, wait=wait)
