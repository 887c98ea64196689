"""Runs of agents by name, in sessions and in three modes, as the coordinator's clients ask."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from checkrail.runs import jsons
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError
from checkrail.server.answers import Json
from checkrail.server.asking import ask, once_of
from checkrail.server.coordinator_bodies import AgentRunBody
from checkrail.server.finding import find_session
from checkrail.server.services import Services
from checkrail.server.shapes import path_of, whole_run_json
from checkrail.server.streaming import Awaited, place_for_stream
from checkrail.store import sessions
from checkrail.store.rows import Row

SYNC = "sync"
CALLBACK = "async_callback"


async def run_agent(
    request: Request, served: Services, body: AgentRunBody, key: str | None
) -> Response:
    """Ask for a run of an agent, and answer at once or when it has ended."""
    if body.execution_mode == CALLBACK and body.parent_session_id is None:
        raise InvalidError(
            "execution_mode async_callback resumes the session that asked. "
            "Say which one with parent_session_id"
        )
    await served.check_runnable(body.agent_name)
    thread_id = await _thread_of(request, served, body)
    wanted, once = [body.request(thread_id)], await once_of(request, key)
    if body.execution_mode != SYNC:
        [row] = await ask(request, served, wanted, once)
        return answered(row)
    with place_for_stream(served):
        [row] = await ask(request, served, wanted, once)
    return awaited(served, row)


async def _thread_of(request: Request, served: Services, body: AgentRunBody) -> str | None:
    """Find the thread of the session that is named; without one the run has a session anew."""
    if body.parent_session_id is not None:
        await find_session(request, served, body.parent_session_id, "read")
    if body.session_id is None:
        return None
    session = await find_session(request, served, body.session_id, "read")
    if session["ended_at"] is not None:
        raise ConflictError(f"the session {session['session_id']!r} has ended. Begin another one")
    thread = await served.database.read(
        lambda reads: sessions.thread_of(reads, session["session_id"])
    )
    if thread is None:
        told = f"the session {session['session_id']!r} has no thread any more"
        raise ConflictError(f"{told}. Begin another one, by leaving session_id out")
    return str(thread["thread_id"])


def answered(row: Row) -> Response:
    """Answer with a run as it is now."""
    return Json(whole_run_json(row), headers={"content-location": path_of(row)})


def awaited(served: Services, row: Row) -> Response:
    """Answer with a run when it has ended, however that was; a place is held for the answer."""
    place = {"content-location": path_of(row)}
    return Awaited(served, _ended(served, row), place, placed=True)


async def _ended(served: Services, row: Row) -> bytes:
    try:
        return jsons.dumps(whole_run_json(await served.runs.ended(row["run_id"])))
    except NotFoundError as gone:  # it was rolled back: nothing is left but that it was
        over = {"status": "interrupted", "phase": "cancelled", "error": str(gone)}
        return jsons.dumps(whole_run_json(row | over | {"error_type": "CancelledError"}))
