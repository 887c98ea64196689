"""Bodies of requests for runs, as clients send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from checkrail.runs.admit.requests import RunRequest
from checkrail.server.fields import JsonObject, Metadata, Name, RunConfig
from checkrail.server.streams.modes import graph_modes, parse_stream_modes

Nodes = list[str] | Literal["*"]
Strategy = Literal["reject", "interrupt", "rollback", "enqueue"]
Seconds = Annotated[float, Field(ge=0, le=10 * 365 * 86_400, allow_inf_nan=False)]


class Command(BaseModel):
    """How to go on with a thread that waits."""

    model_config = ConfigDict(extra="ignore")

    update: dict[str, Any] | list[Any] | None = None
    resume: Any = None
    goto: Any = None

    @field_validator("goto")
    @classmethod
    def _check_goto(cls, given: Any) -> Any:
        for item in given if isinstance(given, list) else [given]:
            whole = isinstance(item, Mapping) and isinstance(item.get("node"), str)
            if item is not None and not isinstance(item, str) and not whole:
                raise ValueError("goto is the name of a node, {node, input}, or a list of these")
        return given


class RunOptions(BaseModel):
    """The options of a run, whichever request they come in."""

    model_config = ConfigDict(extra="ignore")

    input: Any = None
    command: Command | None = None
    config: RunConfig | None = None
    context: JsonObject | None = None
    metadata: Metadata | None = None
    checkpoint: dict[str, Any] | None = None
    checkpoint_id: Name | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    interrupt_before: Nodes | None = None
    interrupt_after: Nodes | None = None
    webhook: Name | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    strict_resume: bool = False
    feedback_keys: list[str] | None = None
    multitask_strategy: Strategy | None = None

    @field_validator("stream_mode")
    @classmethod
    def _check_modes(cls, given: Any) -> Any:
        parse_stream_modes(given)
        return given

    def to_options(self) -> dict[str, Any]:
        """Return these as fields of a `RunRequest`."""
        modes = parse_stream_modes(self.stream_mode)
        raw = [*graph_modes(modes), *(("events",) if "events" in modes else ())]
        checkpoint = self.checkpoint
        if checkpoint is None and self.checkpoint_id is not None:
            checkpoint = {"checkpoint_id": self.checkpoint_id, "checkpoint_ns": ""}
        said = self.command.model_dump(exclude_unset=True) if self.command else None
        command = said or None  # front ends send an empty one beside an input
        durability = self.durability
        if durability is None and self.checkpoint_during is not None:
            durability = "async" if self.checkpoint_during else "exit"
        return {
            "input": self.input if command is None else None,  # front ends send both: it wins
            "command": command,
            "config": {key: said for key, said in (self.config or {}).items() if said is not None},
            "context": self.context,
            "metadata": self.metadata or {},
            "checkpoint": checkpoint,
            "stream_mode": modes,
            "modes": raw,
            "stream_subgraphs": self.stream_subgraphs,
            "strict_resume": self.strict_resume,
            "interrupt_before": self.interrupt_before,
            "interrupt_after": self.interrupt_after,
            "webhook": self.webhook,
            "durability": durability,
            "feedback_keys": self.feedback_keys,
            "multitask_strategy": self.multitask_strategy or "enqueue",
        }


class RunBody(RunOptions):
    """A run on a thread."""

    assistant_id: UUID | Name
    on_disconnect: Literal["cancel", "continue"] = "continue"
    after_seconds: Seconds = 0
    if_not_exists: Literal["create", "reject"] = "reject"
    on_completion: Literal["delete", "keep"] = "delete"

    def to_request(self, thread_id: str | None) -> RunRequest:
        """Return the run that is requested; without a thread, one of its own."""
        return RunRequest(
            assistant_id=str(self.assistant_id),
            thread_id=thread_id,
            if_not_exists=self.if_not_exists,
            keep_thread=thread_id is None and self.on_completion == "keep",
            after_seconds=self.after_seconds,
            **self.to_options(),
        )


class CancelMany(BaseModel):
    """Which runs to cancel: by their status, or by a thread and ids."""

    status: Literal["pending", "running", "all"] | None = None
    thread_id: UUID | None = None
    run_ids: list[UUID] | None = None

    @model_validator(mode="after")
    def _check_selection(self) -> CancelMany:
        by_ids = self.thread_id is not None and self.run_ids is not None
        if (self.status is None) == (not by_ids) or (
            self.status is not None and (self.thread_id or self.run_ids)
        ):
            raise ValueError("say status alone, or thread_id with run_ids")
        return self
