"""The steps of a run: what happened in it and when, as one tree; and one of them in full."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from checkrail.runs.errors import NotFoundError
from checkrail.runs.steps import (
    FOLD_ABOVE,
    SHOWN,
    RunSteps,
    RunStory,
    Step,
    build_steps,
    filter_steps,
    fold_passed,
)
from checkrail.server.auth import caller_of
from checkrail.server.deferred import Router
from checkrail.server.fields import choice_validator
from checkrail.server.lookups import find_run
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_record
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import approvals, deliveries, events, records
from checkrail.store.database import Reads
from checkrail.store.run_lists import RunFilter, list_runs
from checkrail.store.runs import Run

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Shown = Annotated[str, choice_validator(*SHOWN)]
Text = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]

_MOST_RECORDS = 400_000
_MOST_RUNS = 1000
_TOLD_AT_ONCE = 2000


class ShownStep(BaseModel, defer_build=True):
    """A step: what it is, when it began and ended, and what came of it."""

    index: int
    id: str
    kind: str
    name: str
    parent: str | None
    depth: int
    began: float
    ended: float | None
    duration_ms: float | None
    result: str
    details: dict[str, Any]


class Steps(BaseModel, defer_build=True):
    """Some of a run's steps, from an index on, and where its time went."""

    run_id: str
    began: float
    ended: float
    live: bool
    last_seq: int
    total: int
    all: int
    folded: bool
    first: int
    block: str | None
    totals: dict[str, float]
    steps: list[ShownStep]


class WholeStep(BaseModel, defer_build=True):
    """A step, with the records of its hooks, and what a tool was given and gave."""

    step: ShownStep
    records: list[dict[str, Any]]
    tool: dict[str, Any] | None = None


MANY: Answers = {200: {"model": Steps}, **PROBLEMS}
ONE: Answers = {200: {"model": WholeStep}, **PROBLEMS}


@router.get("/runs/{run_id}/steps", responses=MANY)
async def list_steps(
    request: Request,
    served: Served,
    run_id: UUID,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    show: Annotated[Shown, Query()] = "all",
    q: Text = "",
    fold: Annotated[bool | None, Query()] = None,
    around: Annotated[str | None, Query(max_length=300)] = None,
) -> Response:
    """Return the steps of a run, each after the one it is within, those `after` so many.

    `show` and `q` leave out what is not wanted, but for what it is within. Hooks that passed are
    folded where there are many steps, or as `fold` says. `around` chooses the page that has a step.
    """
    row = await find_run(request, served, run_id, "read")
    found = await _load_steps(served, row, whole=caller_of(request).is_admin)
    steps = filter_steps(found.steps, show, q)
    folded = len(steps) > FOLD_ABOVE if fold is None else fold
    if folded:
        steps = fold_passed(steps)
    if around is not None:
        at = next((number for number, step in enumerate(steps) if step.id == around), 0)
        after = at // limit * limit
    shown = [_render_step(after + number, s) for number, s in enumerate(steps[after:][:limit])]
    told = {
        "run_id": row.run_id,
        "began": found.began,
        "ended": found.ended,
        "live": row.ended_at is None,
        "last_seq": row.last_seq,
        "total": len(steps),
        "all": len(found.steps),
        "folded": folded,
        "first": after,
        "block": found.block,
        "totals": found.totals,
        "steps": shown,
    }
    return JsonResponse(told)


@router.get("/runs/{run_id}/steps/{step_id}", responses=ONE)
async def get_step(request: Request, served: Served, run_id: UUID, step_id: str) -> Response:
    """Return a step: with the records of its hooks, their values included; with a tool's call."""
    row = await find_run(request, served, run_id, "read")
    whole = caller_of(request).is_admin
    found = await _load_steps(served, row, whole=whole)
    at = next((number for number, step in enumerate(found.steps) if step.id == step_id), None)
    if at is None:
        raise NotFoundError(f"step {step_id[:100]!r} of run {row.run_id!r} not found")
    step = found.steps[at]
    told: dict[str, Any] = {"step": _render_step(at, step), "records": [], "tool": None}
    if step.kind in ("hook", "point"):
        wanted = _records_of(step, found.steps)

        def load_records(reads: Reads) -> list[dict[str, Any]]:
            rows = (records.find_in_run(reads, row.run_id, each) for each in wanted)
            return [{"seq": each.seq, **each.whole} for each in rows if each is not None]

        loaded = await served.database.read(load_records)
        told["records"] = [render_record(each, whole=whole) for each in loaded]
    elif step.kind == "tool":
        told["tool"] = await _load_tool_call(served, row, step)
    return JsonResponse(told)


def _records_of(step: Step, steps: list[Step]) -> list[str]:
    """Return the ids of the records of a hook's call, or of all calls at a point."""
    calls = [step] if step.kind == "hook" else [each for each in steps if each.parent == step.id]
    found = [each.details.get("record_id") for each in calls if each.kind == "hook"]
    return [each for each in found if each is not None]


async def _load_steps(served: Services, row: Run, *, whole: bool) -> RunSteps:
    """Build the steps of a run, what it has told just now included."""
    if row.ended_at is None:
        await served.runs.parts.log.flush()
    owner = row.owner

    def load_story(reads: Reads) -> RunStory:
        found = records.summaries_of_run(reads, row.run_id, _MOST_RECORDS)
        beneath = RunFilter(owner=owner, parent_run_id=row.run_id)
        return RunStory(
            row,
            [render_record(each, whole=whole) for _, each in found],
            events.marks_of_run(reads, row.run_id),
            approvals.of_run(reads, row.run_id),
            deliveries.of_run(reads, row.run_id),
            list_runs(reads, beneath, limit=_MOST_RUNS).rows,
            served.database.time(),
        )

    return build_steps(await served.database.read(load_story))


async def _load_tool_call(served: Services, row: Run, step: Step) -> dict[str, Any] | None:
    """Find what a tool was given and what it gave, as far as the run has told that."""
    name, told, after = step.details.get("tool_call_id"), dict[str, Any](), 0
    while not {"args", "content"} <= told.keys():
        read = partial(events.load_after, run_id=row.run_id, seq=after, rows=_TOLD_AT_ONCE)
        page = await served.database.read(read)
        if not page:
            break
        for event in page:
            data = event.data
            if isinstance(data, dict) and data.get("tool_call_id") == name:
                told |= _read_tool_event(event.event, data)
        after = page[-1].seq
    return told or None


def _read_tool_event(event: str, data: dict[str, Any]) -> dict[str, Any]:
    names = {"input": "args", "output": "content", "message": "error"}
    if event == "tools":
        return {names[key]: value for key, value in data.items() if key in names}
    if event == "custom" and data.get("type") in ("tool_started", "tool_finished"):
        return {key: data[key] for key in ("args", "content", "is_error") if key in data}
    return {}


def _render_step(index: int, step: Step) -> dict[str, Any]:
    ended = step.ended
    return {
        "index": index,
        "id": step.id,
        "kind": step.kind,
        "name": step.name,
        "parent": step.parent,
        "depth": step.depth,
        "began": round(step.began, 6),
        "ended": None if ended is None else round(ended, 6),
        "duration_ms": None if ended is None else round((ended - step.began) * 1000, 3),
        "result": step.result,
        "details": {name: said for name, said in step.details.items() if said is not None},
    }
