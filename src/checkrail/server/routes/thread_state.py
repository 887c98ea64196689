"""A thread's state: where it stands, where it stood, and writing to it by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import state
from checkrail.runs.graphs.fences import ThreadFence, hold_fence
from checkrail.server.auth import Caller
from checkrail.server.deferred import Router
from checkrail.server.fields import Limit, Text
from checkrail.server.renderers import select_fields
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.thread_bodies import (
    STATE,
    STATES,
    WRITTEN,
    HistoryWanted,
    Place,
    StateChange,
    StateField,
    StateWanted,
)
from checkrail.server.routes.thread_graphs import (
    find_graph,
    find_thread,
    is_graph,
    open_graph,
    refresh_thread,
    render_plain_state,
    translate_read_errors,
    translate_write_errors,
)
from checkrail.server.services import Services, services_of
from checkrail.store import runs, threads
from checkrail.store.database import Tx
from checkrail.store.threads import Thread

router = Router(tags=["threads"])

Served = Annotated[Services, Depends(services_of)]
Subgraphs = Annotated[bool, Query()]
Select = Annotated[list[StateField] | None, Query()]
CheckpointId = Annotated[Text, Path()]


@router.get("/threads/{thread_id}/state", responses=STATE)
async def get_state(
    request: Request,
    served: Served,
    thread_id: UUID,
    subgraphs: Subgraphs = False,
    select: Select = None,
) -> Response:
    """Return where a thread stands; one that never ran has an empty state."""
    return await _state_response(request, served, thread_id, None, select, subgraphs=subgraphs)


@router.get("/threads/{thread_id}/state/{checkpoint_id}", responses=STATE)
async def get_state_at(
    request: Request,
    served: Served,
    thread_id: UUID,
    checkpoint_id: CheckpointId,
    subgraphs: Subgraphs = False,
    select: Select = None,
) -> Response:
    """Return where a thread stood at a checkpoint."""
    place = Place(checkpoint_id=checkpoint_id)
    return await _state_response(request, served, thread_id, place, select, subgraphs=subgraphs)


@router.post("/threads/{thread_id}/state/checkpoint", responses=STATE)
async def get_state_at_checkpoint(
    request: Request, served: Served, thread_id: UUID, body: StateWanted
) -> Response:
    """Return where a thread, or a subgraph within it, stood at a checkpoint."""
    return await _state_response(
        request, served, thread_id, body.checkpoint, body.select, subgraphs=body.subgraphs
    )


@router.post("/threads/{thread_id}/state", responses=WRITTEN)
async def update_state(
    request: Request, served: Served, thread_id: UUID, body: StateChange
) -> Response:
    """Write to a thread's state as if a node had; a conflict while a run is under way."""
    caller, row = await find_thread(request, served, thread_id, "update", {"metadata": {}})
    await _check_free(served, row.thread_id)
    named = await find_graph(served, row)
    if named is None:
        raise InvalidError(
            f"the thread {row.thread_id!r} never ran and names no graph. "
            "Put graph_id into its metadata, or run it first"
        )
    place = body.checkpoint_place()
    async with (
        open_graph(served, row, named, caller.user, "threads.update") as graph,
        _count_written(served, caller, row, await _load_values(graph, row, place), body.values),
    ):
        with (
            translate_write_errors(named.name),
            hold_fence(ThreadFence(row.thread_id, row.last_seq)),
        ):
            written = await state.update_state(
                graph,
                row.thread_id,
                body.values,
                as_node=body.as_node,
                checkpoint=_place_fields(place),
            )
    await refresh_thread(served, row.thread_id, caller.user, by_hand=True)
    return JsonResponse(written)


@router.get("/threads/{thread_id}/history", responses=STATES)
async def get_history(
    request: Request,
    served: Served,
    thread_id: UUID,
    limit: Annotated[Limit, Query()] = 1,
    before: Annotated[Text | None, Query()] = None,
) -> Response:
    """Return the states that a thread went through, the last one first."""
    return await _history_response(
        request, served, thread_id, HistoryWanted(limit=limit, before=before)
    )


@router.post("/threads/{thread_id}/history", responses=STATES)
async def search_history(
    request: Request, served: Served, thread_id: UUID, body: HistoryWanted
) -> Response:
    """Return the states that a thread went through, the last one first, and which of them."""
    return await _history_response(request, served, thread_id, body)


async def _history_response(
    request: Request, served: Services, thread_id: UUID, body: HistoryWanted
) -> Response:
    caller, row = await find_thread(request, served, thread_id, "read")
    named = await find_graph(served, row)
    if named is None:
        return JsonResponse([])
    if not is_graph(served, named.name):  # it stands somewhere, and nowhere else
        past = body.before is not None or body.checkpoint is not None or not row.values
        return JsonResponse(
            [] if past else [select_fields(render_plain_state(row.thread_id, row), body.select)]
        )
    async with open_graph(served, row, named, caller.user, "threads.read") as graph:
        with translate_read_errors():
            states = await state.load_history(
                graph,
                row.thread_id,
                limit=body.limit,
                before=body.before,
                metadata=body.metadata,
                checkpoint=_place_fields(body.checkpoint),
            )
    return JsonResponse([select_fields(each, body.select) for each in states])


async def _state_response(
    request: Request,
    served: Services,
    thread_id: UUID,
    place: Place | None,
    select: Sequence[str] | None,
    *,
    subgraphs: bool,
) -> Response:
    caller, row = await find_thread(request, served, thread_id, "read")
    named = await find_graph(served, row)
    if named is None or not is_graph(served, named.name):
        if place is not None and place.checkpoint_id:
            raise _checkpoint_not_found(row, place)
        return JsonResponse(select_fields(render_plain_state(row.thread_id, row), select))
    async with open_graph(served, row, named, caller.user, "threads.read") as graph:
        shown = await _load_state(graph, row, place, subgraphs=subgraphs)
    return JsonResponse(select_fields(shown, select))


async def _load_state(
    graph: Any, row: Thread, place: Place | None, *, subgraphs: bool
) -> dict[str, Any]:
    """Return the state at a place; LangGraph shows an empty one where there is no checkpoint."""
    with translate_read_errors():
        told = await state.load_state(
            graph, row.thread_id, _place_fields(place), subgraphs=subgraphs
        )
    if place is not None and place.checkpoint_id and told["created_at"] is None:
        raise _checkpoint_not_found(row, place)
    return told


async def _load_values(graph: Any, row: Thread, place: Place | None) -> Any:
    """Return the values to write onto; LangGraph would begin a new thread without any."""
    if place is None:
        return row.values
    return (await _load_state(graph, row, place, subgraphs=False))["values"]


@asynccontextmanager
async def _count_written(
    served: Services, caller: Caller, row: Thread, *values: Any
) -> AsyncIterator[None]:
    """Count what is written to a thread as the whole state that it makes, or raise."""
    thread_id, size = row.thread_id, stored_size(*values)

    def count_in_tx(tx: Tx) -> None:
        served.check_bytes(tx, caller, row.owner, size)
        threads.add_bytes(tx, thread_id, size)

    await served.database.write(count_in_tx)
    try:
        yield
    except BaseException:
        await served.database.write(lambda tx: threads.add_bytes(tx, thread_id, -size))
        raise


async def _check_free(served: Services, thread_id: str) -> None:
    live = await served.database.read(lambda reads: runs.live_ids(reads, thread_id=thread_id))
    if live:
        raise ConflictError(
            f"the thread {thread_id!r} has a run under way, {live[-1]}. "
            "Wait for it or cancel it, and write then"
        )


def _place_fields(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else place.model_dump(exclude_none=True)


def _checkpoint_not_found(row: Thread, place: Place) -> NotFoundError:
    what = f"checkpoint {place.checkpoint_id!r} of the thread {row.thread_id!r}"
    return NotFoundError(f"{what} not found. The thread's history lists those that it has")
