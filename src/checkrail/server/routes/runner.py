"""The runner protocol: processes elsewhere take runs, report on them, and ask hooks about them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from checkrail.runs.errors import InvalidError
from checkrail.runs.outside.leases import Lease
from checkrail.runs.outside.runners import Asked
from checkrail.server.answers import Json
from checkrail.server.auth import caller_of, revoked_error
from checkrail.server.documents import PROBLEMS, Answers
from checkrail.server.runner_bodies import (
    Beat,
    Completed,
    Events,
    Failed,
    Leased,
    Left,
    Listed,
    Point,
    Polled,
    Registered,
    Registration,
    Stopped,
)
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import when
from checkrail.server.streaming import disconnected
from checkrail.store.rows import Row

router = APIRouter(tags=["runners"])

Served = Annotated[Services, Depends(services_of)]
Room = Annotated[int, Query(ge=0, le=10_000)]
Ids = Annotated[list[UUID] | None, Query(max_length=10_000)]

RUNNERS: Answers = {200: {"model": list[Listed]}, **PROBLEMS}
REGISTERED: Answers = {200: {"model": Registered}, **PROBLEMS}
POLLED: Answers = {200: {"model": Polled}, 204: {"description": "Nothing to do"}, **PROBLEMS}
BEAT: Answers = {200: {"model": Beat}, **PROBLEMS}
DECISION: Answers = {200: {"model": dict[str, Any]}, **PROBLEMS}
TAKEN: Answers = {204: {"description": "It was taken"}, **PROBLEMS}


async def _runner(
    request: Request,
    served: Served,
    said: Annotated[UUID | None, Header(alias="X-Runner-Id")] = None,
    runner_id: Annotated[UUID | None, Query()] = None,
) -> Row:
    """Find the runner that speaks; only whoever registered it can speak for it."""
    found = said or runner_id
    if found is None:
        raise InvalidError("say which runner you are: X-Runner-Id, or runner_id in the query")
    return await served.runs.runners.known(str(found), caller_of(request).owner)


Runner = Annotated[Row, Depends(_runner)]


def _lease(runner: Row, run_id: UUID, body: Leased) -> Lease:
    return Lease(str(run_id), runner["worker_id"], body.attempt)


@router.get("/runners", responses=RUNNERS)
async def list_runners(served: Served) -> Response:
    """List who carries out runs: servers and runners that are heard of, with what they hold."""
    found = await served.runs.runners.listed()
    return Json([{**each, "started_at": when(each["started_at"])} for each in found])


@router.post("/runner/register", responses=REGISTERED)
async def register_runner(request: Request, served: Served, body: Registration) -> Response:
    """Enter a runner; it is known as long as it polls or beats."""
    owner = caller_of(request).owner
    return Json(await served.runs.runners.register(owner, body.model_dump()))


@router.get("/runner/runs", responses=POLLED)
async def poll_runs(
    request: Request,
    served: Served,
    runner: Runner,
    room: Room = 1,
    holding: Ids = None,
    stopping: Ids = None,
) -> Response:
    """Wait for runs to carry out and runs to stop; `holding` are those that the runner has."""
    asked = Asked(room, _named(holding), _named(stopping))
    gone = asyncio.get_running_loop().create_task(disconnected(request.receive))
    with served.key_watch.revocation(caller_of(request)) as revoked:
        revoked.add_done_callback(lambda _revoked: gone.cancel())
        try:
            found = await served.runs.runners.poll(runner, asked, gone)
        except asyncio.CancelledError:  # this server stops
            return Response(status_code=503)
        finally:
            gone.cancel()
    if revoked.done():
        raise revoked_error()
    if not found:
        return Response(status_code=204)
    return Json({"runs": found.runs, "stops": found.stops})


def _named(ids: list[UUID] | None) -> frozenset[str]:
    return frozenset(map(str, ids or ()))


@router.post("/runner/runs/{run_id}/heartbeat", responses=BEAT)
async def beat_run(served: Served, runner: Runner, run_id: UUID, body: Leased) -> Response:
    """Keep the lease of a runner, and learn what is to be stopped or is lost."""
    name = runner["worker_id"]
    return Json(await served.runs.runners.beat(name, str(run_id), body.attempt))


@router.post("/runner/runs/{run_id}/events", status_code=204, responses=TAKEN)
async def tell_events(served: Served, runner: Runner, run_id: UUID, body: Events) -> Response:
    """Keep events of a run; those that are kept already are left out."""
    await served.runs.runners.tell(_lease(runner, run_id, body), body.told(), body.usage)
    return Response(status_code=204)


@router.post("/runner/runs/{run_id}/points", responses=DECISION)
async def reach_point(served: Served, runner: Runner, run_id: UUID, body: Point) -> Response:
    """Call the hooks at a point of a run, and give what they decided."""
    lease = _lease(runner, run_id, body)
    return Json(await served.runs.runners.decide(lease, body.reached()))


@router.post("/runner/runs/{run_id}/completed", status_code=204, responses=TAKEN)
async def complete_run(served: Served, runner: Runner, run_id: UUID, body: Completed) -> Response:
    """Take the result of a run; hooks rule on it afterwards."""
    return await _reported(served, runner, run_id, body)


@router.post("/runner/runs/{run_id}/left", status_code=204, responses=TAKEN)
async def leave_run(served: Served, runner: Runner, run_id: UUID, body: Left) -> Response:
    """Take a run that waits for somebody to answer; whoever can carry it out goes on with it."""
    await served.runs.runners.leave(_lease(runner, run_id, body), body.kept())
    return Response(status_code=204)


@router.post("/runner/runs/{run_id}/failed", status_code=204, responses=TAKEN)
async def fail_run(served: Served, runner: Runner, run_id: UUID, body: Failed) -> Response:
    """Take word of a run that came to no result."""
    return await _reported(served, runner, run_id, body)


@router.post("/runner/runs/{run_id}/stopped", status_code=204, responses=TAKEN)
async def stop_run(served: Served, runner: Runner, run_id: UUID, body: Stopped) -> Response:
    """Take word of a run that was stopped."""
    return await _reported(served, runner, run_id, body)


async def _reported(
    served: Services, runner: Row, run_id: UUID, body: Completed | Failed | Stopped
) -> Response:
    await served.runs.runners.report(_lease(runner, run_id, body), body.kept())
    return Response(status_code=204)


@router.post("/runner/deregister", status_code=204, responses=TAKEN)
async def deregister_runner(served: Served, runner: Runner, holding: Ids = None) -> Response:
    """Forget a runner; what it is `holding` goes to others, or ends as its agent says."""
    await served.runs.runners.deregister(runner["worker_id"], _named(holding))
    return Response(status_code=204)
