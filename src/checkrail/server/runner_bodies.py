"""Bodies of what runners say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from checkrail.runs.outside.points import Reached
from checkrail.runs.work import left_at
from checkrail.server.fields import Name
from checkrail.store.events import RunEvent

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
Told = tuple[Annotated[int, Field(ge=1, lt=2**62)], Name, list[str], Json]
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
    config_digest: Annotated[Name, Field(max_length=200)] | None = None
    host: Annotated[Name, Field(max_length=255)] = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0


class Registered(BaseModel):
    """Under which id a runner is known, and how often it is to be heard of, in seconds."""

    runner_id: str
    lease_seconds: float
    beat_seconds: float
    poll_seconds: float


class Listed(BaseModel):
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


class Stop(BaseModel):
    """A run that is to be stopped, and how."""

    run_id: str
    attempt: int
    cancel: Literal["interrupt", "rollback"]


class Polled(BaseModel):
    """Runs to be carried out, and runs to be stopped."""

    runs: list[dict[str, Any]]
    stops: list[Stop]


class Leased(Body):
    """Something that is said under a lease: the runner's, for one attempt at a run."""

    attempt: Attempt


class Beat(BaseModel):
    """What a heartbeat learns: of its run, and of all that the runner holds."""

    cancel: Literal["interrupt", "rollback"] | None
    runs: dict[str, dict[str, Any]]


class Events(Leased):
    """What a run tells: `[number, event, namespace, data]` each, and what it has used so far."""

    events: Annotated[list[Told], Field(max_length=100_000)]
    usage: Usage | None = None

    def told(self) -> list[RunEvent]:
        """Return the events."""
        return [RunEvent(seq, event, tuple(ns), data) for seq, event, ns, data in self.events]


class Point(Leased):
    """A point that a run has reached, and the value there."""

    point: Name
    value: Json = None
    ids: JsonObject = {}
    levels: list[Name] = []
    leaves: bool = False

    def reached(self) -> Reached:
        """Return the point."""
        return Reached(self.point, self.value, self.ids, self.levels, self.leaves)


class Graph(Body):
    """Where a graph waits, if it does."""

    interrupts: list[JsonObject] = []
    next: list[str] = []
    waiting: dict[str, list[JsonObject]] = {}


class Completed(Leased):
    """A run that came to a result; `held` is what it told that hooks have to see first."""

    output: Json = None
    messages: list[JsonObject] | None = None
    usage: Usage = {}
    held: list[Waiting] = []
    graph: Graph | None = None

    def kept(self) -> dict[str, Any]:
        """Return what is kept of it until hooks have ruled."""
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

    def kept(self) -> dict[str, Any]:
        """Return what is kept of it until it is entered again."""
        return {**left_at(self.memo, self.usage, self.held), "seconds_left": self.seconds_left}


class Failed(Leased):
    """A run that came to no result: why, and by which hook if it was one."""

    error: str
    error_type: Annotated[Name, Field(max_length=200)] = "Error"
    phase: Literal["error", "blocked", "timeout"] = "error"
    blocked_by: Name | None = None
    unwound: bool | None = None
    usage: Usage = {}

    def kept(self) -> dict[str, Any]:
        """Return what is kept of it until the run has ended."""
        names = ("error", "error_type", "phase", "blocked_by", "unwound")
        told = {name: getattr(self, name) for name in names}
        return {"usage": self.usage, "ended": {"as": "failed", **told}}


class Stopped(Leased):
    """A run that was stopped as it was asked to be; `unwound` unless it had to be left behind."""

    usage: Usage = {}
    unwound: bool = True

    def kept(self) -> dict[str, Any]:
        """Return what is kept of it until the run has ended."""
        return {"usage": self.usage, "ended": {"as": "stopped", "unwound": self.unwound}}
