"""Approvals: what hooks ask people, and what they answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from checkrail.engine.outcomes import UNSET
from checkrail.runs.answering import Answer
from checkrail.runs.approving import hook_of
from checkrail.runs.errors import NotFoundError
from checkrail.server.answers import Json
from checkrail.server.auth import Forbidden, caller_of
from checkrail.server.documents import PROBLEMS, Answers
from checkrail.server.fields import plain_json, plain_text
from checkrail.server.finding import may_touch
from checkrail.server.routes.runs import Limit
from checkrail.server.services import Services, services_of
from checkrail.server.shapes import when
from checkrail.store import approvals, runs
from checkrail.store.database import Reads
from checkrail.store.rows import Row

router = APIRouter(tags=["approvals"])

Served = Annotated[Services, Depends(services_of)]
Status = Literal["open", "approved", "denied", "expired", "void"]
Reason = Annotated[str, Field(max_length=10_000), AfterValidator(plain_text)]

_TOLD = (
    "approval_id",
    "run_id",
    "thread_id",
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


class Edited(BaseModel):
    """What a person made of a value."""

    value: Any


class Approval(BaseModel):
    """A question of a hook: what it is about, and what was answered."""

    approval_id: str
    run_id: str
    thread_id: str
    session_id: str | None = None
    agent_name: str
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


ONE: Answers = {200: {"model": Approval}, **PROBLEMS}
MANY: Answers = {200: {"model": list[Approval]}, **PROBLEMS}


class Denial(BaseModel):
    """A no, with its reason; `digest` says which value it is about."""

    model_config = ConfigDict(extra="forbid")  # a misspelled `value` must not approve another one

    reason: Reason = ""
    digest: Annotated[str, Field(max_length=200)] | None = None


class Consent(Denial):
    """A yes, perhaps to another value than the one that was asked about."""

    value: Annotated[Any, AfterValidator(plain_json)] = None


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
    asker = await served.asker(request, "approvals", "search", {"run_id": run_id})

    def find(reads: Reads) -> list[Row]:
        last = None if before is None else approvals.get(reads, str(before))
        if before is not None and (last is None or asker.owner not in (None, last["owner"])):
            raise NotFoundError(f"approval {str(before)!r} to go on from was not found")
        return approvals.search(
            reads,
            owner=asker.owner,
            filters=asker.filters,
            status=status,
            run_id=None if run_id is None else str(run_id),
            before=last,
            limit=limit,
        )

    return Json([approval_json(row) for row in await served.database.read(find)])


@router.get("/approvals/{approval_id}", responses=ONE)
async def get_approval(request: Request, served: Served, approval_id: UUID) -> Response:
    """Return a question, with the value that it is about."""
    return Json(approval_json(await _found(request, served, approval_id, "read")))


@router.post("/approvals/{approval_id}/approve", responses=ONE)
async def approve(
    request: Request, served: Served, approval_id: UUID, body: Consent | None = None
) -> Response:
    """Say yes, perhaps with an edited value; the run goes on."""
    said = body or Consent()
    value = said.value if "value" in said.model_fields_set else UNSET
    return await _answered(request, served, approval_id, said, approved=True, value=value)


@router.post("/approvals/{approval_id}/deny", responses=ONE)
async def deny(
    request: Request, served: Served, approval_id: UUID, body: Denial | None = None
) -> Response:
    """Say no; what that means to the run is up to the hook."""
    return await _answered(request, served, approval_id, body or Denial(), approved=False)


async def _answered(
    request: Request, served: Served, approval_id: UUID, said: Denial, **answer: Any
) -> Response:
    row = await _found(request, served, approval_id, "update")
    caller = caller_of(request)
    if caller.role not in served.config.approvals.roles:
        roles = " or ".join(served.config.approvals.roles)
        needs = {"needs": [*served.config.approvals.roles]}
        raise Forbidden(
            f"Answers are for the role {roles}, and you are {caller.role}", detail=needs
        )
    given = Answer(by=caller.owner, reason=said.reason, digest=said.digest, **answer)
    return Json(approval_json(await served.runs.approver.answer(row["approval_id"], given)))


async def _found(request: Request, served: Services, approval_id: UUID, action: str) -> Row:
    """Find a question of a run that the caller may touch; all others are not there."""

    def find(reads: Reads) -> tuple[Row | None, Row | None]:
        row = approvals.get(reads, str(approval_id))
        return row, None if row is None else runs.get(reads, row["run_id"])

    row, run = await served.database.read(find)
    ids = {name: None if run is None else UUID(run[name]) for name in ("thread_id", "run_id")}
    asker = await served.asker(request, "approvals", action, ids)
    if (
        row is None
        or run is None
        or not await served.database.read(lambda reads: may_touch(reads, run, asker))
    ):
        raise NotFoundError(f"approval {str(approval_id)!r} not found")
    return row


def approval_json(row: Row) -> dict[str, Any]:
    """Return a question as clients see it."""
    told = {name: row[name] for name in _TOLD}
    return told | {"hook": hook_of(row)} | {name: when(row[name]) for name in _TIMES}
