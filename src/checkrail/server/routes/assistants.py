"""Assistants: agents with settings of their own, in versions."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request
from starlette.responses import Response

from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.graphs.context import mirror_settings
from checkrail.server.auth import Access, Caller, matches_filter
from checkrail.server.deferred import Router
from checkrail.server.renderers import render_assistant, select_fields
from checkrail.server.responses import JsonResponse, page_headers
from checkrail.server.routes.assistant_bodies import (
    COUNT,
    GONE,
    MANY,
    ONE,
    SOME,
    AssistantChange,
    AssistantSearch,
    AssistantsWanted,
    Latest,
    NewAssistant,
    VersionSearch,
    assistant_not_found,
    check_agent,
    find_assistant,
)
from checkrail.server.routes.thread_graphs import can_see_thread
from checkrail.server.routes.thread_removal import remove_thread
from checkrail.server.services import Services, services_of
from checkrail.store import assistants, crons, threads
from checkrail.store.assistants import Assistant, AssistantQuery
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page
from checkrail.store.threads import Thread
from checkrail.times import uuid7

_AT_ONCE = 100


async def remove_threads(request: Request, served: Services, assistant_id: str) -> None:
    """Remove the threads of an assistant that the caller may delete; those of others stay."""
    wanted = threads.ThreadQuery(metadata={"assistant_id": assistant_id})
    stay = 0

    def find_batch(reads: Reads) -> list[Thread]:
        return threads.search(reads, wanted, Page("thread_id", "asc", _AT_ONCE, stay))

    while rows := await served.database.read(find_batch):
        for row in rows:
            value = {"thread_id": UUID(row.thread_id), "run_id": None}
            _, access = await served.access(request, "threads", "delete", value)
            if can_see_thread(row, access):
                await remove_thread(served, row.thread_id)
            else:
                stay += 1


router = Router(tags=["assistants"])

Served = Annotated[Services, Depends(services_of)]


@router.post("/assistants", responses=ONE)
async def create_assistant(request: Request, served: Served, body: NewAssistant) -> Response:
    """Make an assistant of an agent."""
    value = body.model_dump() | {
        "assistant_id": body.assistant_id or UUID(uuid7()),
        "metadata": body.metadata or {},
        "if_exists": body.if_exists or "raise",
    }
    caller, access = await served.access(request, "assistants", "create", value)
    check_agent(served, value["graph_id"])
    made = _new_assistant(value, caller.owner)
    if not await served.database.write(partial(_insert_assistant, served, caller, made)):
        made = await _find_existing(served, made.assistant_id, value["if_exists"], access)
    return JsonResponse(render_assistant(made))


def _insert_assistant(served: Services, caller: Caller, made: Assistant, tx: Tx) -> bool:
    """Add an assistant within its owner's quota; False: there is one of that id."""
    size = _version_size(made)
    if assistants.get(tx, made.assistant_id) is None:
        served.check_bytes(tx, caller, made.owner, size)
    return assistants.add(tx, replace(made, stored_bytes=size))


def _version_size(assistant: Assistant) -> int:
    return stored_size(*(getattr(assistant, name) for name in assistants.VERSIONED))


def _new_assistant(value: dict[str, Any], owner: str) -> Assistant:
    now = time.time()
    config, context = mirror_settings(value["config"], value["context"])
    return Assistant(
        assistant_id=str(value["assistant_id"]),
        graph_id=value["graph_id"],
        owner=owner,
        name="Untitled" if value["name"] is None else value["name"],
        description=value["description"],
        config=config or {},
        context=context or {},
        metadata=value.get("metadata") or {},
        version=1,
        created_at=now,
        updated_at=now,
    )


async def _find_existing(
    served: Services, assistant_id: str, if_exists: str, access: Access
) -> Assistant:
    row = await served.database.read(lambda reads: assistants.get(reads, assistant_id))
    hidden = row is not None and access.filter and not matches_filter(access.filter, row.metadata)
    if row is None or hidden or if_exists != "do_nothing":
        raise ConflictError(
            f"there is an assistant {assistant_id!r} already. "
            "Update it, give another id, or say if_exists: do_nothing"
        )
    return row


@router.post("/assistants/search", responses=SOME)
async def search_assistants(request: Request, served: Served, body: AssistantSearch) -> Response:
    """Find assistants; the header X-Pagination-Next says where the next page begins."""
    wanted = await _build_query(request, served, body, limit=body.limit, offset=body.offset)
    page = Page(
        body.sort_by or "created_at", body.sort_order or "desc", body.limit + 1, body.offset
    )
    rows = await served.database.read(lambda reads: assistants.search(reads, wanted, page))
    shown = [select_fields(render_assistant(row), body.select) for row in rows[: body.limit]]
    return JsonResponse(shown, headers=page_headers(len(rows), body.limit, body.offset))


@router.post("/assistants/count", responses=COUNT)
async def count_assistants(request: Request, served: Served, body: AssistantsWanted) -> Response:
    """Count assistants."""
    wanted = await _build_query(request, served, body)
    return JsonResponse(await served.database.read(lambda reads: assistants.count(reads, wanted)))


async def _build_query(
    request: Request, served: Services, body: AssistantsWanted, **page: int
) -> AssistantQuery:
    metadata = dict(body.metadata or {})
    value: dict[str, Any] = {"graph_id": body.graph_id, "metadata": metadata, **page}
    _, access = await served.access(request, "assistants", "search", value)
    return AssistantQuery(
        owner=access.owner,
        graph_id=value["graph_id"],
        name=body.name,
        metadata=value.get("metadata"),
        filters=access.filter,
    )


@router.get("/assistants/{assistant_id}", responses=ONE)
async def get_assistant(request: Request, served: Served, assistant_id: str) -> Response:
    """Return an assistant, by its id or the name of its agent."""
    _, row = await find_assistant(request, served, assistant_id, "read")
    return JsonResponse(render_assistant(row))


@router.patch("/assistants/{assistant_id}", responses=ONE)
async def update_assistant(
    request: Request, served: Served, assistant_id: str, body: AssistantChange
) -> Response:
    """Make a new version of an assistant, and use it."""
    value = body.model_dump() | {"metadata": body.metadata or {}}
    caller, row = await find_assistant(request, served, assistant_id, "update", value)
    check_agent(served, value["graph_id"])
    if row.owner is None and value["graph_id"] not in (None, row.graph_id):
        raise ConflictError(
            f"the assistant {row.name!r} stands for the agent {row.graph_id!r}, and cannot "
            "be made another's. Create one of your own"
        )
    fields = AssistantChange.model_fields
    named = {name: value[name] for name in fields if value.get(name) is not None}
    revise = partial(_revise_assistant, served, caller, row.assistant_id, named)
    changed = await served.database.write(revise)
    if changed is None:
        raise assistant_not_found(assistant_id)
    return JsonResponse(render_assistant(changed))


def _revise_assistant(
    served: Services, caller: Caller, assistant_id: str, named: dict[str, Any], tx: Tx
) -> Assistant | None:
    row = assistants.lock(tx, assistant_id)
    if row is None:
        return None
    metadata = {**row.metadata, **named.get("metadata", {})}
    changed = replace(row, **{**named, "metadata": metadata, **_new_settings(row, named)})
    size = _version_size(changed)
    served.check_bytes(tx, caller, row.owner, size)
    counted = replace(changed, stored_bytes=(row.stored_bytes or 0) + size)
    return assistants.add_version(tx, counted, time.time())


def _new_settings(row: Assistant, named: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a new version: what replaces the one replaces the other with it."""
    config, context = named.get("config"), named.get("context")
    if context is None and not (config or {}).get("configurable"):
        return {}
    base = {key: said for key, said in row.config.items() if key != "configurable"}
    config, context = mirror_settings(base if config is None else config, context)
    return {"config": config, "context": context}


@router.delete("/assistants/{assistant_id}", status_code=204, responses=GONE)
async def delete_assistant(
    request: Request,
    served: Served,
    assistant_id: str,
    delete_threads: Annotated[bool, Query()] = False,
) -> Response:
    """Remove an assistant with its versions and crons, and if asked with its threads."""
    _, row = await find_assistant(request, served, assistant_id, "delete")
    if row.owner is None:
        raise ConflictError(
            f"the assistant {row.name!r} stands for an agent of the config, and goes when the "
            "agent does. Only assistants that somebody created can be deleted"
        )
    if delete_threads:
        await remove_threads(request, served, row.assistant_id)
    if not await served.database.write(partial(_remove_assistant, assistant_id=row.assistant_id)):
        raise assistant_not_found(assistant_id)
    return Response(status_code=204)


def _remove_assistant(tx: Tx, assistant_id: str) -> bool:
    crons.remove_of_assistant(tx, assistant_id)
    return assistants.remove(tx, assistant_id)


@router.post("/assistants/{assistant_id}/versions", responses=MANY)
async def list_versions(
    request: Request, served: Served, assistant_id: str, body: VersionSearch
) -> Response:
    """List the versions of an assistant, the newest first."""
    _, row = await find_assistant(request, served, assistant_id, "read")
    rows = await served.database.read(
        lambda reads: assistants.versions(
            reads, row.assistant_id, body.metadata, body.limit, body.offset
        )
    )
    return JsonResponse([render_assistant(each) for each in rows])


@router.post("/assistants/{assistant_id}/latest", responses=ONE)
async def set_latest(request: Request, served: Served, assistant_id: str, body: Latest) -> Response:
    """Make an assistant what one of its versions says."""
    value = {"version": body.version}
    _, row = await find_assistant(request, served, assistant_id, "update", value)
    changed = await served.database.write(
        lambda tx: _use_version(tx, row.assistant_id, body.version)
    )
    if changed is None:
        raise NotFoundError(f"version {body.version} of the assistant {assistant_id!r} not found")
    return JsonResponse(render_assistant(changed))


def _use_version(tx: Tx, assistant_id: str, number: int) -> Assistant | None:
    row = assistants.lock(tx, assistant_id)
    told = assistants.get_version(tx, assistant_id, number)
    if row is None or told is None:
        return None
    return assistants.use_version(
        tx,
        replace(row, **{name: getattr(told, name) for name in assistants.VERSIONED}),
        number,
        time.time(),
    )
