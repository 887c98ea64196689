"""Bodies of requests for threads, and what threads look like in answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from checkrail.server.fields import Limit, Metadata, Offset, Searched, SortOrder, Text, check_json
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.run_requests import Command

Status = Literal["idle", "busy", "interrupted", "error"]
SortBy = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]
Strategy = Literal["delete", "keep_latest"]
Minutes = Annotated[float, Field(gt=0, le=100 * 366 * 1440, allow_inf_nan=False)]
SelectField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
]
STATE_FIELDS = (
    "values",
    "next",
    "tasks",
    "checkpoint",
    "metadata",
    "created_at",
    "parent_checkpoint",
    "interrupts",
    "checkpoint_id",
    "parent_checkpoint_id",
)
_MARK = re.compile(r"[\w-]+(?:\.[\w-]+)*", re.ASCII)
_PATH = re.compile(r"(values|metadata|config|interrupts)((?:\.[^.\[\]]+|\[-?\d{1,9}\])*)")


def _state_field(name: str) -> str:
    field, dot, key = name.partition(".")
    if name not in STATE_FIELDS and not (field == "values" and dot and key):
        known = ", ".join(STATE_FIELDS)
        raise ValueError(f"a state has no {name[:100]!r}; choose from {known}, values.<key>")
    return name


StateField = Annotated[str, AfterValidator(_state_field)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Ttl(_Body):
    """How many minutes a thread lives, and what then becomes of it."""

    ttl: Minutes
    strategy: Strategy = "delete"


class Update(_Body):
    """What one node wrote."""

    values: Any = None
    command: Command | None = None
    as_node: Text | None = None


class Superstep(_Body):
    """What the nodes of one step wrote."""

    updates: Annotated[list[Update], Field(min_length=1, max_length=1000)]


class NewThread(_Body):
    """A thread, perhaps with a past."""

    thread_id: UUID | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: Ttl | Minutes | None = None
    supersteps: Annotated[list[Superstep], Field(max_length=1000)] | None = None


class ThreadChange(_Body):
    """What is to be different: metadata is merged, `ttl: null` ends a time to live."""

    metadata: Metadata | None = None
    ttl: Ttl | Minutes | None = None


class ThreadsWanted(_Body):
    """Which threads."""

    metadata: Searched | None = None
    values: Searched | None = None
    status: Status | None = None


class ThreadSearch(ThreadsWanted):
    """Which threads, in which order, and what of them."""

    ids: Annotated[list[UUID], Field(max_length=1000)] | None = None
    limit: Limit = 10
    offset: Offset = 0
    sort_by: SortBy | None = None
    sort_order: SortOrder | None = None
    select: list[SelectField] | None = None
    extract: Annotated[dict[Text, Text], Field(max_length=10)] | None = None

    @field_validator("extract")
    @classmethod
    def _check_paths(cls, given: dict[str, str] | None) -> dict[str, str] | None:
        for path in (given or {}).values():
            if not _PATH.fullmatch(path):
                raise ValueError(
                    f"{path[:100]!r} is no path: begin with values, metadata, config or "
                    "interrupts, go on with .name and [number]"
                )
        return given


class Prune(_Body):
    """Which threads to delete, or to leave with nothing but their latest state."""

    thread_ids: Annotated[list[UUID], Field(max_length=1000)]
    strategy: Strategy = "delete"


class Place(_Body):
    """A checkpoint of a thread, or of a subgraph within it."""

    checkpoint_id: Text | None = None
    checkpoint_ns: Text | None = None
    checkpoint_map: dict[Text, Text] | None = None


class StateWanted(_Body):
    """The state at a checkpoint."""

    checkpoint: Place
    subgraphs: bool = False
    select: list[StateField] | None = None


class StateChange(_Body):
    """What to write to a thread's state, as which node, and onto which checkpoint."""

    values: dict[str, Any] | list[Any] | None = None
    as_node: Text | None = None
    checkpoint: Place | None = None
    checkpoint_id: Text | None = None

    def checkpoint_place(self) -> Place | None:
        """Return the checkpoint, whichever field it was sent in."""
        if self.checkpoint is None and self.checkpoint_id is not None:
            return Place(checkpoint_id=self.checkpoint_id)
        return self.checkpoint


class HistoryWanted(_Body):
    """Which states of the past."""

    limit: Limit = 1
    before: Text | dict[str, Any] | None = None
    metadata: Searched | None = None
    checkpoint: Place | None = None
    select: list[StateField] | None = None

    @field_validator("metadata")
    @classmethod
    def _check_marks(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        for key in given or {}:
            if not _MARK.fullmatch(key):
                raise ValueError(
                    f"states are not marked with {key[:100]!r}: use letters and digits"
                )
        return given

    @field_validator("before")
    @classmethod
    def _parse_before(cls, given: Any) -> Any:
        """Take the id out of a checkpoint, or out of a config that has one."""
        if not isinstance(given, Mapping):
            return given
        said = check_json(given.get("configurable", given))
        found = said.get("checkpoint_id") if isinstance(said, Mapping) else None
        if isinstance(found, str):
            return found
        raise ValueError("before is the id of a checkpoint, or a checkpoint that has one")


def extract_paths(shown: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """Return what is at some paths of a thread, by the names that the client chose."""
    return {name: _value_at(shown, path) for name, path in paths.items()}


def _value_at(shown: Any, path: str) -> Any:
    for name, place in re.findall(r"([^.\[\]]+)(?=[.\[]|$)|\[(-?\d+)\]", path):
        if place and isinstance(shown, list) and -len(shown) <= int(place) < len(shown):
            shown = shown[int(place)]
        elif name and isinstance(shown, Mapping):
            shown = shown.get(name)
        else:
            return None
    return shown


class Thread(BaseModel, defer_build=True):
    """One conversation with its state."""

    thread_id: str
    created_at: str
    updated_at: str
    state_updated_at: str
    metadata: dict[str, Any]
    status: Status
    config: dict[str, Any]
    values: Any = None
    interrupts: dict[str, list[Any]]
    error: dict[str, str] | None = None


class ThreadState(BaseModel, defer_build=True):
    """Where a thread stands, or stood."""

    values: Any
    next: list[str]
    tasks: list[dict[str, Any]]
    metadata: dict[str, Any] | None
    created_at: str | None
    checkpoint: dict[str, Any] | None
    parent_checkpoint: dict[str, Any] | None
    interrupts: list[Any]
    checkpoint_id: str | None
    parent_checkpoint_id: str | None


class Pruned(BaseModel, defer_build=True):
    """How many threads there were to prune."""

    pruned_count: int


class Written(BaseModel, defer_build=True):
    """Where the new state is."""

    checkpoint: dict[str, Any]
    configurable: dict[str, Any]
    checkpoint_id: str


ONE: Answers = {200: {"model": Thread}, **PROBLEMS}
CHANGED: Answers = {204: {"description": "Changed, as `Prefer: return=minimal` asked"}, **ONE}
SOME: Answers = {200: {"description": "Threads, with the selected fields"}, **PROBLEMS}
COUNT: Answers = {200: {"model": int}, **PROBLEMS}
PRUNED: Answers = {200: {"model": Pruned}, **PROBLEMS}
STATE: Answers = {200: {"description": "The state, with the selected fields"}, **PROBLEMS}
STATES: Answers = {200: {"description": "States, the last one first"}, **PROBLEMS}
WRITTEN: Answers = {200: {"model": Written}, **PROBLEMS}
GONE: Answers = {204: {"description": "Gone, with all that was kept of it"}, **PROBLEMS}
