"""Sessions: who talks to which agent on which channel, with their threads and runs."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from checkrail.server.agent_runs import SYNC, answered, awaited
from checkrail.server.answers import Json
from checkrail.server.asking import once_of
from checkrail.server.coordinator_bodies import Resumption
from checkrail.server.documents import ANY_RUN, PROBLEMS, RUNS, Answers, Run
from checkrail.server.finding import find_session, text_of
from checkrail.server.routes.runs import Key, Limit
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import run_json, session_json
from checkrail.server.streaming import place_for_stream
from checkrail.store import runs, sessions
from checkrail.store.database import Reads
from checkrail.store.rows import Row

router = APIRouter(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
_SHOWN = 100  # runs of a session that are given with it


class Session(BaseModel):
    """One user on one channel, from the first message until it ends."""

    session_id: str
    parent_session_id: str | None
    user_id: str | None
    channel: str
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    ended_at: str | None
    reason: str | None


class WholeSession(Session):
    """A session with its threads, the oldest first, and its newest runs."""

    thread_ids: list[str]
    runs: list[Run]


class Stopped(BaseModel):
    """The runs that are being stopped, the one that is under way first."""

    run_ids: list[str]


STOPPED: Answers = {202: {"model": Stopped}, **PROBLEMS}
SESSIONS: Answers = {200: {"model": list[Session]}, **PROBLEMS}
SESSION: Answers = {200: {"model": WholeSession}, **PROBLEMS}


@router.get("/sessions", responses=SESSIONS)
async def list_sessions(
    request: Request,
    served: Served,
    parent_session_id: Annotated[UUID | None, Query()] = None,
    before: Annotated[UUID | None, Query()] = None,
    limit: Limit = 20,
) -> Response:
    """List sessions, the newest first; the next page are those `before` the last of this one."""
    asker = await served.asker(request, "sessions", "search", {"metadata": {}})
    last = None if before is None else await find_session(request, served, before, "read")

    def find(reads: Reads) -> list[Row]:
        return sessions.search(
            reads,
            owner=asker.owner,
            parent=text_of(parent_session_id),
            filters=asker.filters,
            before=last,
            limit=limit,
        )

    return Json([session_json(row) for row in await served.database.read(find)])


@router.get("/sessions/{session_id}", responses=SESSION)
async def get_session(request: Request, served: Served, session_id: UUID) -> Response:
    """Give a session with its threads and its newest runs."""
    row = await find_session(request, served, session_id, "read")

    def within(reads: Reads) -> tuple[list[str], list[Row]]:
        name = row["session_id"]
        newest = runs.search(reads, session_id=name, limit=_SHOWN)
        return sessions.thread_ids(reads, name), newest

    threads, newest = await served.database.read(within)
    told = {"thread_ids": threads, "runs": [run_json(each) for each in newest]}
    return Json(session_json(row) | told)


@router.get("/sessions/{session_id}/runs", responses=RUNS)
async def list_session_runs(
    request: Request,
    served: Served,
    session_id: UUID,
    limit: Limit = 20,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """List the runs of a session, the newest first."""
    row = await find_session(request, served, session_id, "read")
    found = await served.database.read(
        lambda reads: runs.search(reads, session_id=row["session_id"], limit=limit, offset=offset)
    )
    return Json([run_json(each) for each in found])


@router.post("/sessions/{session_id}/resume", responses=ANY_RUN)
async def resume_session(
    request: Request, served: Served, session_id: UUID, body: Resumption, key: Key = None
) -> Response:
    """Tell a session something: its agent runs again on its last thread."""
    row = await find_session(request, served, session_id, "read")
    told: dict[str, Any] = {"session_id": session_id, "metadata": body.metadata or {}}
    told["kwargs"] = {"input": {"prompt": body.prompt}}
    asker = await served.asker(request, "sessions", "create_run", told)
    once = await once_of(request, key)

    async def resumed() -> Row:
        return await served.runs.resume(
            row["session_id"], body.prompt, asker, once, metadata=told.get("metadata") or {}
        )

    if body.execution_mode != SYNC:
        return answered(await resumed())
    with place_for_stream(served):
        run = await resumed()
    return awaited(served, run)


@router.post("/sessions/{session_id}/stop", status_code=202, responses=STOPPED)
async def stop_session(request: Request, served: Served, session_id: UUID) -> Response:
    """Stop what a session does now, and what waits for that; what is asked of it later runs."""
    row = await find_session(request, served, session_id, "update")
    stopped = await served.runs.stop_session(row["session_id"])
    return Json({"run_ids": stopped}, status_code=202)
