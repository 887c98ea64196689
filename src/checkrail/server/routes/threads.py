"""Threads: made, changed, found, copied and removed."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Query, Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.admit.admission import metadata_size, new_thread
from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import state, thread_rows
from checkrail.runs.graphs.loader import UnknownGraphError
from checkrail.runs.retention import prune_thread
from checkrail.server.auth import Access, Caller
from checkrail.server.deferred import Router
from checkrail.server.fields import check_json
from checkrail.server.renderers import render_thread, render_time, select_fields
from checkrail.server.responses import JsonResponse, page_headers
from checkrail.server.routes.thread_bodies import (
    CHANGED,
    COUNT,
    GONE,
    ONE,
    PRUNED,
    SOME,
    NewThread,
    Prune,
    Superstep,
    ThreadChange,
    ThreadSearch,
    ThreadsWanted,
    Ttl,
    extract_paths,
)
from checkrail.server.routes.thread_graphs import (
    can_see_thread,
    find_graph,
    find_thread,
    open_graph,
    refresh_thread,
    thread_not_found,
    translate_write_errors,
)
from checkrail.server.routes.thread_removal import remove_thread
from checkrail.server.services import Services, services_of
from checkrail.store import runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page, searchable_filter
from checkrail.store.threads import Thread, ThreadQuery
from checkrail.times import uuid7

_MINUTE = 60.0


def check_past_graph(served: Services, graph_id: Any) -> None:
    """Refuse a past of no graph, or of one that the server does not have."""
    if not isinstance(graph_id, str):
        raise InvalidError("supersteps are of a graph. Name it as graph_id in the metadata")
    if graph_id not in served.graphs:
        raise UnknownGraphError(graph_id)


def check_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata as an auth handler left them, if a database can store them."""
    told: dict[str, Any] = jsons.jsonable(metadata or {})
    try:
        check_json(told)
    except ValueError as error:
        raise InvalidError(f"the metadata cannot be kept: {error}") from None
    return told


def default_ttl(served: Services) -> Ttl | None:
    """Return the time to live that the config says."""
    said = served.config.checkpointer.ttl or {}
    minutes = said.get("default_ttl")
    return Ttl(ttl=minutes, strategy=said.get("strategy", "delete")) if minutes else None


def parse_ttl(given: Ttl | float | dict[str, Any] | None) -> Ttl | None:
    """Return a time to live, whichever way it was sent."""
    if given is None or isinstance(given, Ttl):
        return given
    return Ttl.model_validate(given if isinstance(given, dict) else {"ttl": given})


def ttl_columns(ttl: Ttl | None, now: float) -> dict[str, Any]:
    """Return the columns of a time to live that begins now."""
    if ttl is None:
        return {"ttl_minutes": None, "ttl_strategy": None, "expires_at": None}
    expires = now + ttl.ttl * _MINUTE
    return {"ttl_minutes": ttl.ttl, "ttl_strategy": ttl.strategy, "expires_at": expires}


def render_ttl(row: Thread) -> dict[str, Any] | None:
    """Return the time to live of a thread."""
    if row.ttl_minutes is None:
        return None
    told = {"strategy": row.ttl_strategy, "ttl_minutes": row.ttl_minutes}
    return told | {"expires_at": render_time(row.expires_at)}


def past_size(supersteps: list[Superstep]) -> int:
    """Return the bytes of a past, where each step is stored as the whole state that it makes."""
    sizes = accumulate(stored_size(step.model_dump()) for step in supersteps)
    return sum(sizes)


async def write_past(
    served: Services, row: Thread, supersteps: list[Superstep], user: Any
) -> Thread:
    """Write the past of a new thread; if that fails there is no thread either."""
    steps = [step.model_dump(exclude_unset=True) for step in supersteps]
    thread_id, named = row.thread_id, await find_graph(served, row)
    assert named is not None  # noqa: S101 - it was checked before the thread was made
    try:
        async with open_graph(served, row, named, user, "threads.update") as graph:
            with translate_write_errors(named.name):
                await state.apply_supersteps(graph, thread_id, steps)
        return await refresh_thread(served, thread_id, user, by_hand=True)
    except BaseException:
        await remove_thread(served, thread_id)
        raise


async def copy_metadata(served: Services, source: Thread) -> dict[str, Any]:
    """Return the metadata of a copy, which has no run that would tell its graph."""
    named = await find_graph(served, source)
    told = {} if named is None else {"graph_id": named.name, "assistant_id": named.assistant_id}
    known = {key: value for key, value in told.items() if value is not None}
    return {**known, **source.metadata}


def copy_row(
    source: Thread, thread_id: str, owner: str, metadata: dict[str, Any], ttl: Ttl | None
) -> Thread:
    """Return the row of a copy."""
    now = time.time()
    same = {name: getattr(source, name) for name in ("values", "interrupts", "error")}
    status = "idle" if source.status == "busy" else source.status
    told = {"state_updated_at": now, **same, **ttl_columns(ttl, now)}
    return new_thread(thread_id, owner, now, metadata=metadata, status=status, **told)


router = Router(tags=["threads"])

Served = Annotated[Services, Depends(services_of)]


@router.post("/threads", responses=ONE)
async def create_thread(request: Request, served: Served, body: NewThread) -> Response:
    """Make a thread; with `supersteps` it has a past."""
    ttl = default_ttl(served) if body.ttl is None else parse_ttl(body.ttl)
    value: dict[str, Any] = {
        "thread_id": body.thread_id or UUID(uuid7()),
        "metadata": body.metadata or {},
        "if_exists": body.if_exists or "raise",
        "ttl": None if ttl is None else ttl.model_dump(),
    }
    caller, access = await served.access(request, "threads", "create", value)
    now = served.database.time()
    metadata = check_metadata(value["metadata"])
    told = {"state_updated_at": now, **ttl_columns(parse_ttl(value["ttl"]), now)}
    size = metadata_size(metadata)
    if body.supersteps:
        check_past_graph(served, metadata.get("graph_id"))
        size = (size or 0) + past_size(body.supersteps)
    row = new_thread(
        str(value["thread_id"]), caller.owner, now, metadata=metadata, stored_bytes=size, **told
    )
    if not await served.database.write(partial(_insert_thread, served, caller, row)):
        return JsonResponse(
            render_thread(await _find_existing(served, row.thread_id, value, access))
        )
    if body.supersteps:
        row = await write_past(served, row, body.supersteps, caller.user)
    return JsonResponse(render_thread(row))


def _insert_thread(served: Services, caller: Caller, row: Thread, tx: Tx) -> bool:
    """Add a thread within its owner's quotas; False: there is one of that id."""
    if threads.get(tx, row.thread_id) is None:
        _check_room(served, caller, row, tx)
    return threads.add(tx, row)


def _check_room(served: Services, caller: Caller, row: Thread, reads: Reads) -> None:
    if not caller.is_admin:
        served.runs.parts.quotas.check_threads(reads, caller.owner)
    served.check_bytes(reads, caller, row.owner, row.stored_bytes or 0)


async def _find_existing(
    served: Services, thread_id: str, value: dict[str, Any], access: Access
) -> Thread:
    """Return the thread that has an id already, if the caller may see it and wants it."""
    row = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if row is None or value["if_exists"] != "do_nothing" or not can_see_thread(row, access):
        raise ConflictError(
            f"the id {thread_id!r} is taken. Choose another one; for a thread of your own, "
            "say if_exists: do_nothing"
        )
    return row


@router.post("/threads/search", responses=SOME)
async def search_threads(request: Request, served: Served, body: ThreadSearch) -> Response:
    """Find threads, the last updated first unless said."""
    value = body.model_dump(include={"metadata", "values", "status", "limit", "offset", "ids"})
    ids = None if body.ids is None else [str(each) for each in body.ids]
    wanted = await _build_query(request, served, value, ids)
    limit, offset = value["limit"], value["offset"]
    page = Page(body.sort_by or "updated_at", body.sort_order or "desc", limit + 1, offset)
    without = _unneeded_columns(body)
    rows = await served.database.read(lambda reads: threads.search(reads, wanted, page, without))
    headers = page_headers(len(rows), limit, offset)
    return JsonResponse([_render_found(row, body) for row in rows[:limit]], headers=headers)


def _unneeded_columns(body: ThreadSearch) -> set[str]:
    """Return which large columns a search needs not read."""
    if not body.select:
        return set()
    paths = [*body.select, *(body.extract or {}).values()]
    return {
        name
        for name in ("values", "interrupts")
        if not any(path.startswith(name) for path in paths)
    }


def _render_found(row: Thread, body: ThreadSearch) -> dict[str, Any]:
    shown = render_thread(row)
    found = select_fields(shown, body.select)
    if body.extract:
        found["extracted"] = extract_paths(shown, body.extract)
    return found


@router.post("/threads/count", responses=COUNT)
async def count_threads(request: Request, served: Served, body: ThreadsWanted) -> Response:
    """Count threads."""
    wanted = await _build_query(request, served, body.model_dump(), None)
    return JsonResponse(await served.database.read(lambda reads: threads.count(reads, wanted)))


async def _build_query(
    request: Request, served: Services, value: dict[str, Any], ids: list[str] | None
) -> ThreadQuery:
    """Return which threads of a search the caller may see; an auth handler may narrow it."""
    value["metadata"] = dict(value["metadata"] or {})
    _, access = await served.access(request, "threads", "search", value)
    try:
        metadata = searchable_filter(jsons.jsonable(value["metadata"] or {}))
    except ValueError as error:
        raise InvalidError(str(error)) from None
    return ThreadQuery(
        owner=access.owner,
        status=value["status"],
        ids=ids,
        metadata=metadata,
        values=value["values"],
        filters=access.filter,
    )


@router.post("/threads/prune", responses=PRUNED)
async def prune_threads(request: Request, served: Served, body: Prune) -> Response:
    """Delete threads, or all of their past but the latest state; unknown ones are not counted.

    What runs on a thread is cancelled before it is deleted; one that is to be kept stays whole
    while something runs on it, and is not counted.
    """
    mine = []
    for thread_id in dict.fromkeys(body.thread_ids):
        try:
            mine.append((await find_thread(request, served, thread_id, "delete"))[1])
        except NotFoundError:
            continue
    prune = _keep_latest if body.strategy == "keep_latest" else _delete_thread
    return JsonResponse({"pruned_count": sum([await prune(served, row) for row in mine])})


async def _delete_thread(served: Services, row: Thread) -> bool:
    return await remove_thread(served, row.thread_id)


async def _keep_latest(served: Services, row: Thread) -> bool:
    thread_id = row.thread_id
    if await served.database.read(lambda reads: runs.live_ids(reads, thread_id=thread_id)):
        return False
    try:
        await prune_thread(served.database, served.checkpointer, thread_id)
    except NotImplementedError as error:
        raise ConflictError(str(error)) from None
    return True


@router.get("/threads/{thread_id}", responses=ONE)
async def get_thread(
    request: Request,
    served: Served,
    thread_id: UUID,
    include: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Return a thread; `include=ttl` tells its time to live as well."""
    _, row = await find_thread(request, served, thread_id, "read")
    wanted = {name.strip() for told in include or () for name in told.split(",")} - {""}
    if unknown := wanted - {"ttl"}:
        raise InvalidError(f"a thread can include ttl, and no {min(unknown)[:100]!r}")
    return JsonResponse(render_thread(row) | ({"ttl": render_ttl(row)} if wanted else {}))


@router.patch("/threads/{thread_id}", responses=CHANGED)
async def update_thread(
    request: Request,
    served: Served,
    thread_id: UUID,
    body: ThreadChange,
    prefer: Annotated[str | None, Header()] = None,
) -> Response:
    """Merge metadata into a thread's own, and set its time to live."""
    value: dict[str, Any] = {"metadata": body.metadata or {}}
    caller, _ = await find_thread(request, served, thread_id, "update", value)
    now = served.database.time()
    ttl = ttl_columns(parse_ttl(body.ttl), now) if "ttl" in body.model_fields_set else {}
    changes = {"updated_at": now, **ttl}
    metadata = check_metadata(value["metadata"])
    change = partial(_update_row, served, caller, str(thread_id), metadata, changes)
    row = await served.database.write(change)
    if prefer is not None and "return=minimal" in prefer.replace(" ", "").lower():
        return Response(status_code=204)
    return JsonResponse(render_thread(row))


def _update_row(
    served: Services,
    caller: Caller,
    thread_id: str,
    metadata: dict[str, Any],
    changes: dict[str, Any],
    tx: Tx,
) -> Thread:
    row = threads.lock(tx, thread_id)
    if row is None:
        raise thread_not_found(thread_id)
    merged = row.metadata | metadata
    more = stored_size(merged) - stored_size(row.metadata)
    served.check_bytes(tx, caller, row.owner, more)
    changes |= {"metadata": merged, "stored_bytes": max(0, (row.stored_bytes or 0) + more)}
    threads.update_thread(tx, thread_id, **changes)
    return replace(row, **changes)


@router.delete("/threads/{thread_id}", status_code=204, response_class=Response, responses=GONE)
async def delete_thread(request: Request, served: Served, thread_id: UUID) -> Response:
    """Cancel what runs on a thread, and remove it with its runs and its state."""
    await find_thread(request, served, thread_id, "delete")
    if not await remove_thread(served, str(thread_id)):
        raise thread_not_found(str(thread_id))
    return Response(status_code=204)


@router.post("/threads/{thread_id}/copy", responses=ONE)
async def copy_thread(request: Request, served: Served, thread_id: UUID) -> Response:
    """Make a thread with the metadata, the state and the history of another, but no runs.

    Of a thread on which something runs the copy has what is there already.
    """
    _, source = await find_thread(request, served, thread_id, "read")
    copied = UUID(uuid7())
    value = {
        "thread_id": copied,
        "metadata": await copy_metadata(served, source),
        "if_exists": "raise",
    }
    caller, _ = await served.access(request, "threads", "create", value)
    row = copy_row(
        source, str(copied), caller.owner, check_metadata(value["metadata"]), default_ttl(served)
    )
    size = await thread_rows.stored_size(served.checkpointer, str(thread_id))
    row = replace(row, stored_bytes=size + (metadata_size(row.metadata) or 0))
    await served.database.read(partial(_check_room, served, caller, row))
    try:
        await thread_rows.copy_thread(served.checkpointer, str(thread_id), str(copied))
        await served.database.write(partial(_insert_thread, served, caller, row))
        if source.status == "busy":
            row = await refresh_thread(served, str(copied), caller.user)
    except BaseException as error:
        await remove_thread(served, str(copied))
        if isinstance(error, NotImplementedError):  # of a checkpointer of the project's own
            raise ConflictError(str(error)) from None
        raise
    return JsonResponse(render_thread(row))
