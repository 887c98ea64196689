"""Bodies of requests for assistants, and what they look like in answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from checkrail.runs.agents.catalogue import agent_assistant_id
from checkrail.runs.errors import NotFoundError
from checkrail.runs.graphs.loader import UnknownGraphError
from checkrail.server.auth import Access, Caller, Forbidden, matches_filter
from checkrail.server.fields import (
    JsonObject,
    Limit,
    Metadata,
    Name,
    Offset,
    RunConfig,
    Searched,
    SortOrder,
    Text,
    choice_validator,
)
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.services import Services
from checkrail.store import assistants


def resolve_assistant_id(assistant_id: str) -> str:
    """Return the id of an assistant that is named by its id, or by the agent that it stands for."""
    try:
        return str(UUID(assistant_id))
    except ValueError:
        return agent_assistant_id(assistant_id)


def assistant_not_found(assistant_id: str) -> NotFoundError:
    """Return the error for an assistant that does not exist, without listing those that do."""
    hint = "POST /assistants/search lists those that you may see"
    return NotFoundError(f"assistant {assistant_id!r} not found. {hint}")


def check_agent(served: Services, graph_id: str | None) -> None:
    """Refuse an agent that the server does not have."""
    if graph_id is not None and graph_id not in served.catalogue:
        raise UnknownGraphError(graph_id)


async def find_assistant(
    request: Request,
    served: Services,
    assistant_id: str,
    action: str,
    value: dict[str, Any] | None = None,
) -> tuple[Caller, assistants.Assistant]:
    """Return an assistant that the caller may touch; `value` is what is to become of it."""
    known = resolve_assistant_id(assistant_id)
    told = {} if value is None else value
    told |= {"assistant_id": UUID(known)}
    told.setdefault("metadata", {})
    caller, access = await served.access(request, "assistants", action, told)
    row = await served.database.read(lambda reads: assistants.get(reads, known))
    if row is None or not can_see_assistant(row, access):
        raise assistant_not_found(assistant_id)
    if row.owner is None and action != "read" and not caller.is_admin:
        raise Forbidden(
            f"The assistant {row.name!r} stands for an agent of the server, "
            "which is for admins to change. Create one of your own"
        )
    return caller, row


def can_see_assistant(row: assistants.Assistant, access: Access) -> bool:
    """Return whether a caller may touch an assistant; the server's own are everybody's."""
    mine = access.owner is None or row.owner in (None, access.owner)
    return mine and (access.filter is None or matches_filter(access.filter, row.metadata))


SortBy = Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"]
SelectField = Literal[
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class NewAssistant(_Body):
    """An agent with settings of its own."""

    graph_id: Text
    assistant_id: UUID | None = None
    config: RunConfig | None = None
    context: JsonObject | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    name: Name | None = None
    description: Text | None = None


class AssistantChange(_Body):
    """What is to be different in the next version; metadata is merged, the rest replaced."""

    graph_id: Text | None = None
    config: RunConfig | None = None
    context: JsonObject | None = None
    metadata: Metadata | None = None
    name: Name | None = None
    description: Text | None = None


class AssistantsWanted(_Body):
    """Which assistants to count."""

    metadata: Searched | None = None
    graph_id: Text | None = None
    name: Name | None = None


class AssistantSearch(AssistantsWanted):
    """Which assistants to give, and how."""

    limit: Limit = 10
    offset: Offset = 0
    sort_by: Annotated[SortBy | None, choice_validator(*get_args(SortBy))] = None
    sort_order: SortOrder | None = None
    select: list[Annotated[SelectField, choice_validator(*get_args(SelectField))]] | None = None


class VersionSearch(_Body):
    """Which versions of an assistant."""

    metadata: Searched | None = None
    limit: Limit = 10
    offset: Offset = 0


class Latest(_Body):
    """Which version is to be the latest."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1)]


class Assistant(_Body):
    """An agent with settings of its own, in one of its versions."""

    assistant_id: str
    graph_id: str
    name: str
    description: str | None
    config: dict[str, Any]
    context: Any
    metadata: dict[str, Any]
    version: int
    created_at: str
    updated_at: str


ONE: Answers = {200: {"model": Assistant}, **PROBLEMS}
MANY: Answers = {200: {"model": list[Assistant]}, **PROBLEMS}
SOME: Answers = {200: {"description": "Assistants, with the fields that were selected"}, **PROBLEMS}
COUNT: Answers = {200: {"model": int}, **PROBLEMS}
TOLD: Answers = {200: {"model": dict[str, Any]}, **PROBLEMS}
GONE: Answers = {204: {"description": "It is gone"}, **PROBLEMS}
