"""Runs on threads, and runs that have none: the same routes, with a thread in the path or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.retention import forget_runs
from checkrail.server.agent_runs import AgentRunBody, AnyRunBody, run_agent, run_response
from checkrail.server.auth import caller_of, matches_filter
from checkrail.server.deferred import Router
from checkrail.server.fields import Action, Key, LastEvent, Limit, Offset, Status
from checkrail.server.lookups import can_touch, parse_any_last_event
from checkrail.server.openapi_models import ANY_RUN, RUN, RUNS, STREAM, VALUES
from checkrail.server.renderers import render_created_run, render_run, run_path, select_fields
from checkrail.server.responses import JsonResponse
from checkrail.server.run_requests import CancelMany, RunBody, admit_request
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import DeferredJson, EventStream, Gone, reserve_stream
from checkrail.server.streams.modes import StreamModeError, parse_stream_modes
from checkrail.server.streams.sse import SseView, encode_frame, join_frames
from checkrail.store import runs, threads
from checkrail.store.database import Reads
from checkrail.store.runs import Run

router = Router(tags=["runs"])

_CANCEL_SECONDS = 1.0  # how long an answer waits for a cancelled run to end

Served = Annotated[Services, Depends(services_of)]


async def _find_run(request: Request, served: Services, ids: tuple[UUID, UUID], action: str) -> Run:
    """Return a run of a thread that the caller may touch."""
    thread_id, run_id = map(str, ids)
    value = {"thread_id": ids[0], "run_id": ids[1]}
    asker = await served.principal(request, "threads", action, value)

    def find_row(reads: Reads) -> Run | None:
        row = runs.get(reads, run_id)
        if row is None or row.thread_id != thread_id:
            return None
        return row if can_touch(reads, row, asker) else None

    found = await served.database.read(find_row)
    if found is None:
        raise NotFoundError(f"run {run_id!r} not found on the thread {thread_id!r}")
    return found


def render_result(row: Run) -> bytes:
    """Return the result of a run: its values, with what it waits for, or its error."""
    if row.status in ("error", "timeout"):
        error = {"error": row.error_type or "Error", "message": row.error or ""}
        return jsons.dumps({"__error__": error})
    return jsons.dumps(row.output)


async def _await_result(served: Services, run_id: str) -> bytes:
    try:
        return render_result(await served.runs.ended(run_id))
    except NotFoundError as gone:  # it was rolled back before anybody began with it
        error = {"error": "CancelledError", "message": str(gone)}
        return jsons.dumps({"__error__": error})


def _disconnect_action(served: Services, run_id: str, on_disconnect: str) -> Gone | None:
    if on_disconnect != "cancel":
        return None
    return partial(served.runs.cancel, run_id, "interrupt", "the client disconnected")


async def _run_frames(
    served: Services, row: Run, view: SseView, after: int
) -> AsyncIterator[bytes]:
    start = 0 if view.stateful else after
    is_new = row.attempt == 0 and row.worker_id is None and row.ended_at is None
    async for batch in served.runs.follow(row.run_id, start, is_new=is_new):
        if not batch:
            yield b""
        for piece in join_frames(
            encode_frame(*shown) for event in batch for shown in view.feed(event)
        ):
            yield piece


def _location_headers(row: Run, way: str) -> dict[str, str]:
    """Return where a run is, and where somebody who was cut off goes on."""
    path = run_path(row)
    return {"content-location": path, "location": f"{path}/{way}"}


def _stream_response(served: Services, row: Run, body: RunBody) -> Response:
    view = SseView(body.stream_mode, subgraphs=body.stream_subgraphs)
    return EventStream(
        served,
        _run_frames(served, row, view, 0),
        _location_headers(row, "stream"),
        _disconnect_action(served, row.run_id, body.on_disconnect),
        placed=True,
    )


def _wait_response(served: Services, row: Run, body: RunBody) -> Response:
    return DeferredJson(
        served,
        _await_result(served, row.run_id),
        _location_headers(row, "join"),
        _disconnect_action(served, row.run_id, body.on_disconnect),
        placed=True,
    )


@router.post("/threads/{thread_id}/runs", responses=ANY_RUN)
async def create_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and answer at once."""
    [row] = await admit_request(request, served, [(body, str(thread_id))], key)
    return run_response(render_created_run(row))


@router.post("/threads/{thread_id}/runs/stream", responses=STREAM)
async def stream_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and stream its events."""
    with reserve_stream(served):
        [row] = await admit_request(request, served, [(body, str(thread_id))], key)
    return _stream_response(served, row, body)


@router.post("/threads/{thread_id}/runs/wait", responses=VALUES)
async def wait_for_run(
    request: Request, served: Served, thread_id: UUID, body: RunBody, key: Key = None
) -> Response:
    """Start a run on a thread and answer with what it came to."""
    with reserve_stream(served):
        [row] = await admit_request(request, served, [(body, str(thread_id))], key)
    return _wait_response(served, row, body)


@router.post("/runs", responses=ANY_RUN)
async def create_stateless_run(
    request: Request, served: Served, body: AnyRunBody, key: Key = None
) -> Response:
    """Start a run: of an assistant without a thread, or of an agent by its name, in a session."""
    if isinstance(body, AgentRunBody):
        return await run_agent(request, served, body, key)
    [row] = await admit_request(request, served, [(body, None)], key)
    return run_response(render_created_run(row))


@router.post("/runs/stream", responses=STREAM)
async def stream_stateless_run(
    request: Request, served: Served, body: RunBody, key: Key = None
) -> Response:
    """Start a run that has no thread and stream its events."""
    with reserve_stream(served):
        [row] = await admit_request(request, served, [(body, None)], key)
    return _stream_response(served, row, body)


@router.post("/runs/wait", responses=VALUES)
async def wait_for_stateless_run(
    request: Request, served: Served, body: RunBody, key: Key = None
) -> Response:
    """Start a run that has no thread and answer with what it came to."""
    with reserve_stream(served):
        [row] = await admit_request(request, served, [(body, None)], key)
    return _wait_response(served, row, body)


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
    rows = await admit_request(request, served, [(body, None) for body in bodies], key)
    return JsonResponse([render_run(render_created_run(row)) for row in rows])


@router.post("/runs/cancel", status_code=204, response_class=Response)
async def cancel_many(
    request: Request, served: Served, body: CancelMany, action: Action = "interrupt"
) -> Response:
    """Cancel runs by their status, or some runs of a thread; those that are over are left alone."""
    thread_id = None if body.thread_id is None else str(body.thread_id)
    value = {"thread_id": body.thread_id, "run_ids": body.run_ids, "status": body.status}
    asker = await served.principal(request, "threads", "update", value)
    await _check_thread(served, thread_id, asker)

    def find_live_ids(reads: Reads) -> list[str]:
        return runs.live_ids(
            reads,
            owner=asker.owner,
            thread_id=thread_id,
            run_ids=None if body.run_ids is None else [str(each) for each in body.run_ids],
            status=None if body.status == "all" else body.status,
            filters=asker.filters,
        )

    for run_id in await served.database.read(find_live_ids):
        await served.runs.cancel(run_id, action)
    return Response(status_code=204)


async def _check_thread(served: Services, thread_id: str | None, asker: Principal) -> None:
    if thread_id is None:
        return
    thread = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if thread is None or asker.owner not in (None, thread.owner):
        raise NotFoundError(f"thread {thread_id!r} not found")
    if asker.filters is not None and not matches_filter(asker.filters, thread.metadata):
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
    asker = await served.principal(request, "threads", "search", {"thread_id": thread_id})
    await _check_thread(served, str(thread_id), asker)
    found = await served.database.read(
        lambda reads: runs.search(
            reads, thread_id=str(thread_id), status=status, limit=limit, offset=offset
        )
    )
    return JsonResponse([select_fields(render_run(row), select) for row in found])


@router.get("/threads/{thread_id}/runs/{run_id}", responses=RUN)
async def get_run(request: Request, served: Served, thread_id: UUID, run_id: UUID) -> Response:
    """Return a run."""
    return JsonResponse(render_run(await _find_run(request, served, (thread_id, run_id), "read")))


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204, response_class=Response)
async def delete_run(request: Request, served: Served, thread_id: UUID, run_id: UUID) -> Response:
    """Remove a run that is over, with all that was kept of it."""
    row = await _find_run(request, served, (thread_id, run_id), "delete")
    if row.ended_at is None:
        raise ConflictError(f"the run {row.run_id} is still {row.phase}. Cancel it first")
    await served.database.write(partial(forget_runs, run_ids=[row.run_id]))
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
    row = await _find_run(request, served, (thread_id, run_id), "update")
    return await cancel_and_answer(served, row, action, wait=wait)


async def cancel_and_answer(served: Services, row: Run, action: str, *, wait: bool) -> Response:
    """Cancel a run that was found, and answer when it is over, or else soon.

    Most runs end within the moment that is waited for, so that who reads one next sees its end.
    """
    if row.ended_at is not None and row.phase != "cancelled":
        raise ConflictError(f"the run {row.run_id} is over: its status is {row.status}")
    await served.runs.cancel(row.run_id, action)
    if not wait:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await _await_empty_result(served, row.run_id)
        return Response(status_code=202)
    return DeferredJson(
        served, _await_empty_result(served, row.run_id), _location_headers(row, "join")
    )


async def _await_empty_result(served: Services, run_id: str) -> bytes:
    with contextlib.suppress(NotFoundError):  # it was rolled back
        await served.runs.ended(run_id)
    return b"{}"


async def _find_joinable(
    request: Request, served: Services, ids: tuple[UUID, UUID], *, cancels: bool
) -> tuple[Run, Gone | None]:
    """Return a run to follow; a client that `cancels` it by leaving has to be allowed to."""
    row = await _find_run(request, served, ids, "read")
    if not cancels:
        return row, None
    caller_of(request).check_role("member", "cancel_on_disconnect")
    await _find_run(request, served, ids, "update")
    return row, _disconnect_action(served, row.run_id, "cancel")


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
    row, gone = await _find_joinable(request, served, ids, cancels=cancel_on_disconnect)
    return DeferredJson(
        served, _await_result(served, row.run_id), _location_headers(row, "join"), gone
    )


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
    row, gone = await _find_joinable(request, served, ids, cancels=cancel_on_disconnect)
    asked = [mode for mode in stream_mode or () if mode]
    after = parse_any_last_event(last_event)
    try:
        modes = parse_stream_modes(asked or row.kwargs.get("stream_mode"))
    except StreamModeError as error:
        raise InvalidError(str(error)) from None
    subgraphs = bool(row.kwargs.get("stream_subgraphs"))
    view = SseView(modes, subgraphs=subgraphs, after=after, metadata=not asked)
    return EventStream(
        served, _run_frames(served, row, view, after), _location_headers(row, "stream"), gone
    )
