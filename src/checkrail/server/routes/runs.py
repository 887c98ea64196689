"""Runs on threads, and runs that have none: the same routes, with a thread in the path or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.requests import Asker
from checkrail.runs.retention import forget_runs
from checkrail.server.agent_runs import answered, run_agent
from checkrail.server.answers import Json
from checkrail.server.asking import admitted
from checkrail.server.auth import caller_of, matches
from checkrail.server.bodies import CancelMany, RunBody
from checkrail.server.coordinator_bodies import AgentRunBody, AnyRunBody
from checkrail.server.documents import ANY_RUN, RUN, RUNS, STREAM, VALUES
from checkrail.server.finding import after_any, may_touch
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import created_run, path_of, run_json, selected
from checkrail.server.streaming import Awaited, EventStream, Gone, place_for_stream
from checkrail.server.streams.modes import StreamModeError, stream_modes
from checkrail.server.streams.sse import SseView, frame, join_frames
from checkrail.store import runs, threads
from checkrail.store.database import Reads
from checkrail.store.rows import Row

router = APIRouter(tags=["runs"])

_CANCEL_SECONDS = 1.0  # how long an answer waits for a cancelled run to end

Served = Annotated[Services, Depends(services_of)]
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=255)]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID")]
Action = Annotated[Literal["interrupt", "rollback"], Query()]
Status = Literal["pending", "running", "success", "error", "timeout", "interrupted"]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


async def _found(request: Request, served: Services, ids: tuple[UUID, UUID], action: str) -> Row:
    """Find a run of a thread that the caller may touch."""
    thread_id, run_id = map(str, ids)
    value = {"thread_id": ids[0], "run_id": ids[1]}
    asker = await served.asker(request, "threads", action, value)

    def find(reads: Reads) -> Row | None:
        row = runs.get(reads, run_id)
        if row is None or row["thread_id"] != thread_id:
            return None
        return row if may_touch(reads, row, asker) else None

    found = await served.database.read(find)
    if found is None:
        raise NotFoundError(f"run {run_id!r} not found on the thread {thread_id!r}")
    return found


def result_of(row: Row) -> bytes:
    """Return what a run came to: its values, with what it waits for, or its error."""
    if row["status"] in ("error", "timeout"):
        error = {"error": row["error_type"] or "Error", "message": row["error"] or ""}
        return jsons.dumps({"__error__": error})
    return jsons.dumps(row["output"])


async def _result(served: Services, run_id: str) -> bytes:
    try:
        return result_of(await served.runs.ended(run_id))
    except NotFoundError as gone:  # it was rolled back before anybody began with it
        error = {"error": "CancelledError", "message": str(gone)}
        return jsons.dumps({"__error__": error})


def _gone(served: Services, run_id: str, on_disconnect: str) -> Gone | None:
    if on_disconnect != "cancel":
        return None
    return partial(served.runs.cancel, run_id, "interrupt", "the client disconnected")


async def _frames(served: Services, row: Row, view: SseView, after: int) -> AsyncIterator[bytes]:
    start = 0 if view.stateful else after
    async for batch in served.runs.follow(row["run_id"], start):
        if not batch:
            yield b""
        for piece in join_frames(frame(*shown) for event in batch for shown in view.feed(event)):
            yield piece


def _places(row: Row, way: str) -> dict[str, str]:
    """Return where a run is, and where somebody who was cut off goes on."""
    path = path_of(row)
    return {"content-location": path, "location": f"{path}/{way}"}


def _stream(served: Services, row: Row, body: RunBody) -> Response:
    view = SseView(body.stream_mode, subgraphs=body.stream_subgraphs)
    return EventStream(
        served,
        _frames(served, row, view, 0),
        _places(row, "stream"),
        _gone(served, row["run_id"], body.on_disconnect),
        placed=True,
    )


def _wait(served: Services, row: Row, body: RunBody) -> Response:
    return Awaited(
        served,
        _result(served, row["run_id"]),
        _places(row, "join"),
        _gone(served, row["run_id"], body.on_disconnect),
        placed=True,
    )


@router.post("/threads/{thread_id}/runs", responses=ANY_RUN)
async def create_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and answer at once."""
    [row] = await admitted(request, served, [(body, str(thread_id))], key)
    return answered(created_run(row))


@router.post("/threads/{thread_id}/runs/stream", responses=STREAM)
async def stream_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and stream its events."""
    with place_for_stream(served):
        [row] = await admitted(request, served, [(body, str(thread_id))], key)
    return _stream(served, row, body)


@router.post("/threads/{thread_id}/runs/wait", responses=VALUES)
async def wait_for_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and answer with what it came to."""
    with place_for_stream(served):
        [row] = await admitted(request, served, [(body, str(thread_id))], key)
    return _wait(served, row, body)


@router.post("/runs", responses=ANY_RUN)
async def create_stateless_run(
    request: Request, served: Served, body: AnyRunBody, key: Key = None
) -> Response:
    """Start a run: of an assistant without a thread, or of an agent by its name, in a session."""
    if isinstance(body, AgentRunBody):
        return await run_agent(request, served, body, key)
    [row] = await admitted(request, served, [(body, None)], key)
    return answered(created_run(row))


@router.post("/runs/stream", responses=STREAM)
async def stream_stateless_run(
    request: Request, served: Served, body: RunBody, key: Key = None
) -> Response:
    """Start a run that has no thread and stream its events."""
    with place_for_stream(served):
        [row] = await admitted(request, served, [(body, None)], key)
    return _stream(served, row, body)


@router.post("/runs/wait", responses=VALUES)
async def wait_for_stateless_run(
    request: Request, served: Served, body: RunBody, key: Key = None
) -> Response:
    """Start a run that has no thread and answer with what it came to."""
    with place_for_stream(served):
        [row] = await admitted(request, served, [(body, None)], key)
    return _wait(served, row, body)


@router.post("/runs/batch", responses=RUNS)
async def create_batch(
    request: Request, served: Served, bodies: list[RunBody], key: Key = None
) -> Response:
    """Start several runs, all or none."""
    most = served.config.limits.runs_per_batch
    if len(bodies) > most:
        raise InvalidError(
            f"the batch has {len(bodies)} runs, more than the {most} of limits.runs_per_batch. "
            "Send several batches"
        )
    rows = await admitted(request, served, [(body, None) for body in bodies], key)
    return Json([run_json(created_run(row)) for row in rows])


@router.post("/runs/cancel", status_code=204, response_class=Response)
async def cancel_many(
    request: Request, served: Served, body: CancelMany, action: Action = "interrupt"
) -> Response:
    """Cancel runs by their status, or some runs of a thread; those that are over are left alone."""
    thread_id = None if body.thread_id is None else str(body.thread_id)
    value = {"thread_id": body.thread_id, "run_ids": body.run_ids, "status": body.status}
    asker = await served.asker(request, "threads", "update", value)
    await _check_thread(served, thread_id, asker)

    def find(reads: Reads) -> list[str]:
        return runs.live_ids(
            reads,
            owner=asker.owner,
            thread_id=thread_id,
            run_ids=None if body.run_ids is None else [str(each) for each in body.run_ids],
            status=None if body.status == "all" else body.status,
            filters=asker.filters,
        )

    for run_id in await served.database.read(find):
        await served.runs.cancel(run_id, action)
    return Response(status_code=204)


async def _check_thread(served: Services, thread_id: str | None, asker: Asker) -> None:
    if thread_id is None:
        return
    thread = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if thread is None or asker.owner not in (None, thread["owner"]):
        raise NotFoundError(f"thread {thread_id!r} not found")
    if asker.filters is not None and not matches(asker.filters, thread["metadata"]):
        raise NotFoundError(f"thread {thread_id!r} not found")


@router.get("/threads/{thread_id}/runs", responses=RUNS)
async def list_runs(
    request: Request,
    served: Served,
    thread_id: UUID,
    limit: Limit = 10,
    offset: Offset = 0,
    status: Annotated[Status | None, Query()] = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """List the runs of a thread, the newest first."""
    asker = await served.asker(request, "threads", "search", {"thread_id": thread_id})
    await _check_thread(served, str(thread_id), asker)
    found = await served.database.read(
        lambda reads: runs.search(
            reads, thread_id=str(thread_id), status=status, limit=limit, offset=offset
        )
    )
    return Json([selected(run_json(row), select) for row in found])


@router.get("/threads/{thread_id}/runs/{run_id}", responses=RUN)
async def get_run(request: Request, served: Served, thread_id: UUID, run_id: UUID) -> Response:
    """Return a run."""
    return Json(run_json(await _found(request, served, (thread_id, run_id), "read")))


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204, response_class=Response)
async def delete_run(request: Request, served: Served, thread_id: UUID, run_id: UUID) -> Response:
    """Remove a run that is over, with all that was kept of it."""
    row = await _found(request, served, (thread_id, run_id), "delete")
    if row["ended_at"] is None:
        raise ConflictError(f"the run {row['run_id']} is still {row['phase']}. Cancel it first")
    await served.database.write(partial(forget_runs, run_ids=[row["run_id"]]))
    return Response(status_code=204)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202, response_class=Response)
async def cancel_run(
    request: Request,
    served: Served,
    thread_id: UUID,
    run_id: UUID,
    wait: Annotated[bool, Query()] = False,
    action: Action = "interrupt",
) -> Response:
    """Cancel a run; cancelling it again changes nothing, and one that is over is a conflict."""
    row = await _found(request, served, (thread_id, run_id), "update")
    return await cancelled(served, row, action, wait=wait)


async def cancelled(served: Services, row: Row, action: str, *, wait: bool) -> Response:
    """Cancel a run that was found, and answer when it is over, or else soon.

    Most runs end within the moment that is waited for, so that who reads one next sees its end.
    """
    if row["ended_at"] is not None and row["phase"] != "cancelled":
        raise ConflictError(f"the run {row['run_id']} is over: its status is {row['status']}")
    await served.runs.cancel(row["run_id"], action)
    if not wait:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await _nothing_left(served, row["run_id"])
        return Response(status_code=202)
    return Awaited(served, _nothing_left(served, row["run_id"]), _places(row, "join"))


async def _nothing_left(served: Services, run_id: str) -> bytes:
    with contextlib.suppress(NotFoundError):  # it was rolled back
        await served.runs.ended(run_id)
    return b"{}"


async def _joined(
    request: Request, served: Services, ids: tuple[UUID, UUID], *, cancels: bool
) -> tuple[Row, Gone | None]:
    """Find a run to follow; a client that `cancels` it by leaving has to be allowed to."""
    row = await _found(request, served, ids, "read")
    if not cancels:
        return row, None
    caller_of(request).check_role("member", "cancel_on_disconnect")
    await _found(request, served, ids, "update")
    return row, _gone(served, row["run_id"], "cancel")


@router.get("/threads/{thread_id}/runs/{run_id}/join", responses=VALUES)
async def join_run(
    request: Request,
    served: Served,
    thread_id: UUID,
    run_id: UUID,
    cancel_on_disconnect: Annotated[bool, Query()] = False,
) -> Response:
    """Wait for a run and return the values that it left, or its error."""
    ids = (thread_id, run_id)
    row, gone = await _joined(request, served, ids, cancels=cancel_on_disconnect)
    return Awaited(served, _result(served, row["run_id"]), _places(row, "join"), gone)


@router.get("/threads/{thread_id}/runs/{run_id}/stream", responses=STREAM)
async def join_stream(
    request: Request,
    served: Served,
    thread_id: UUID,
    run_id: UUID,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    cancel_on_disconnect: Annotated[bool, Query()] = False,
    last_event: LastEvent = None,
) -> Response:
    """Stream the events of a run, after the last one that the client has."""
    ids = (thread_id, run_id)
    row, gone = await _joined(request, served, ids, cancels=cancel_on_disconnect)
    asked = [mode for mode in stream_mode or () if mode]
    after = after_any(last_event)
    try:
        modes = stream_modes(asked or row["kwargs"].get("stream_mode"))
    except StreamModeError as error:
        raise InvalidError(str(error)) from None
    subgraphs = bool(row["kwargs"].get("stream_subgraphs"))
    view = SseView(modes, subgraphs=subgraphs, after=after, metadata=not asked)
    return EventStream(served, _frames(served, row, view, after), _places(row, "stream"), gone)
