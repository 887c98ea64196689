"""Calls of models through the gateway: whose they were, and what came of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel
from starlette.responses import Response

from checkrail.llm.call_record import CallRecord
from checkrail.runs.errors import NotFoundError
from checkrail.server.deferred import Router
from checkrail.server.fields import Limit, check_text, to_seconds
from checkrail.server.lookups import owner_without_metadata
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import gateway_calls
from checkrail.store.database import Reads
from checkrail.store.gateway_calls import CallFilter

router = Router(tags=["gateway"])

Served = Annotated[Services, Depends(services_of)]
Text = Annotated[
    str | None, Query(max_length=256), AfterValidator(lambda said: said and check_text(said))
]
Decision = Literal["continue", "replace", "stop", "ask", "retry", "block", "fail"]

_TOLD = tuple(name for name in CallRecord.__slots__ if name not in ("created_at", "owner"))


class Call(BaseModel, defer_build=True):
    """A call of a model, without anything that was said in it."""

    call_id: str
    created_at: str
    format: str
    path: str
    request_id: str
    key: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    agent_name: str | None = None
    model: str | None = None
    answered_model: str | None = None
    upstream: str | None = None
    provider: str | None = None
    status: int | None = None
    streamed: bool
    usage: dict[str, Any] | None = None
    cost: float | None = None
    decision: Decision | None = None
    decisions: dict[str, int] | None = None
    reason: str | None = None
    duration_ms: float
    first_byte_ms: float | None = None


class Figures(BaseModel, defer_build=True):
    """Calls of one key, user or model: their number, tokens and cost, and what was refused."""

    name: str | None
    calls: int
    tokens: int
    cost: float | None
    blocked: int
    failed: int


FIGURES: Answers = {200: {"model": list[Figures]}, **PROBLEMS}
ONE: Answers = {200: {"model": Call}, **PROBLEMS}
MANY: Answers = {200: {"model": list[Call]}, **PROBLEMS}


@router.get("/gateway/calls", responses=MANY)
async def list_calls(
    request: Request,
    served: Served,
    limit: Limit = 20,
    key: Text = None,
    user: Text = None,
    model: Text = None,
    status: Annotated[int | None, Query(ge=100, le=599)] = None,
    decision: Annotated[Decision | None, Query()] = None,
    since: Annotated[datetime | None, Query()] = None,
    before: Annotated[UUID | None, Query()] = None,
) -> Response:
    """List calls, the newest first; the next page are those `before` the last of this one.

    `model` is the name that was asked for, or the one that answered.
    """
    asker = await served.principal(request, "calls", "search", {"metadata": {}})
    owner = owner_without_metadata(asker)
    wanted = CallFilter(owner, key, user, model, status, to_seconds(since), decision)

    def find_page(reads: Reads) -> list[CallRecord]:
        last = None if before is None else gateway_calls.get(reads, str(before))
        if before is not None and (last is None or owner not in (None, last.owner)):
            raise NotFoundError(f"call {str(before)!r} to go on from was not found")
        return gateway_calls.search(reads, wanted, before=last, limit=limit)

    return JsonResponse([render_call(row) for row in await served.database.read(find_page)])


@router.get("/gateway/calls/stats", responses=FIGURES)
async def sum_calls(
    request: Request,
    served: Served,
    by: Annotated[Literal["key", "user", "model"], Query()] = "model",
    key: Text = None,
    user: Text = None,
    model: Text = None,
    since: Annotated[datetime | None, Query()] = None,
) -> Response:
    """Return calls, tokens, cost and refusals by key, user or model; the most called first."""
    asker = await served.principal(request, "calls", "search", {"metadata": {}})
    owner = owner_without_metadata(asker)
    wanted = CallFilter(owner, key, user, model, since=to_seconds(since))
    found = await served.database.read(lambda reads: gateway_calls.sum_calls(reads, wanted, by))
    return JsonResponse([asdict(each) for each in found])


@router.get("/gateway/calls/{call_id}", responses=ONE)
async def get_call(request: Request, served: Served, call_id: UUID) -> Response:
    """Return one call."""
    asker = await served.principal(request, "calls", "read", {"metadata": {}})
    row = await served.database.read(lambda reads: gateway_calls.get(reads, str(call_id)))
    if row is None or owner_without_metadata(asker) not in (None, row.owner):
        raise NotFoundError(f"call {str(call_id)!r} not found")
    return JsonResponse(render_call(row))


def render_call(row: CallRecord) -> dict[str, Any]:
    """Return a call as clients see it."""
    return {name: getattr(row, name) for name in _TOLD} | {
        "created_at": render_time(row.created_at)
    }
