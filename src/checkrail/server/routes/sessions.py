"""Sessions: who talks to which agent on which channel, with their threads and runs."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from checkrail.runs.errors import ConflictError
from checkrail.server.agent_runs import SYNC, Resumption, ended_run_response, run_response
from checkrail.server.deferred import Router
from checkrail.server.fields import Key, Limit
from checkrail.server.lookups import find_session, to_text
from checkrail.server.openapi_models import ANY_RUN, PROBLEMS, RUNS, Answers, Run
from checkrail.server.renderers import render_run, render_session, render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.run_requests import idempotency_of
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import reserve_stream
from checkrail.store import runs, sessions
from checkrail.store.database import Reads

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Label = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]
_SAID = 240  # characters
_SHOWN = 100  # runs of a session that are given with it


class Session(BaseModel, defer_build=True):
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


class LastMessage(BaseModel, defer_build=True):
    """The beginning of what was said last in a session, and of the reply."""

    message_id: str
    content: str
    reply: str | None
    status: str
    created_at: str


class ListedSession(Session):
    """A session, how many runs and threads it has, and what was said last."""

    runs: int
    threads: int
    last_message: LastMessage | None


class WholeSession(Session):
    """A session with its threads, the oldest first, and its newest runs."""

    thread_ids: list[str]
    runs: list[Run]


class Stopped(BaseModel, defer_build=True):
    """The runs that are being stopped, the one that is under way first."""

    run_ids: list[str]


STOPPED: Answers = {202: {"model": Stopped}, **PROBLEMS}
SESSIONS: Answers = {200: {"model": list[ListedSession]}, **PROBLEMS}
SESSION: Answers = {200: {"model": WholeSession}, **PROBLEMS}


@router.get("/sessions", responses=SESSIONS)
async def list_sessions(
    request: Request,
    served: Served,
    parent_session_id: Annotated[UUID | None, Query()] = None,
    channel: Annotated[Label | None, Query()] = None,
    user_id: Annotated[Label | None, Query()] = None,
    is_open: Annotated[bool | None, Query(alias="open")] = None,
    q: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")] = "",
    before: Annotated[UUID | None, Query()] = None,
    limit: Limit = 20,
) -> Response:
    """List sessions, the newest first; the next page are those `before` the last of this one.

    `q` is looked for in ids, users and channels.
    """
    asker = await served.principal(request, "sessions", "search", {"metadata": {}})
    last = None if before is None else await find_session(request, served, before, "read")

    def find_page(reads: Reads) -> list[dict[str, Any]]:
        page = sessions.search(
            reads,
            owner=asker.owner,
            parent=to_text(parent_session_id),
            channel=channel,
            user_id=user_id,
            is_open=is_open,
            filters=asker.filters,
            text=q.strip(),
            before=last,
            limit=limit,
        )
        figures = sessions.figures_of(reads, [row.session_id for row in page])
        return [render_session(row) | _render_figures(figures[row.session_id]) for row in page]

    return JsonResponse(await served.database.read(find_page))


def _render_figures(figures: sessions.SessionFigures) -> dict[str, Any]:
    last = figures.last_message
    shown = None
    if last is not None:
        text = last.content["text"]
        shown = {
            "message_id": last.message_id,
            "content": text[:_SAID],
            "reply": None if last.reply is None else last.reply[:_SAID],
            "status": last.status,
            "created_at": render_time(last.created_at),
        }
    return {"runs": figures.runs, "threads": figures.threads, "last_message": shown}


@router.get("/sessions/{session_id}", responses=SESSION)
async def get_session(request: Request, served: Served, session_id: UUID) -> Response:
    """Return a session with its threads and its newest runs."""
    row = await find_session(request, served, session_id, "read")

    def find_contents(reads: Reads) -> tuple[list[str], list[runs.Run]]:
        name = row.session_id
        newest = runs.search(reads, session_id=name, limit=_SHOWN)
        return sessions.thread_ids(reads, name), newest

    threads, newest = await served.database.read(find_contents)
    told = {"thread_ids": threads, "runs": [render_run(each) for each in newest]}
    return JsonResponse(render_session(row) | told)


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
        lambda reads: runs.search(reads, session_id=row.session_id, limit=limit, offset=offset)
    )
    return JsonResponse([render_run(each) for each in found])


@router.post("/sessions/{session_id}/resume", responses=ANY_RUN)
async def resume_session(
    request: Request, served: Served, session_id: UUID, body: Resumption, key: Key = None
) -> Response:
    """Send a prompt to a session: its agent runs again on its last thread."""
    row = await find_session(request, served, session_id, "read")
    told: dict[str, Any] = {"session_id": session_id, "metadata": body.metadata or {}}
    told["kwargs"] = {"input": {"prompt": body.prompt}}
    asker = await served.principal(request, "sessions", "create_run", told)
    once = await idempotency_of(request, key)

    async def resume_run() -> runs.Run:
        return await served.runs.resume(
            row.session_id, body.prompt, asker, once, metadata=told.get("metadata") or {}
        )

    if body.execution_mode != SYNC:
        return run_response(await resume_run())
    with reserve_stream(served):
        run = await resume_run()
    return ended_run_response(served, run)


@router.post("/sessions/{session_id}/end", responses=SESSION)
async def end_session(request: Request, served: Served, session_id: UUID) -> Response:
    """End a session: its runs are cancelled, and nothing more is said in it."""
    row = await find_session(request, served, session_id, "update")
    if not await served.sessions.end(row.session_id, "requested"):
        told = f"the session {row.session_id!r} has ended already ({row.reason})"
        raise ConflictError(told)
    return await get_session(request, served, session_id)


@router.post("/sessions/{session_id}/stop", status_code=202, responses=STOPPED)
async def stop_session(request: Request, served: Served, session_id: UUID) -> Response:
    """Stop what a session does now, and what waits for that; what is asked of it later runs."""
    row = await find_session(request, served, session_id, "update")
    stopped = await served.runs.stop_session(row.session_id)
    return JsonResponse({"run_ids": stopped}, status_code=202)
