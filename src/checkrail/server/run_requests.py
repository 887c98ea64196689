"""Requests for runs: their bodies, and whether the caller may have them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from starlette.requests import HTTPConnection, Request

from checkrail.actions.errors import OutboundRefused
from checkrail.runs.admit.requests import Idempotency, Principal, RunRequest
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import matches_filter
from checkrail.server.fields import JsonObject, Metadata, Name, RunConfig
from checkrail.server.services import Services
from checkrail.server.streams.modes import graph_modes, parse_stream_modes
from checkrail.store import threads
from checkrail.store.runs import Run

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


async def admit_request(
    request: Request,
    served: Services,
    bodies: Sequence[tuple[RunBody, str | None]],
    key: str | None,
) -> list[Run]:
    """Admit the runs of a request, each on a thread or on none; all of them or none."""
    if not bodies:
        raise InvalidError("a batch has at least one run")
    wanted = [body.to_request(thread_id) for body, thread_id in bodies]
    once = await idempotency_of(request, key)
    return await authorize_and_admit(request, served, wanted, once)


async def authorize_and_admit(
    connection: HTTPConnection,
    served: Services,
    wanted: Sequence[RunRequest],
    once: Idempotency | None = None,
) -> list[Run]:
    """Call the auth handlers about runs, and admit them as those left them."""
    asked = [await _authorize_run(connection, served, each) for each in wanted]
    asker = asked[0][1]
    return await served.runs.admit([request for request, _ in asked], asker, once)


async def _authorize_run(
    connection: HTTPConnection, served: Services, asked: RunRequest
) -> tuple[RunRequest, Principal]:
    if asked.thread_id is None and (asked.command or {}).get("resume") is not None:
        raise InvalidError("a run without a thread resumes nothing. Name the thread that waits")
    value = _auth_value(asked)
    asker = await served.principal(connection, "threads", "create_run", value)
    check_webhook(served, asked.webhook)
    if asked.thread_id is not None:
        await _check_filters(served, asked.thread_id, asker)
    kwargs = value.get("kwargs") or {}
    allowed = replace(
        asked,
        metadata=value.get("metadata") or {},
        input=kwargs.get("input"),
        command=kwargs.get("command"),
        config=kwargs.get("config") or {},
    )
    return allowed, asker


def _auth_value(asked: RunRequest) -> dict[str, Any]:
    """Return a run as an auth handler gets it: `langgraph_sdk.auth.types.RunsCreate`."""
    return {
        "thread_id": UUID(asked.thread_id) if asked.thread_id else None,
        "assistant_id": asked.assistant_id,
        "run_id": None,
        "status": "pending",
        "metadata": dict(asked.metadata),
        "prevent_insert_if_inflight": asked.multitask_strategy == "reject",
        "multitask_strategy": asked.multitask_strategy,
        "if_not_exists": asked.if_not_exists,
        "after_seconds": asked.after_seconds,
        "kwargs": {"input": asked.input, "command": asked.command, "config": dict(asked.config)},
    }


def check_webhook(served: Services, url: str | None) -> None:
    """Refuse at once what would never be sent."""
    if url is None:
        return
    try:
        served.runs.parts.outbound.check(url)
    except OutboundRefused as error:
        raise InvalidError(f"the webhook cannot be called: {error}") from None


async def _check_filters(served: Services, thread_id: str, asker: Principal) -> None:
    """Check that a thread is one that the auth handlers let the caller touch."""
    if asker.filters is None:
        return
    thread = await served.database.read(lambda reads: threads.get(reads, thread_id))
    if thread is not None and not matches_filter(asker.filters, thread.metadata):
        raise NotFoundError(f"thread {thread_id!r} not found")


async def idempotency_of(request: Request, key: str | None) -> Idempotency | None:
    """Return what makes a request safe to repeat, if its client sent a key for that."""
    if not key:
        return None
    body = await request.body()
    return Idempotency(key, request.url.path, hashlib.sha256(body).hexdigest())
