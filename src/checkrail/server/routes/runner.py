"""The runner protocol: processes elsewhere take runs, report on them, and ask hooks about them."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Header, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from checkrail.runs.errors import InvalidError
from checkrail.runs.execute.job import suspended_state
from checkrail.runs.remote.leases import RunLease
from checkrail.runs.remote.points import ReachedPoint
from checkrail.runs.remote.runners import PollRequest
from checkrail.server.auth import caller_of, revoked_error
from checkrail.server.deferred import Router
from checkrail.server.fields import Name
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.server.streaming import wait_for_disconnect
from checkrail.store.events import RunEvent
from checkrail.store.workers import Worker

Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]
Kind = Literal["graph", "autonomous", "procedural"]
Attempt = Annotated[int, Field(ge=1, lt=2**31)]
_DEEPEST = 128
"""Levels of what a runner says: whoever reads it later puts it into answers, which are deeper."""


def _check_depth(given: Any) -> Any:
    level = [given]
    for _ in range(_DEEPEST):
        lists = (each for each in level if isinstance(each, list))
        objects = (each.values() for each in level if isinstance(each, dict))
        level = [item for many in (*lists, *objects) for item in many]
        if not level:
            return given
    raise ValueError(f"it is nested deeper than {_DEEPEST} levels")


Json = Annotated[Any, AfterValidator(_check_depth)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_check_depth)]
Number = Annotated[int, Field(ge=1, lt=2**62)]
Age = Annotated[float, Field(ge=0, lt=86400)]
Told = tuple[Number, Name, list[str], Json, Age] | tuple[Number, Name, list[str], Json]
Waiting = tuple[Name, list[str], Json]
Usage = dict[Name, JsonObject]
"""What models have used, by their names."""


class Body(BaseModel):
    """What all bodies have in common: what they do not know is left out."""

    model_config = ConfigDict(extra="ignore")


class Registration(Body):
    """A runner: what it can carry out, and how much of it at a time."""

    name: Annotated[Name, Field(min_length=1, max_length=200)]
    capacity: Annotated[int, Field(ge=1, le=10_000)] = 1
    tags: Annotated[list[Tag], Field(max_length=100)] = []
    kinds: list[Kind] = ["graph", "autonomous", "procedural"]
    agents: Annotated[list[Name], Field(max_length=10_000)] = []
    version: Annotated[Name, Field(max_length=100)] | None = None
    config_digest: Annotated[Name, Field(max_length=200)] | None = None
    host: Annotated[Name, Field(max_length=255)] = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0


class Registered(BaseModel, defer_build=True):
    """Under which id a runner is known, and how often it has to report, in seconds."""

    runner_id: str
    lease_seconds: float
    beat_seconds: float
    poll_seconds: float


class Listed(BaseModel, defer_build=True):
    """Somebody who carries out runs: a runner, or a server with the runner inside it."""

    runner_id: str
    kind: Literal["runner", "server"]
    name: str
    host: str
    tags: list[str]
    agents: list[str] | None = None
    capacity: int | None = None
    run_ids: list[str]
    started_at: str
    last_seen_at: str | None = None
    lease_expires_at: str
    kinds: list[str]
    version: str | None = None


class Needed(BaseModel, defer_build=True):
    """Runs that wait for somebody: what they need, who has it, and which tags nobody has."""

    kind: str
    agent_name: str
    tags: list[str]
    waiting: int
    oldest: str | None = None
    runners: list[str]
    missing_tags: list[str]


class Stop(BaseModel, defer_build=True):
    """A run that is to be stopped, and how."""

    run_id: str
    attempt: int
    cancel: Literal["interrupt", "rollback"]


class Polled(BaseModel, defer_build=True):
    """Runs to be carried out, and runs to be stopped."""

    runs: list[dict[str, Any]]
    stops: list[Stop]


class Leased(Body):
    """Something that is said under a lease: the runner's, for one attempt at a run."""

    attempt: Attempt


class Beat(BaseModel, defer_build=True):
    """What a heartbeat learns: of its run, and of all that the runner holds."""

    cancel: Literal["interrupt", "rollback"] | None
    runs: dict[str, dict[str, Any]]


class Events(Leased):
    """What a run tells, and what it has used so far.

    An event is `[number, event, namespace, data, age]`: how many seconds ago it happened, as the
    clocks of two machines differ. Without an age it happened now.
    """

    events: Annotated[list[Told], Field(max_length=100_000)]
    usage: Usage | None = None

    def to_events(self) -> list[RunEvent]:
        """Return the events."""
        now = time.time()
        return [
            RunEvent(seq, event, tuple(ns), data, at=now - sum(age))
            for seq, event, ns, data, *age in self.events
        ]


class Point(Leased):
    """A point that a run has reached, and the value there."""

    point: Name
    value: Json = None
    ids: JsonObject = {}
    levels: list[Name] = []
    leaves: bool = False

    def to_point(self) -> ReachedPoint:
        """Return the point."""
        return ReachedPoint(self.point, self.value, self.ids, self.levels, self.leaves)


class Graph(Body):
    """Where a graph waits, if it does."""

    interrupts: list[JsonObject] = []
    next: list[str] = []
    waiting: dict[str, list[JsonObject]] = {}


class Completed(Leased):
    """A run that came to a result; `held` are events that hooks have to see first."""

    output: Json = None
    messages: list[JsonObject] | None = None
    usage: Usage = {}
    held: list[Waiting] = []
    graph: Graph | None = None

    def to_state(self) -> dict[str, Any]:
        """Return what is stored of it until hooks have decided."""
        kept = {
            "output": self.output,
            "messages": self.messages,
            "usage": self.usage,
            "events": self.held,
        }
        return kept if self.graph is None else kept | {"graph": self.graph.model_dump()}


class Left(Leased):
    """A run that is left until somebody has answered: where, and what to take up again there."""

    memo: JsonObject
    usage: Usage = {}
    held: list[Waiting] = []
    seconds_left: float | None = None

    def to_state(self) -> dict[str, Any]:
        """Return what is stored of it until it is entered again."""
        return {
            **suspended_state(self.memo, self.usage, self.held),
            "seconds_left": self.seconds_left,
        }


class Failed(Leased):
    """A run that came to no result: why, and by which hook if it was one."""

    error: str
    error_type: Annotated[Name, Field(max_length=200)] = "Error"
    phase: Literal["error", "blocked", "timeout"] = "error"
    blocked_by: Name | None = None
    unwound: bool | None = None
    usage: Usage = {}

    def to_state(self) -> dict[str, Any]:
        """Return what is stored of it until the run has ended."""
        names = ("error", "error_type", "phase", "blocked_by", "unwound")
        told = {name: getattr(self, name) for name in names}
        return {"usage": self.usage, "ended": {"as": "failed", **told}}


class Stopped(Leased):
    """A run that was stopped as it was asked to be; `unwound` unless it had to be left behind."""

    usage: Usage = {}
    unwound: bool = True

    def to_state(self) -> dict[str, Any]:
        """Return what is stored of it until the run has ended."""
        return {"usage": self.usage, "ended": {"as": "stopped", "unwound": self.unwound}}


router = Router(tags=["runners"])

Served = Annotated[Services, Depends(services_of)]
Room = Annotated[int, Query(ge=0, le=10_000)]
Ids = Annotated[list[UUID] | None, Query(max_length=10_000)]

QUEUE: Answers = {200: {"model": list[Needed]}, **PROBLEMS}
RUNNERS: Answers = {200: {"model": list[Listed]}, **PROBLEMS}
REGISTERED: Answers = {200: {"model": Registered}, **PROBLEMS}
POLLED: Answers = {200: {"model": Polled}, 204: {"description": "Nothing to do"}, **PROBLEMS}
BEAT: Answers = {200: {"model": Beat}, **PROBLEMS}
DECISION: Answers = {200: {"model": dict[str, Any]}, **PROBLEMS}
TAKEN: Answers = {204: {"description": "It was taken"}, **PROBLEMS}


async def _require_runner(
    request: Request,
    served: Served,
    said: Annotated[UUID | None, Header(alias="X-Runner-Id")] = None,
    runner_id: Annotated[UUID | None, Query()] = None,
) -> Worker:
    """Return the runner that calls; only whoever registered it can call for it."""
    found = said or runner_id
    if found is None:
        raise InvalidError("say which runner you are: X-Runner-Id, or runner_id in the query")
    return await served.runs.runners.require_runner(str(found), caller_of(request).owner)


Runner = Annotated[Worker, Depends(_require_runner)]


def _lease_of(runner: Worker, run_id: UUID, body: Leased) -> RunLease:
    return RunLease(str(run_id), runner.worker_id, body.attempt)


@router.get("/runners", responses=RUNNERS)
async def list_runners(served: Served) -> Response:
    """List who executes runs: servers and runners that are alive, with what they hold."""
    found = await served.runs.runners.list_workers()
    times = ("started_at", "last_seen_at", "lease_expires_at")
    return JsonResponse(
        [{**each, **{name: render_time(each[name]) for name in times}} for each in found]
    )


@router.get("/queue", responses=QUEUE)
async def describe_queue(served: Served) -> Response:
    """Return how many runs wait for somebody who can carry them out, by what they need."""
    found = await served.runs.runners.describe_queue()
    return JsonResponse([{**each, "oldest": render_time(each["oldest"])} for each in found])


@router.post("/runner/register", responses=REGISTERED)
async def register_runner(request: Request, served: Served, body: Registration) -> Response:
    """Enter a runner; it is known as long as it polls or beats."""
    owner = caller_of(request).owner
    return JsonResponse(await served.runs.runners.register(owner, body.model_dump()))


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
    asked = PollRequest(room, _to_ids(holding), _to_ids(stopping))
    gone = asyncio.get_running_loop().create_task(wait_for_disconnect(request.receive))
    with served.key_watch.watch_key(caller_of(request)) as revoked:
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
    return JsonResponse({"runs": found.runs, "stops": found.stops})


def _to_ids(ids: list[UUID] | None) -> frozenset[str]:
    return frozenset(map(str, ids or ()))


@router.post("/runner/runs/{run_id}/heartbeat", responses=BEAT)
async def beat_run(served: Served, runner: Runner, run_id: UUID, body: Leased) -> Response:
    """Keep the lease of a runner, and learn what is to be stopped or is lost."""
    name = runner.worker_id
    return JsonResponse(await served.runs.runners.beat(name, str(run_id), body.attempt))


@router.post("/runner/runs/{run_id}/events", status_code=204, responses=TAKEN)
async def tell_events(served: Served, runner: Runner, run_id: UUID, body: Events) -> Response:
    """Keep events of a run; those that are kept already are left out."""
    await served.runs.runners.store_events(
        _lease_of(runner, run_id, body), body.to_events(), body.usage
    )
    return Response(status_code=204)


@router.post("/runner/runs/{run_id}/points", responses=DECISION)
async def reach_point(served: Served, runner: Runner, run_id: UUID, body: Point) -> Response:
    """Call the hooks at a point of a run, and give what they decided."""
    lease = _lease_of(runner, run_id, body)
    return JsonResponse(await served.runs.runners.fire_point(lease, body.to_point()))


@router.post("/runner/runs/{run_id}/completed", status_code=204, responses=TAKEN)
async def complete_run(served: Served, runner: Runner, run_id: UUID, body: Completed) -> Response:
    """Take the result of a run; hooks rule on it afterwards."""
    return await _store_report(served, runner, run_id, body)


@router.post("/runner/runs/{run_id}/left", status_code=204, responses=TAKEN)
async def leave_run(served: Served, runner: Runner, run_id: UUID, body: Left) -> Response:
    """Take a run that waits for somebody to answer; whoever can carry it out goes on with it."""
    await served.runs.runners.suspend(_lease_of(runner, run_id, body), body.to_state())
    return Response(status_code=204)


@router.post("/runner/runs/{run_id}/failed", status_code=204, responses=TAKEN)
async def fail_run(served: Served, runner: Runner, run_id: UUID, body: Failed) -> Response:
    """Take word of a run that came to no result."""
    return await _store_report(served, runner, run_id, body)


@router.post("/runner/runs/{run_id}/stopped", status_code=204, responses=TAKEN)
async def stop_run(served: Served, runner: Runner, run_id: UUID, body: Stopped) -> Response:
    """Take word of a run that was stopped."""
    return await _store_report(served, runner, run_id, body)


async def _store_report(
    served: Services, runner: Worker, run_id: UUID, body: Completed | Failed | Stopped
) -> Response:
    await served.runs.runners.report(_lease_of(runner, run_id, body), body.to_state())
    return Response(status_code=204)


@router.post("/runner/deregister", status_code=204, responses=TAKEN)
async def deregister_runner(served: Served, runner: Runner, holding: Ids = None) -> Response:
    """Forget a runner; what it is `holding` goes to others, or ends as its agent says."""
    await served.runs.runners.deregister(runner.worker_id, _to_ids(holding))
    return Response(status_code=204)
