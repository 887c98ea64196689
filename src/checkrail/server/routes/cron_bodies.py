"""Bodies of requests for crons, and what they look like in answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from checkrail.server.bodies import RunOptions
from checkrail.server.documents import PROBLEMS, Answers
from checkrail.server.fields import (
    Limit,
    Offset,
    Searched,
    SortOrder,
    Text,
    one_of,
    plain_json,
)

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


def _in_utc(given: datetime) -> datetime:
    """Take a time without a zone as UTC, and refuse one that has no date there."""
    try:
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is beyond the years that can be told") from None


Schedule = Annotated[Text, Field(max_length=200)]
Zone = Annotated[Text, Field(max_length=100)]
EndTime = Annotated[datetime, AfterValidator(_in_utc)]
OnCompleted = Literal["delete", "keep"]


class _CronOptions(RunOptions):
    """What the runs of a cron can be told; all of it is kept."""

    enabled: bool | None = None
    timezone: Zone | None = None
    end_time: EndTime | None = None
    on_run_completed: OnCompleted | None = None

    @model_validator(mode="before")
    @classmethod
    def _keepable(cls, given: Any) -> Any:
        return plain_json(given)

    def named(self) -> dict[str, Any]:
        """Return the options of runs that were said, as they were said."""
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
    sort_by: Annotated[SortBy | None, one_of(*get_args(SortBy))] = None
    sort_order: SortOrder | None = None
    select: list[Annotated[SelectField, one_of(*get_args(SelectField))]] | None = None


class Cron(BaseModel):
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
