"""A thread's state: where it stands, where it stood, and writing to it by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import state
from checkrail.runs.graphs.fences import ThreadFence, fenced
from checkrail.runs.quotas import stored_size
from checkrail.server.answers import Json
from checkrail.server.auth import Caller
from checkrail.server.fields import Limit, Text
from checkrail.server.routes.thread_access import found
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
    graph_of,
    is_graph,
    opened,
    plain_state,
    reading,
    refreshed,
    writing,
)
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import selected
from checkrail.store import runs, threads
from checkrail.store.database import Tx
from checkrail.store.rows import Row

router = APIRouter(tags=["threads"])

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
    return await _shown(request, served, thread_id, None, select, subgraphs=subgraphs)


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
    return await _shown(request, served, thread_id, place, select, subgraphs=subgraphs)


@router.post("/threads/{thread_id}/state/checkpoint", responses=STATE)
async def get_state_at_checkpoint(
    request: Request, served: Served, thread_id: UUID, body: StateWanted
) -> Response:
    """Return where a thread, or a subgraph within it, stood at a checkpoint."""
    return await _shown(
        request, served, thread_id, body.checkpoint, body.select, subgraphs=body.subgraphs
    )


@router.post("/threads/{thread_id}/state", responses=WRITTEN)
async def update_state(
    request: Request, served: Served, thread_id: UUID, body: StateChange
) -> Response:
    """Write to a thread's state as if a node had; a conflict while a run is under way."""
    caller, row = await found(request, served, thread_id, "update", {"metadata": {}})
    await _check_free(served, row["thread_id"])
    named = await graph_of(served, row)
    if named is None:
        raise InvalidError(
            f"the thread {row['thread_id']!r} never ran and names no graph. "
            "Put graph_id into its metadata, or run it first"
        )
    place = body.place()
    async with (
        opened(served, row, named, caller.user, "threads.update") as graph,
        _counted(served, caller, row, await _values_at(graph, row, place), body.values),
    ):
        with writing(named.name), fenced(ThreadFence(row["thread_id"], row["last_seq"])):
            written = await state.update_state(
                graph,
                row["thread_id"],
                body.values,
                as_node=body.as_node,
                checkpoint=_said(place),
            )
    await refreshed(served, row["thread_id"], caller.user)
    return Json(written)


@router.get("/threads/{thread_id}/history", responses=STATES)
async def get_history(
    request: Request,
    served: Served,
    thread_id: UUID,
    limit: Annotated[Limit, Query()] = 1,
    before: Annotated[Text | None, Query()] = None,
) -> Response:
    """Return the states that a thread went through, the last one first."""
    return await _past(request, served, thread_id, HistoryWanted(limit=limit, before=before))


@router.post("/threads/{thread_id}/history", responses=STATES)
async def search_history(
    request: Request, served: Served, thread_id: UUID, body: HistoryWanted
) -> Response:
    """Return the states that a thread went through, the last one first, and which of them."""
    return await _past(request, served, thread_id, body)


async def _past(
    request: Request, served: Services, thread_id: UUID, body: HistoryWanted
) -> Response:
    caller, row = await found(request, served, thread_id, "read")
    named = await graph_of(served, row)
    if named is None:
        return Json([])
    if not is_graph(served, named.name):  # it stands somewhere, and nowhere else
        past = body.before is not None or body.checkpoint is not None or not row["values"]
        return Json([] if past else [selected(plain_state(row), body.select)])
    async with opened(served, row, named, caller.user, "threads.read") as graph:
        with reading():
            states = await state.history(
                graph,
                row["thread_id"],
                limit=body.limit,
                before=body.before,
                metadata=body.metadata,
                checkpoint=_said(body.checkpoint),
            )
    return Json([selected(each, body.select) for each in states])


async def _shown(
    request: Request,
    served: Services,
    thread_id: UUID,
    place: Place | None,
    select: Sequence[str] | None,
    *,
    subgraphs: bool,
) -> Response:
    caller, row = await found(request, served, thread_id, "read")
    named = await graph_of(served, row)
    if named is None or not is_graph(served, named.name):
        if place is not None and place.checkpoint_id:
            raise _unknown(row, place)
        return Json(selected(plain_state(row), select))
    async with opened(served, row, named, caller.user, "threads.read") as graph:
        shown = await _state(graph, row, place, subgraphs=subgraphs)
    return Json(selected(shown, select))


async def _state(graph: Any, row: Row, place: Place | None, *, subgraphs: bool) -> dict[str, Any]:
    """Return the state at a place; LangGraph shows an empty one where there is no checkpoint."""
    with reading():
        told = await state.get_state(graph, row["thread_id"], _said(place), subgraphs=subgraphs)
    if place is not None and place.checkpoint_id and told["created_at"] is None:
        raise _unknown(row, place)
    return told


async def _values_at(graph: Any, row: Row, place: Place | None) -> Any:
    """Return the values to write onto; LangGraph would begin a thread anew where there are none."""
    if place is None:
        return row["values"]
    return (await _state(graph, row, place, subgraphs=False))["values"]


@asynccontextmanager
async def _counted(served: Services, caller: Caller, row: Row, *values: Any) -> AsyncIterator[None]:
    """Count what is written to a thread as the whole state that it makes, or raise."""
    thread_id, size = row["thread_id"], stored_size(*values)

    def count(tx: Tx) -> None:
        served.check_bytes(tx, caller, row["owner"], size)
        threads.add_bytes(tx, thread_id, size)

    await served.database.write(count)
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


def _said(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else place.model_dump(exclude_none=True)


def _unknown(row: Row, place: Place) -> NotFoundError:
    what = f"checkpoint {place.checkpoint_id!r} of the thread {row['thread_id']!r}"
    return NotFoundError(f"{what} not found. The thread's history lists those that it has")
