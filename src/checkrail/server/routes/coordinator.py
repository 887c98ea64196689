"""Runs by their own ids: listed, read with what hooks did to them, followed, and cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from fastapi import Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import NotFoundError
from checkrail.runs.steps import build_attempts
from checkrail.server.auth import caller_of
from checkrail.server.deferred import Router
from checkrail.server.fields import (
    Action,
    LastEvent,
    Limit,
    Status,
    choice_validator,
    to_seconds,
)
from checkrail.server.lookups import can_touch, find_run, parse_last_event, to_text
from checkrail.server.openapi_models import PROBLEMS, RUNS, STREAM, Answers, Delivery, EndedRun
from checkrail.server.renderers import (
    render_delivery,
    render_ended_run,
    render_listed_run,
    render_record,
    render_run,
    render_time,
)
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.runs import cancel_and_answer
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import EventStream
from checkrail.server.streams.sse import encode_frame, join_frames
from checkrail.store import deliveries, events, records, runs
from checkrail.store.database import Reads
from checkrail.store.deliveries import Delivery as Owed
from checkrail.store.events import RunEvent
from checkrail.store.records import StoredRecord
from checkrail.store.run_lists import (
    HOOKS,
    PHASES,
    STATUSES,
    RunFilter,
    RunPage,
    count_runs,
    list_runs,
)

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")]
After = Annotated[int, Query(ge=0, lt=2**63)]


Phase = Annotated[str, choice_validator(*PHASES)]
HookFigure = Annotated[str, choice_validator(*HOOKS)]


class RunCount(BaseModel, defer_build=True):
    """How many runs there are, up to a number; `capped`: there are more."""

    count: int
    capped: bool
    by: dict[str, int] | None = None


COUNT: Answers = {200: {"model": RunCount}, **PROBLEMS}


class Attempt(BaseModel, defer_build=True):
    """Who has worked on a run, when, and how that ended: `waiting`, `lost`, or as the run did."""

    attempt: int
    worker_id: str | None = None
    name: str | None = None
    host: str | None = None
    started_at: str
    ended_at: str | None = None
    end: str | None = None


class WholeRun(EndedRun):
    """A run with what it came to, and what is owed for it."""

    output: Any = None
    attempts: list[Attempt]
    deliveries: list[Delivery]


WHOLE_RUN: Answers = {200: {"model": WholeRun}, **PROBLEMS}
RECORD: Answers = {200: {"model": dict[str, Any]}, **PROBLEMS}
RECORDS: Answers = {200: {"model": list[dict[str, Any]]}, **PROBLEMS}


def _read_filter(
    status: Annotated[list[Status], Query()] = [],  # noqa: B006 - as FastAPI has it
    phase: Annotated[list[Phase], Query()] = [],  # noqa: B006
    hooks: Annotated[list[HookFigure], Query()] = [],  # noqa: B006
    agent_name: Name = None,
    user_id: Name = None,
    origin: Name = None,
    thread_id: Annotated[UUID | None, Query()] = None,
    session_id: Annotated[UUID | None, Query()] = None,
    parent_run_id: Annotated[UUID | None, Query()] = None,
    since: Annotated[datetime | None, Query(alias="from")] = None,
    until: Annotated[datetime | None, Query(alias="to")] = None,
    live: Annotated[bool, Query()] = False,
    q: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
) -> RunFilter:
    """Read which runs are wanted.

    `status`, `phase` and `hooks` can be repeated: runs with any of them. `hooks` is what hooks did
    in a run. `q` is looked for in ids, summaries and errors.
    """
    return RunFilter(
        statuses=status,
        phases=phase,
        hooks=hooks,
        agent_name=agent_name,
        user_id=user_id,
        origin=origin,
        thread_id=to_text(thread_id),
        session_id=to_text(session_id),
        parent_run_id=to_text(parent_run_id),
        since=to_seconds(since),
        until=to_seconds(until),
        live=live or (bool(status) and {*status} <= {"pending", "running"}),  # it has an index
        text=(q or "").strip(),
    )


Wanted = Annotated[RunFilter, Depends(_read_filter)]


async def _filter_for(
    request: Request, served: Served, wanted: RunFilter
) -> tuple[Principal, RunFilter]:
    """Return who asks, and the filter for what they may see of what is wanted."""
    thread_id = None if wanted.thread_id is None else UUID(wanted.thread_id)
    asker = await served.principal(request, "threads", "search", {"thread_id": thread_id})
    return asker, replace(wanted, owner=asker.owner, filters=asker.filters)


@router.get("/runs", responses=RUNS)
async def list_all_runs(
    request: Request,
    served: Served,
    wanted: Wanted,
    limit: Limit = 20,
    before: Annotated[UUID | None, Query()] = None,
    fields: Annotated[Literal["list"] | None, Query()] = None,
) -> Response:
    """List runs, the newest first; the next page are those `before` the last of this one.

    With `fields=list` they are without what they were given and came to. Where a search by `q`
    stopped before it had seen all runs, `X-Searched-To` says how far back it looked.
    """
    asker, wanted = await _filter_for(request, served, wanted)

    def find_page(reads: Reads) -> RunPage:
        last = None if before is None else runs.get(reads, str(before))
        if before is not None and (last is None or not can_touch(reads, last, asker)):
            raise NotFoundError(f"run {str(before)!r} to go on from was not found")
        seq = None if last is None else last.seq
        page = list_runs(reads, wanted, before=seq, limit=limit, narrow=fields is not None)
        return replace(page, rows=_count_live(reads, page.rows))

    page = await served.database.read(find_page)
    render: Any = render_run if fields is None else render_listed_run
    headers = {}
    if len(page.rows) == limit:
        following = request.url.include_query_params(before=page.rows[-1].run_id)
        headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    if page.searched_to is not None:
        headers["X-Searched-To"] = render_time(page.searched_to) or ""
    return JsonResponse([render(row) for row in page.rows], headers=headers)


@router.get("/runs/count", responses=COUNT)
async def count_all_runs(
    request: Request,
    served: Served,
    wanted: Wanted,
    cap: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    by: Annotated[Literal["status", "phase"] | None, Query()] = None,
) -> Response:
    """Count runs up to a number, and `by` their status or phase, each up to that number."""
    _, wanted = await _filter_for(request, served, wanted)

    def count(reads: Reads) -> dict[str, Any]:
        total = count_runs(reads, wanted, cap + 1)
        told = {"count": min(total, cap), "capped": total > cap}
        if by is None:
            return told
        if by == "status":
            each = [(name, replace(wanted, statuses=[name])) for name in STATUSES]
            asked = wanted.statuses
        else:
            each = [(name, replace(wanted, phases=[name])) for name in PHASES]
            asked = wanted.phases
        counts = {
            name: min(cap, count_runs(reads, one, cap + 1))
            for name, one in each
            if not asked or name in asked
        }
        return told | {"by": {name: number for name, number in counts.items() if number}}

    return JsonResponse(await served.database.read(count))


def _count_live(reads: Reads, rows: list[Any]) -> list[Any]:
    """Count the hooks of runs that have not ended by their records: they are with no run yet."""
    live = [row.run_id for row in rows if row.ended_at is None]
    counts = records.count_calls(reads, live) if live else {}
    return [
        replace(row, **counts[row.run_id].columns()) if row.run_id in counts else row
        for row in rows
    ]


@router.get("/runs/{run_id}", responses=WHOLE_RUN)
async def get_run_by_id(request: Request, served: Served, run_id: UUID) -> Response:
    """Return a run, what it came to, who has worked on it, and what is owed for it."""
    row = await find_run(request, served, run_id, "read")

    def load_more(reads: Reads) -> tuple[list[Owed], list[RunEvent]]:
        return deliveries.of_run(reads, row.run_id), events.marks_of_run(reads, row.run_id)

    owed, marks = await served.database.read(load_more)
    whole = caller_of(request).is_admin
    told = {
        "output": row.output,
        "attempts": [
            {**each, **{name: render_time(each[name]) for name in ("started_at", "ended_at")}}
            for each in build_attempts(row, marks)
        ],
        "deliveries": [render_delivery(each, whole=whole) for each in owed],
    }
    return JsonResponse(render_ended_run(row) | told)


@router.get("/runs/{run_id}/hooks", responses=RECORDS)
async def list_records(
    request: Request,
    served: Served,
    run_id: UUID,
    after: After = 0,
    limit: Limit = 1000,
    fields: Annotated[Literal["summary"] | None, Query()] = None,
) -> Response:
    """Return the records of a run's hooks in order, those `after` a number.

    With `fields=summary` they are without the values that hooks changed.
    """
    row = await find_run(request, served, run_id, "read")
    if fields is not None:
        whole = caller_of(request).is_admin
        read = partial(records.summaries_of_run, run_id=row.run_id, limit=limit, after=after)
        page = await served.database.read(read)
        told = [{"seq": seq, **render_record(each, whole=whole)} for seq, each in page]
        return JsonResponse(told)
    found = _read_records(served, row.run_id, after, limit)
    listed = _render_array(found, whole=caller_of(request).is_admin)
    return StreamingResponse(listed, media_type="application/json")


@router.get("/runs/{run_id}/hooks/{record_id}", responses=RECORD)
async def get_record(request: Request, served: Served, run_id: UUID, record_id: UUID) -> Response:
    """Return one record of a run's hooks, with the values that the hook changed."""
    row = await find_run(request, served, run_id, "read")
    read = partial(records.find_in_run, run_id=row.run_id, record_id=str(record_id))
    found = await served.database.read(read)
    if found is None:
        raise NotFoundError(f"record {str(record_id)!r} of run {row.run_id!r} not found")
    told = render_record(found.whole, whole=caller_of(request).is_admin)
    return JsonResponse({"seq": found.seq, **told})


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
        told = ({"seq": row.seq, **render_record(row.whole, whole=whole)} for row in page)
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
    told = [(row.event_type, row.created_at, render_record(row.whole, whole=whole)) for row in rows]
    *before, last = [
        (name, {"seq": 0, "event": name, "ns": [], "time": at, "data": data})
        for name, at, data in told
    ]
    return b"".join([*(encode_frame(None, *told) for told in before), encode_frame("0", *last)])


def _frame_event(event: RunEvent, *, whole: bool) -> bytes:
    told = {"seq": event.seq, "event": event.event, "ns": event.ns, "time": event.time}
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
