"""What is asked for when a run is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from checkrail.engine.values import User
from checkrail.store.runs import Run

Strategy = Literal["reject", "interrupt", "rollback", "enqueue"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who requests something: the user, and whose rows they may see (None: everybody's)."""

    user: User
    owner: str | None = None
    filters: Mapping[str, Any] | None = None
    has_quotas: bool = True

    @property
    def owner_of_new(self) -> str:
        """The owner of rows that this principal creates."""
        return self.user.identity


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run that somebody wants. Without a thread it has one of its own, for as long as it runs."""

    assistant_id: str
    thread_id: str | None = None
    input: Any = None
    command: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    context_names: Sequence[str] = ()  # given as context alone, and not as `configurable`
    metadata: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    stream_mode: Sequence[str] = ("values",)
    modes: Sequence[str] = ("values",)  # of the graph, which serve what the stream was asked for
    stream_subgraphs: bool = False
    interrupt_before: Sequence[str] | str | None = None
    interrupt_after: Sequence[str] | str | None = None
    webhook: str | None = None
    durability: str | None = None
    strict_resume: bool = False
    feedback_keys: Sequence[str] | None = None
    multitask_strategy: Strategy = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    keep_thread: bool = False
    after_seconds: float = 0.0
    timeout_seconds: float | None = None
    origin: str = "api"
    run_id: str | None = None
    session_id: str | None = None
    parent_session_id: str | None = None
    parent_run_id: str | None = None
    channel: str = "api"
    depth: int = 0  # of hooks that start runs
    demands: tuple[str, ...] = ()
    scope: Mapping[str, Any] | None = None
    notify_on_end: Mapping[str, Any] | None = None  # whom its end is told
    resumes: bool = False  # a session with something that is said to it, whatever its agent takes
    at_once: bool = False  # taken here whatever the capacity, for a run that is under way waits

    def kwargs(self) -> dict[str, Any]:
        """Return what execution needs, as it is stored with the run."""
        given = {
            "config": self.config,
            "context": self.context,
            "context_names": [*self.context_names] or None,
            "command": self.command,
            "checkpoint": self.checkpoint,
            "stream_mode": [*self.stream_mode],
            "modes": [*self.modes],
            "stream_subgraphs": self.stream_subgraphs,
            "interrupt_before": self.interrupt_before,
            "interrupt_after": self.interrupt_after,
            "webhook": self.webhook,
            "durability": self.durability,
            "strict_resume": self.strict_resume,
            "feedback_keys": self.feedback_keys,
        }
        return {key: value for key, value in given.items() if value not in (None, {}, False)}


def hook_subject(row: Run) -> tuple[str, Any]:
    """Return what hooks decide on before a run: its input, or the command of a resume."""
    if row.input is None and row.kwargs.get("command") is not None:
        return "command", row.kwargs["command"]
    given = row.parameters if row.parameters is not None else row.input
    return "parameters", given if given is not None else {}


def subject_changes(row: Run, key: str, value: Any) -> dict[str, Any]:
    """Return the columns that change when hooks have changed the subject."""
    return {"kwargs": {**row.kwargs, key: value}} if key == "command" else {key: value}


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A key with which a request may be repeated: the same body gives the same run."""

    key: str
    route: str
    digest: str
