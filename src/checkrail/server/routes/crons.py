"""Crons: runs that come back by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from checkrail.engine.records import uuid7
from checkrail.engine.values import plain
from checkrail.runs.errors import NotFoundError
from checkrail.runs.quotas import stored_size
from checkrail.server.answers import Json, page_headers
from checkrail.server.auth import Access, Caller, caller_of, matches
from checkrail.server.routes.assistant_access import id_of, missing
from checkrail.server.routes.cron_bodies import (
    COLUMNS,
    COUNT,
    GONE,
    ONE,
    SOME,
    CronChange,
    CronSearch,
    CronsWanted,
    NewCron,
)
from checkrail.server.routes.cron_rows import new_payload, new_row, new_times, next_run
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import cron_json, selected
from checkrail.store import assistants, crons, threads
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page, Row

router = APIRouter(tags=["crons"])

Served = Annotated[Services, Depends(services_of)]


def _shown(row: Row) -> dict[str, Any]:
    payload = {key: value for key, value in row["payload"].items() if key != "modes"}
    return cron_json(row | {"payload": payload})


@router.post("/runs/crons", responses=ONE)
async def create_cron(request: Request, served: Served, body: NewCron) -> Response:
    """Make a cron whose runs have threads of their own."""
    return Json(_shown(await _created(request, served, body, None)))


@router.post("/threads/{thread_id}/runs/crons", responses=ONE)
async def create_thread_cron(
    request: Request, served: Served, thread_id: UUID, body: NewCron
) -> Response:
    """Make a cron whose runs are on a thread."""
    return Json(_shown(await _created(request, served, body, thread_id)))


async def _created(
    request: Request, served: Services, body: NewCron, thread_id: UUID | None
) -> Row:
    value: dict[str, Any] = {
        "cron_id": UUID(uuid7()),
        "thread_id": thread_id,
        "assistant_id": UUID(id_of(str(body.assistant_id))),
        "user_id": None,
        "schedule": body.schedule,
        "end_time": body.end_time,
        "payload": body.options(),
        "metadata": dict(body.metadata or {}),
    }
    caller, _ = await served.access(request, "crons", "create", value)
    await _check_runs(request, served, value, str(body.assistant_id))
    row = new_row(body, value, served.database.time())
    row |= {"owner": caller.owner, "user": plain(caller.user), "key_id": caller.key_id}
    row["next_run_at"] = next_run(row, row["created_at"])
    row["stored_bytes"] = stored_size(row["payload"], row["metadata"])
    await served.database.write(partial(_keep, served, caller, row))
    return row


async def _check_runs(
    request: Request, served: Services, value: dict[str, Any], assistant_id: str
) -> None:
    """See that the caller could ask for such a run now: later nobody is there to be asked."""
    asked = {
        "thread_id": value["thread_id"],
        "assistant_id": value["assistant_id"],
        "run_id": None,
        "status": "pending",
        "metadata": value["metadata"],
        "kwargs": value["payload"],
    }
    _, access = await served.access(request, "threads", "create_run", asked)
    value["metadata"] = asked["metadata"]

    def find(reads: Reads) -> tuple[Row | None, Row | None]:
        on = value["thread_id"]
        thread = None if on is None else threads.get(reads, str(on))
        return assistants.get(reads, str(value["assistant_id"])), thread

    assistant, thread = await served.database.read(find)
    if assistant is None or access.owner not in (None, assistant["owner"] or access.owner):
        raise missing(assistant_id)
    if value["thread_id"] is not None and not _visible(thread, access):
        raise NotFoundError(f"thread {str(value['thread_id'])!r} not found")


def _visible(row: Row | None, access: Access) -> bool:
    if row is None or access.owner not in (None, row["owner"]):
        return False
    return access.filter is None or matches(access.filter, row["metadata"])


def _keep(served: Services, caller: Caller, row: Row, tx: Tx) -> None:
    """Keep a cron within its owner's quotas."""
    if not caller.is_admin:
        served.runs.admission.quotas.check_crons(tx, row["owner"])
    served.check_bytes(tx, caller, row["owner"], row["stored_bytes"])
    crons.add(tx, row)
    tx.tell("clock", "")


async def _found(
    request: Request, served: Services, cron_id: UUID, action: str, value: dict[str, Any]
) -> Row:
    """Find a cron that the caller may touch."""
    value |= {"cron_id": cron_id}
    _, access = await served.access(request, "crons", action, value)
    row = await served.database.read(lambda reads: crons.get(reads, str(cron_id)))
    if row is None or not _visible(row, access):
        raise _missing(cron_id)
    return row


def _missing(cron_id: UUID) -> NotFoundError:
    return NotFoundError(f"cron {str(cron_id)!r} not found")


@router.get("/runs/crons/{cron_id}", responses=ONE)
async def get_cron(request: Request, served: Served, cron_id: UUID) -> Response:
    """Return a cron."""
    return Json(_shown(await _found(request, served, cron_id, "read", {"metadata": {}})))


@router.patch("/runs/crons/{cron_id}", responses=ONE)
async def update_cron(
    request: Request, served: Served, cron_id: UUID, body: CronChange
) -> Response:
    """Change what is named of a cron."""
    named = body.named()
    value: dict[str, Any] = {
        "schedule": body.schedule,
        "payload": {key: told for key, told in named.items() if key != "metadata"},
        "metadata": named.get("metadata") or {},
    }
    await _found(request, served, cron_id, "update", value)
    named = {**value["payload"], "metadata": value["metadata"]}
    changed = await served.database.write(
        partial(
            _changed,
            served,
            caller_of(request),
            cron_id=str(cron_id),
            body=body,
            named=named,
        )
    )
    if changed is None:
        raise _missing(cron_id)
    return Json(_shown(changed))


def _changed(
    served: Services,
    caller: Caller,
    tx: Tx,
    cron_id: str,
    body: CronChange,
    named: Mapping[str, Any],
) -> Row | None:
    row = crons.lock(tx, cron_id)
    if row is None:
        return None
    now = tx.time()
    metadata = {**row["metadata"], **(named["metadata"] or {})}
    payload = new_payload(row["payload"], {**named, "metadata": metadata})
    size = stored_size(payload, metadata)
    served.check_bytes(tx, caller, row["owner"], size - (row["stored_bytes"] or 0))
    values = new_times(row, body, now) | {
        "metadata": metadata,
        "payload": payload,
        "stored_bytes": size,
        "key_id": caller.key_id,
        "updated_at": now,
    }
    if body.on_run_completed is not None and row["thread_id"] is None:
        values["on_run_completed"] = body.on_run_completed
    crons.change(tx, cron_id, **values)
    tx.tell("clock", "")
    return row | values


@router.delete("/runs/crons/{cron_id}", status_code=204, responses=GONE)
async def delete_cron(request: Request, served: Served, cron_id: UUID) -> Response:
    """Remove a cron; runs that it has started go on."""
    await _found(request, served, cron_id, "delete", {})
    if not await served.database.write(lambda tx: crons.remove(tx, str(cron_id))):
        raise _missing(cron_id)
    return Response(status_code=204)


@router.post("/runs/crons/search", responses=SOME)
async def search_crons(request: Request, served: Served, body: CronSearch) -> Response:
    """Find crons."""
    same, metadata, access = await _wanted(
        request, served, body, limit=body.limit, offset=body.offset
    )
    same["enabled"] = body.enabled
    sort_by = body.sort_by or "created_at"
    order, most = body.sort_order or "desc", body.limit + 1
    page = Page(COLUMNS.get(sort_by, sort_by), order, most, body.offset)
    rows = await served.database.read(
        lambda reads: crons.search(reads, page, same, metadata, access.filter)
    )
    headers = page_headers(len(rows), body.limit, body.offset)
    shown = [selected(_shown(row), body.select) for row in rows[: body.limit]]
    return Json(shown, headers=headers)


@router.post("/runs/crons/count", responses=COUNT)
async def count_crons(request: Request, served: Served, body: CronsWanted) -> Response:
    """Count crons."""
    same, metadata, access = await _wanted(request, served, body)
    return Json(
        await served.database.read(lambda reads: crons.count(reads, same, metadata, access.filter))
    )


async def _wanted(
    request: Request, served: Services, body: CronsWanted, **page: int
) -> tuple[dict[str, Any], Any, Access]:
    """Return which crons: whose columns are the same, and what their metadata holds."""
    known = None if body.assistant_id is None else UUID(id_of(str(body.assistant_id)))
    value: dict[str, Any] = {
        "assistant_id": known,
        "thread_id": body.thread_id,
        "metadata": dict(body.metadata or {}),
        **page,
    }
    _, access = await served.access(request, "crons", "search", value)
    same = {
        name: None if value[name] is None else str(value[name])
        for name in ("assistant_id", "thread_id")
    }
    return same | {"owner": access.owner}, value.get("metadata"), access
