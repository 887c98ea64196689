"""Threads: made, changed, found, copied and removed."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from checkrail.engine.records import uuid7
from checkrail.runs import jsons
from checkrail.runs.admission import metadata_size, new_thread
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.runs.graphs import thread_rows
from checkrail.runs.quotas import stored_size
from checkrail.runs.retention import prune_thread
from checkrail.server.answers import Json, page_headers
from checkrail.server.auth import Access, Caller
from checkrail.server.routes.thread_access import found, missing, visible
from checkrail.server.routes.thread_bodies import (
    CHANGED,
    COUNT,
    GONE,
    ONE,
    PRUNED,
    SOME,
    NewThread,
    Prune,
    ThreadChange,
    ThreadSearch,
    ThreadsWanted,
    extracted,
)
from checkrail.server.routes.thread_graphs import refreshed
from checkrail.server.routes.thread_making import (
    check_graph,
    copied_metadata,
    copy_of,
    default_ttl,
    kept,
    past_size,
    ttl_columns,
    ttl_json,
    ttl_of,
    with_past,
)
from checkrail.server.routes.thread_removal import remove_thread
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import selected, thread_json
from checkrail.store import runs, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page, Row, searchable
from checkrail.store.threads import Wanted

router = APIRouter(tags=["threads"])

Served = Annotated[Services, Depends(services_of)]


@router.post("/threads", responses=ONE)
async def create_thread(request: Request, served: Served, body: NewThread) -> Response:
    """Make a thread; with `supersteps` it has a past."""
    ttl = default_ttl(served) if body.ttl is None else ttl_of(body.ttl)
    value: dict[str, Any] = {
        "thread_id": body.thread_id or UUID(uuid7()),
        "metadata": body.metadata or {},
        "if_exists": body.if_exists or "raise",
        "ttl": None if ttl is None else ttl.model_dump(),
    }
    caller, access = await served.access(request, "threads", "create", value)
    now = served.database.time()
    told = {"metadata": kept(value["metadata"]), "state_updated_at": now}
    ttl_told = ttl_columns(ttl_of(value["ttl"]), now)
    row = new_thread(str(value["thread_id"]), caller.owner, now, **told, **ttl_told)
    row["stored_bytes"] = metadata_size(row["metadata"])
    if body.supersteps:
        check_graph(served, row["metadata"].get("graph_id"))
        row["stored_bytes"] += past_size(body.supersteps)
    if not await served.database.write(partial(_add, served, caller, row)):
        return Json(thread_json(await _existing(served, row["thread_id"], value, access)))
    if body.supersteps:
        row = await with_past(served, row, body.supersteps, caller.user)
    return Json(thread_json(row))


def _add(served: Services, caller: Caller, row: Row, tx: Tx) -> bool:
    """Add a thread within its owner's quotas; False: there is one of that id."""
    if threads.get(tx, row["thread_id"]) is None:
        _check_room(served, caller, row, tx)
    return threads.add(tx, row)


def _check_room(served: Services, caller: Caller, row: Row, reads: Reads) -> None:
    if not caller.is_admin:
        served.runs.admission.quotas.check_threads(reads, row["owner"])
    served.check_bytes(reads, caller, row["owner"], row["stored_bytes"] or 0)


async def _existing(served: Services, thread_id: str, value: dict[str, Any], access: Access) -> Row:
    """Return the thread that has an id already, if the caller may see it and wants it."""
    row = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if row is None or value["if_exists"] != "do_nothing" or not visible(row, access):
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
    wanted = await _wanted(request, served, value, ids)
    limit, offset = value["limit"], value["offset"]
    page = Page(body.sort_by or "updated_at", body.sort_order or "desc", limit + 1, offset)
    without = _unread(body)
    rows = await served.database.read(lambda reads: threads.search(reads, wanted, page, without))
    headers = page_headers(len(rows), limit, offset)
    return Json([_found(row, body) for row in rows[:limit]], headers=headers)


def _unread(body: ThreadSearch) -> set[str]:
    """Return which large columns a search needs not read."""
    if not body.select:
        return set()
    paths = [*body.select, *(body.extract or {}).values()]
    return {
        name
        for name in ("values", "interrupts")
        if not any(path.startswith(name) for path in paths)
    }


def _found(row: Row, body: ThreadSearch) -> dict[str, Any]:
    shown = thread_json(row)
    found = selected(shown, body.select)
    if body.extract:
        found["extracted"] = extracted(shown, body.extract)
    return found


@router.post("/threads/count", responses=COUNT)
async def count_threads(request: Request, served: Served, body: ThreadsWanted) -> Response:
    """Count threads."""
    wanted = await _wanted(request, served, body.model_dump(), None)
    return Json(await served.database.read(lambda reads: threads.count(reads, wanted)))


async def _wanted(
    request: Request, served: Services, value: dict[str, Any], ids: list[str] | None
) -> Wanted:
    """Ask what of a search the caller may see; an auth handler may narrow it."""
    value["metadata"] = dict(value["metadata"] or {})
    _, access = await served.access(request, "threads", "search", value)
    try:
        metadata = searchable(jsons.jsonable(value["metadata"] or {}))
    except ValueError as error:
        raise InvalidError(str(error)) from None
    return Wanted(
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
            mine.append((await found(request, served, thread_id, "delete"))[1])
        except NotFoundError:
            continue
    prune = _keep_latest if body.strategy == "keep_latest" else _delete
    return Json({"pruned_count": sum([await prune(served, row) for row in mine])})


async def _delete(served: Services, row: Row) -> bool:
    return await remove_thread(served, row["thread_id"])


async def _keep_latest(served: Services, row: Row) -> bool:
    thread_id = row["thread_id"]
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
    _, row = await found(request, served, thread_id, "read")
    wanted = {name.strip() for told in include or () for name in told.split(",")} - {""}
    if unknown := wanted - {"ttl"}:
        raise InvalidError(f"a thread can include ttl, and no {min(unknown)[:100]!r}")
    return Json(thread_json(row) | ({"ttl": ttl_json(row)} if wanted else {}))


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
    caller, _ = await found(request, served, thread_id, "update", value)
    now = served.database.time()
    ttl = ttl_columns(ttl_of(body.ttl), now) if "ttl" in body.model_fields_set else {}
    changes = {"updated_at": now, **ttl}
    metadata = kept(value["metadata"])
    change = partial(_merge, served, caller, str(thread_id), metadata, changes)
    row = await served.database.write(change)
    if prefer is not None and "return=minimal" in prefer.replace(" ", "").lower():
        return Response(status_code=204)
    return Json(thread_json(row))


def _merge(
    served: Services,
    caller: Caller,
    thread_id: str,
    metadata: dict[str, Any],
    changes: dict[str, Any],
    tx: Tx,
) -> Row:
    row = threads.lock(tx, thread_id)
    if row is None:
        raise missing(thread_id)
    merged = row["metadata"] | metadata
    more = stored_size(merged) - stored_size(row["metadata"])
    served.check_bytes(tx, caller, row["owner"], more)
    changes |= {"metadata": merged, "stored_bytes": max(0, (row["stored_bytes"] or 0) + more)}
    threads.change(tx, thread_id, **changes)
    return row | changes


@router.delete("/threads/{thread_id}", status_code=204, response_class=Response, responses=GONE)
async def delete_thread(request: Request, served: Served, thread_id: UUID) -> Response:
    """Cancel what runs on a thread, and remove it with its runs and its state."""
    await found(request, served, thread_id, "delete")
    if not await remove_thread(served, str(thread_id)):
        raise missing(str(thread_id))
    return Response(status_code=204)


@router.post("/threads/{thread_id}/copy", responses=ONE)
async def copy_thread(request: Request, served: Served, thread_id: UUID) -> Response:
    """Make a thread with the metadata, the state and the history of another, but no runs.

    Of a thread on which something runs the copy has what is there already.
    """
    _, source = await found(request, served, thread_id, "read")
    copied = UUID(uuid7())
    value = {
        "thread_id": copied,
        "metadata": await copied_metadata(served, source),
        "if_exists": "raise",
    }
    caller, _ = await served.access(request, "threads", "create", value)
    row = copy_of(source, str(copied), caller.owner, kept(value["metadata"]), default_ttl(served))
    row["stored_bytes"] = await thread_rows.stored_size(served.checkpointer, str(thread_id))
    row["stored_bytes"] += metadata_size(row["metadata"]) or 0
    await served.database.read(partial(_check_room, served, caller, row))
    try:
        await thread_rows.copy_thread(served.checkpointer, str(thread_id), str(copied))
        await served.database.write(partial(_add, served, caller, row))
        if source["status"] == "busy":
            row = await refreshed(served, str(copied), caller.user)
    except BaseException as error:
        await remove_thread(served, str(copied))
        if isinstance(error, NotImplementedError):  # of a checkpointer of the project's own
            raise ConflictError(str(error)) from None
        raise
    return Json(thread_json(row))
