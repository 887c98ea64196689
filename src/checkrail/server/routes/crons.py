"""Crons: runs that come back by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from fastapi import Depends, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.responses import Response

from checkrail.engine.values import plain
from checkrail.runs.admit.quotas import stored_size
from checkrail.runs.cron_schedule import next_time
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import Access, Caller, caller_of, matches_filter
from checkrail.server.deferred import Router
from checkrail.server.fields import (
    Limit,
    Offset,
    Searched,
    SortOrder,
    Text,
    check_json,
    choice_validator,
)
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_cron, select_fields
from checkrail.server.responses import JsonResponse, page_headers
from checkrail.server.routes.assistant_bodies import assistant_not_found, resolve_assistant_id
from checkrail.server.routes.thread_graphs import can_see_thread
from checkrail.server.run_requests import RunOptions, check_webhook
from checkrail.server.services import Services, services_of
from checkrail.store import assistants, crons, threads
from checkrail.store.assistants import Assistant
from checkrail.store.database import Reads, Tx
from checkrail.store.rows import Page
from checkrail.store.threads import Thread
from checkrail.times import uuid7


def find_next_run(cron: crons.Cron, now: float) -> float | None:
    """Return when a cron is next; an unreadable schedule is refused, also of one that is off."""
    following = next_time(cron.schedule, cron.timezone, now)
    if following is None or not cron.enabled:
        return None
    return None if cron.end_at is not None and following > cron.end_at else following


def build_cron(body: NewCron, value: Mapping[str, Any], now: float) -> crons.Cron:
    """Return a cron as the auth handlers left it, without its owner and next time."""
    metadata = value["metadata"] or {}
    stateless = value["thread_id"] is None
    assistant_id = str(value["assistant_id"])
    return crons.Cron(
        cron_id=str(value["cron_id"]),
        assistant_id=assistant_id,
        thread_id=None if stateless else str(value["thread_id"]),
        schedule=body.schedule,
        timezone=body.timezone,
        enabled=body.enabled is not False,
        on_run_completed=(body.on_run_completed or "delete") if stateless else None,
        payload=value["payload"] | {"assistant_id": assistant_id, "metadata": metadata},
        metadata=metadata,
        end_at=_to_timestamp(body.end_time),
        created_at=now,
        updated_at=now,
    )


def _to_timestamp(when: datetime | None) -> float | None:
    return None if when is None else when.timestamp()


def changed_times(row: crons.Cron, body: CronChange, now: float) -> dict[str, Any]:
    """Return what changes of when a cron runs; what is not touched keeps its next time."""
    told = {"schedule": body.schedule, "timezone": body.timezone, "enabled": body.enabled}
    values: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
    if "end_time" in body.model_fields_set:
        values["end_at"] = _to_timestamp(body.end_time)
    if values:
        values["next_run_at"] = find_next_run(replace(row, **values), now)
    if body.enabled is not None:  # it begins anew, whatever became of it before
        values |= {"occurrence": None, "worker_id": None, "lost": 0}
    return values


def merge_payload(kept: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Put what is named over the options that are kept; input and command are one or the other."""
    other = {"input": "command", "command": "input", "checkpoint_id": "checkpoint"}
    dropped = {other[key] for key in named if key in other}
    dropped |= {"durability"} if "checkpoint_during" in named else set()
    given = {**{key: value for key, value in kept.items() if key not in dropped}, **named}
    try:
        options = RunOptions.model_validate(given).to_options()
    except ValidationError as error:
        raise InvalidError(f"The cron cannot be changed so: {error.errors()[0]['msg']}") from None
    return options | {"assistant_id": kept["assistant_id"]}


SortBy = Literal[
    "cron_id",
    "assistant_id",
    "thread_id",
    "created_at",
    "updated_at",
    "next_run_date",
    "end_time",
]
SelectField = Literal[
    "cron_id",
    "assistant_id",
    "thread_id",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "user_id",
    "payload",
    "next_run_date",
    "metadata",
    "now",
    "on_run_completed",
    "enabled",
    "last_error",
]
COLUMNS = {"next_run_date": "next_run_at", "end_time": "end_at"}
"""Fields whose columns have other names."""


def _to_utc(given: datetime) -> datetime:
    """Take a time without a zone as UTC, and refuse one that has no date there."""
    try:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is beyond the years that can be told") from None


Schedule = Annotated[Text, Field(max_length=200)]
Zone = Annotated[Text, Field(max_length=100)]
EndTime = Annotated[datetime, AfterValidator(_to_utc)]
OnCompleted = Literal["delete", "keep"]


class _CronOptions(RunOptions):
    """The options of a cron's runs; all of them are stored."""

    enabled: bool | None = None
    timezone: Zone | None = None
    end_time: EndTime | None = None
    on_run_completed: OnCompleted | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_storable(cls, given: Any) -> Any:
        return check_json(given)

    def named_options(self) -> dict[str, Any]:
        """Return the options of runs that were sent, as they were sent."""
        said = self.model_dump(include={*RunOptions.model_fields}, exclude_unset=True)
        return {name: value for name, value in said.items() if value is not None}


class NewCron(_CronOptions):
    """A run that comes back by the clock."""

    schedule: Schedule
    assistant_id: UUID | Text


class CronChange(_CronOptions):
    """What is to be different; metadata is merged, and an `end_time` of null ends never."""

    schedule: Schedule | None = None


class CronsWanted(BaseModel):
    """Which crons to count."""

    model_config = ConfigDict(extra="ignore")

    assistant_id: UUID | Text | None = None
    thread_id: UUID | None = None
    metadata: Searched | None = None


class CronSearch(CronsWanted):
    """Which crons to give, and how."""

    enabled: bool | None = None
    limit: Limit = 10
    offset: Offset = 0
    sort_by: Annotated[SortBy | None, choice_validator(*get_args(SortBy))] = None
    sort_order: SortOrder | None = None
    select: list[Annotated[SelectField, choice_validator(*get_args(SelectField))]] | None = None


class Cron(BaseModel, defer_build=True):
    """A run that comes back by the clock."""

    cron_id: str
    assistant_id: str
    thread_id: str | None
    on_run_completed: str | None
    schedule: str
    timezone: str | None
    enabled: bool
    end_time: str | None
    next_run_date: str | None
    payload: dict[str, Any]
    metadata: dict[str, Any]
    user_id: str | None
    last_error: str | None
    created_at: str
    updated_at: str


ONE: Answers = {200: {"model": Cron}, **PROBLEMS}
SOME: Answers = {200: {"description": "Crons, with the fields that were selected"}, **PROBLEMS}
COUNT: Answers = {200: {"model": int}, **PROBLEMS}
GONE: Answers = {204: {"description": "It is gone"}, **PROBLEMS}


router = Router(tags=["crons"])

Served = Annotated[Services, Depends(services_of)]


def _render_cron(row: crons.Cron) -> dict[str, Any]:
    payload = {key: value for key, value in row.payload.items() if key != "modes"}
    return render_cron(replace(row, payload=payload))


@router.post("/runs/crons", responses=ONE)
async def create_cron(request: Request, served: Served, body: NewCron) -> Response:
    """Make a cron whose runs have threads of their own."""
    return JsonResponse(_render_cron(await _create_cron(request, served, body, None)))


@router.post("/threads/{thread_id}/runs/crons", responses=ONE)
async def create_thread_cron(
    request: Request, served: Served, thread_id: UUID, body: NewCron
) -> Response:
    """Make a cron whose runs are on a thread."""
    return JsonResponse(_render_cron(await _create_cron(request, served, body, thread_id)))


async def _create_cron(
    request: Request, served: Services, body: NewCron, thread_id: UUID | None
) -> crons.Cron:
    value: dict[str, Any] = {
        "cron_id": UUID(uuid7()),
        "thread_id": thread_id,
        "assistant_id": UUID(resolve_assistant_id(str(body.assistant_id))),
        "user_id": None,
        "schedule": body.schedule,
        "end_time": body.end_time,
        "payload": body.to_options(),
        "metadata": dict(body.metadata or {}),
    }
    caller, _ = await served.access(request, "crons", "create", value)
    check_webhook(served, value["payload"].get("webhook"))
    await _check_runs(request, served, value, str(body.assistant_id))
    cron = build_cron(body, value, served.database.time())
    cron = replace(
        cron,
        owner=caller.owner,
        user=plain(caller.user),
        key_id=caller.key_id,
        next_run_at=find_next_run(cron, cron.created_at),
        stored_bytes=stored_size(cron.payload, cron.metadata),
    )
    await served.database.write(partial(_store_cron, served, caller, cron))
    return cron


async def _check_runs(
    request: Request, served: Services, value: dict[str, Any], assistant_id: str
) -> None:
    """Check that the caller could request such a run now: later nobody is there to be asked."""
    asked = {
        "thread_id": value["thread_id"],
        "assistant_id": value["assistant_id"],
        "run_id": None,
        "status": "pending",
        "metadata": value["metadata"],
        "kwargs": value["payload"],
    }
    _, access = await served.access(request, "threads", "create_run", asked)
    value["metadata"] = asked["metadata"]

    def find_targets(reads: Reads) -> tuple[Assistant | None, Thread | None]:
        on = value["thread_id"]
        thread = None if on is None else threads.get(reads, str(on))
        return assistants.get(reads, str(value["assistant_id"])), thread

    assistant, thread = await served.database.read(find_targets)
    if assistant is None or access.owner not in (None, assistant.owner or access.owner):
        raise assistant_not_found(assistant_id)
    if value["thread_id"] is not None and (thread is None or not can_see_thread(thread, access)):
        raise NotFoundError(f"thread {str(value['thread_id'])!r} not found")


def _can_see_cron(row: crons.Cron, access: Access) -> bool:
    if access.owner not in (None, row.owner):
        return False
    return access.filter is None or matches_filter(access.filter, row.metadata)


def _store_cron(served: Services, caller: Caller, cron: crons.Cron, tx: Tx) -> None:
    """Store a cron within its owner's quotas."""
    if not caller.is_admin:
        served.runs.parts.quotas.check_crons(tx, caller.owner)
    served.check_bytes(tx, caller, caller.owner, cron.stored_bytes or 0)
    crons.add(tx, cron)
    tx.publish("clock", "")


async def _find_cron(
    request: Request, served: Services, cron_id: UUID, action: str, value: dict[str, Any]
) -> crons.Cron:
    """Return a cron that the caller may touch."""
    value |= {"cron_id": cron_id}
    _, access = await served.access(request, "crons", action, value)
    row = await served.database.read(lambda reads: crons.get(reads, str(cron_id)))
    if row is None or not _can_see_cron(row, access):
        raise _cron_not_found(cron_id)
    return row


def _cron_not_found(cron_id: UUID) -> NotFoundError:
    return NotFoundError(f"cron {str(cron_id)!r} not found")


@router.get("/runs/crons/{cron_id}", responses=ONE)
async def get_cron(request: Request, served: Served, cron_id: UUID) -> Response:
    """Return a cron."""
    return JsonResponse(
        _render_cron(await _find_cron(request, served, cron_id, "read", {"metadata": {}}))
    )


@router.patch("/runs/crons/{cron_id}", responses=ONE)
async def update_cron(
    request: Request, served: Served, cron_id: UUID, body: CronChange
) -> Response:
    """Change what is named of a cron."""
    named = body.named_options()
    value: dict[str, Any] = {
        "schedule": body.schedule,
        "payload": {key: told for key, told in named.items() if key != "metadata"},
        "metadata": named.get("metadata") or {},
    }
    await _find_cron(request, served, cron_id, "update", value)
    check_webhook(served, value["payload"].get("webhook"))
    named = {**value["payload"], "metadata": value["metadata"]}
    changed = await served.database.write(
        partial(
            _update_row,
            served,
            caller_of(request),
            cron_id=str(cron_id),
            body=body,
            named=named,
        )
    )
    if changed is None:
        raise _cron_not_found(cron_id)
    return JsonResponse(_render_cron(changed))


def _update_row(
    served: Services,
    caller: Caller,
    tx: Tx,
    cron_id: str,
    body: CronChange,
    named: Mapping[str, Any],
) -> crons.Cron | None:
    row = crons.lock(tx, cron_id)
    if row is None:
        return None
    now = tx.time()
    metadata = {**row.metadata, **(named["metadata"] or {})}
    payload = merge_payload(row.payload, {**named, "metadata": metadata})
    size = stored_size(payload, metadata)
    served.check_bytes(tx, caller, row.owner, size - (row.stored_bytes or 0))
    values = changed_times(row, body, now) | {
        "metadata": metadata,
        "payload": payload,
        "stored_bytes": size,
        "key_id": caller.key_id,
        "updated_at": now,
    }
    if body.on_run_completed is not None and row.thread_id is None:
        values["on_run_completed"] = body.on_run_completed
    crons.update_cron(tx, cron_id, **values)
    tx.publish("clock", "")
    return replace(row, **values)


@router.delete("/runs/crons/{cron_id}", status_code=204, responses=GONE)
async def delete_cron(request: Request, served: Served, cron_id: UUID) -> Response:
    """Remove a cron; runs that it has started go on."""
    await _find_cron(request, served, cron_id, "delete", {})
    if not await served.database.write(lambda tx: crons.remove(tx, str(cron_id))):
        raise _cron_not_found(cron_id)
    return Response(status_code=204)


@router.post("/runs/crons/search", responses=SOME)
async def search_crons(request: Request, served: Served, body: CronSearch) -> Response:
    """Find crons."""
    same, metadata, access = await _build_query(
        request, served, body, limit=body.limit, offset=body.offset
    )
    same["enabled"] = body.enabled
    sort_by = body.sort_by or "created_at"
    order, most = body.sort_order or "desc", body.limit + 1
    page = Page(COLUMNS.get(sort_by, sort_by), order, most, body.offset)
    rows = await served.database.read(
        lambda reads: crons.search(reads, page, same, metadata, access.filter)
    )
    headers = page_headers(len(rows), body.limit, body.offset)
    shown = [select_fields(_render_cron(row), body.select) for row in rows[: body.limit]]
    return JsonResponse(shown, headers=headers)


@router.post("/runs/crons/count", responses=COUNT)
async def count_crons(request: Request, served: Served, body: CronsWanted) -> Response:
    """Count crons."""
    same, metadata, access = await _build_query(request, served, body)
    return JsonResponse(
        await served.database.read(lambda reads: crons.count(reads, same, metadata, access.filter))
    )


async def _build_query(
    request: Request, served: Services, body: CronsWanted, **page: int
) -> tuple[dict[str, Any], Any, Access]:
    """Return which crons: whose columns are the same, and what their metadata holds."""
    known = (
        None if body.assistant_id is None else UUID(resolve_assistant_id(str(body.assistant_id)))
    )
    value: dict[str, Any] = {
        "assistant_id": known,
        "thread_id": body.thread_id,
        "metadata": dict(body.metadata or {}),
        **page,
    }
    _, access = await served.access(request, "crons", "search", value)
    same = {
        name: None if value[name] is None else str(value[name])
        for name in ("assistant_id", "thread_id")
    }
    return same | {"owner": access.owner}, value.get("metadata"), access
