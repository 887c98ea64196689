"""Approvals: what hooks ask people, and what they answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from checkrail.engine.outcomes import UNSET
from checkrail.runs.approvals import Answer, hook_name, run_of
from checkrail.runs.errors import NotFoundError
from checkrail.server.auth import Forbidden, caller_of
from checkrail.server.deferred import Router
from checkrail.server.fields import Limit, check_json, check_text
from checkrail.server.lookups import can_touch, owner_without_metadata
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import approvals
from checkrail.store.database import Reads
from checkrail.store.runs import Run

router = Router(tags=["approvals"])

Served = Annotated[Services, Depends(services_of)]
Status = Literal["open", "approved", "denied", "expired", "void"]
Reason = Annotated[str, Field(max_length=10_000), AfterValidator(check_text)]

_TOLD = (
    "approval_id",
    "run_id",
    "thread_id",
    "request_id",
    "session_id",
    "agent_name",
    "point",
    "question",
    "value",
    "digest",
    "status",
    "on_timeout",
    "edited",
    "reason",
    "answered_by",
)
_TIMES = ("created_at", "expires_at", "answered_at", "used_at")


class Edited(BaseModel, defer_build=True):
    """What a person made of a value."""

    value: Any


class Approval(BaseModel, defer_build=True):
    """A question of a hook: what it is about, and what was answered."""

    approval_id: str
    run_id: str | None = None
    thread_id: str | None = None
    request_id: str | None = None
    session_id: str | None = None
    agent_name: str | None = None
    point: str
    hook: str
    question: str
    value: Any
    digest: str
    status: Status
    on_timeout: str
    edited: Edited | None = None
    reason: str | None = None
    answered_by: str | None = None
    created_at: str
    expires_at: str | None = None
    answered_at: str | None = None
    used_at: str | None = None
    asked_by: str | None = None
    hook_source: str | None = None
    value_schema: Annotated[Any, Field(alias="schema")] = None
    can_answer: bool | None = None


class Count(BaseModel, defer_build=True):
    """How many there are, up to a number; `capped`: there are more."""

    count: int
    capped: bool


COUNT: Answers = {200: {"model": Count}, **PROBLEMS}
ONE: Answers = {200: {"model": Approval}, **PROBLEMS}
MANY: Answers = {200: {"model": list[Approval]}, **PROBLEMS}


class Denial(BaseModel):
    """A no, with its reason; `digest` says which value it is about."""

    model_config = ConfigDict(extra="forbid")  # a misspelled `value` must not approve another one

    reason: Reason = ""
    digest: Annotated[str, Field(max_length=200)] | None = None


class Consent(Denial):
    """A yes, perhaps to another value than the one that was asked about."""

    value: Annotated[Any, AfterValidator(check_json)] = None


@router.get("/approvals", responses=MANY)
async def list_approvals(
    request: Request,
    served: Served,
    limit: Limit = 20,
    status: Annotated[Status | None, Query()] = None,
    run_id: Annotated[UUID | None, Query()] = None,
    before: Annotated[UUID | None, Query()] = None,
) -> Response:
    """List questions, the newest first; the next page are those `before` the last of this one."""
    asker = await served.principal(request, "approvals", "search", {"run_id": run_id})

    def find_page(reads: Reads) -> list[approvals.Approval]:
        last = None if before is None else approvals.get(reads, str(before))
        if before is not None and (last is None or asker.owner not in (None, last.owner)):
            raise NotFoundError(f"approval {str(before)!r} to go on from was not found")
        return approvals.search(
            reads,
            owner=asker.owner,
            filters=asker.filters,
            own=asker.owner_of_new,
            status=status,
            run_id=None if run_id is None else str(run_id),
            before=last,
            limit=limit,
        )

    found = await served.database.read(find_page)
    return JsonResponse([_render_for(request, served, row) for row in found])


@router.get("/approvals/count", responses=COUNT)
async def count_approvals(
    request: Request,
    served: Served,
    status: Annotated[Status | None, Query()] = None,
    cap: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Count questions up to a number."""
    asker = await served.principal(request, "approvals", "search", {"run_id": None})

    def count(reads: Reads) -> int:
        return approvals.count(
            reads,
            cap + 1,
            owner=asker.owner,
            filters=asker.filters,
            own=asker.owner_of_new,
            status=status,
        )

    found = await served.database.read(count)
    return JsonResponse({"count": min(found, cap), "capped": found > cap})


@router.get("/approvals/{approval_id}", responses=ONE)
async def get_approval(request: Request, served: Served, approval_id: UUID) -> Response:
    """Return a question, with the value that it is about."""
    row = await _find_approval(request, served, approval_id, "read")
    return JsonResponse(_render_for(request, served, row))


@router.post("/approvals/{approval_id}/approve", responses=ONE)
async def approve(
    request: Request, served: Served, approval_id: UUID, body: Consent | None = None
) -> Response:
    """Approve, perhaps with an edited value; the run goes on."""
    said = body or Consent()
    value = said.value if "value" in said.model_fields_set else UNSET
    return await _store_answer(request, served, approval_id, said, approved=True, value=value)


@router.post("/approvals/{approval_id}/deny", responses=ONE)
async def deny(
    request: Request, served: Served, approval_id: UUID, body: Denial | None = None
) -> Response:
    """Deny; what that means to the run is up to the hook."""
    return await _store_answer(request, served, approval_id, body or Denial(), approved=False)


async def _store_answer(
    request: Request, served: Served, approval_id: UUID, said: Denial, **answer: Any
) -> Response:
    row = await _find_approval(request, served, approval_id, "update")
    caller = caller_of(request)
    if caller.role not in served.config.approvals.roles:
        roles = " or ".join(served.config.approvals.roles)
        needs = {"needs": [*served.config.approvals.roles]}
        raise Forbidden(
            f"Answers are for the role {roles}, and you are {caller.role}", detail=needs
        )
    given = Answer(by=caller.owner, reason=said.reason, digest=said.digest, **answer)
    answered = await served.approver.answer(row.approval_id, given)
    return JsonResponse(_render_for(request, served, answered))


async def _find_approval(
    request: Request, served: Services, approval_id: UUID, action: str
) -> approvals.Approval:
    """Return a question of a run that the caller may touch; all others do not exist for them."""

    def find_question(reads: Reads) -> tuple[approvals.Approval | None, Run | None]:
        row = approvals.get(reads, str(approval_id))
        return row, None if row is None else run_of(reads, row)

    row, run = await served.database.read(find_question)
    ids = {
        name: None if run is None else UUID(getattr(run, name)) for name in ("thread_id", "run_id")
    }
    asker = await served.principal(request, "approvals", action, ids)
    if row is not None and row.run_id is None:
        is_theirs = owner_without_metadata(asker) in (None, row.owner)
    else:
        is_theirs = run is not None and await served.database.read(
            lambda reads: can_touch(reads, run, asker)
        )
    if row is None or not is_theirs:
        raise NotFoundError(f"approval {str(approval_id)!r} not found")
    return row


def _render_for(request: Request, served: Services, row: approvals.Approval) -> dict[str, Any]:
    """Return a question as a caller sees it: where it comes from, and whether they may answer."""
    parts = served.runs.parts
    agent = parts.catalogue.get(row.agent_name) if row.agent_name else None
    levels = [parts.registry, *([] if agent is None else [agent.hooks])]
    hooks = [bound for level in levels for bound in level.bound_hooks(row.point)]
    source = next((bound.spec.source for bound in hooks if bound.key == row.hook), None)
    schema = None
    if agent is not None and row.point in ("before_run", "on_run_start"):
        schema = agent.takes
    elif agent is not None and row.point == "on_result":
        schema = agent.gives
    role = caller_of(request).role
    return render_approval(row) | {
        "asked_by": row.owner,
        "hook_source": source,
        "schema": None if schema is None else schema.schema,
        "can_answer": row.status == "open" and role in served.config.approvals.roles,
    }


def render_approval(row: approvals.Approval) -> dict[str, Any]:
    """Return a question as clients see it."""
    told = {name: getattr(row, name) for name in _TOLD}
    return (
        told | {"hook": hook_name(row)} | {name: render_time(getattr(row, name)) for name in _TIMES}
    )
