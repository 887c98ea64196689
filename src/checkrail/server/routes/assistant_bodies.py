"""Bodies of requests for assistants, and what they look like in answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from checkrail.server.documents import PROBLEMS, Answers
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
    one_of,
)

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
    sort_by: Annotated[SortBy | None, one_of(*get_args(SortBy))] = None
    sort_order: SortOrder | None = None
    select: list[Annotated[SelectField, one_of(*get_args(SelectField))]] | None = None


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
