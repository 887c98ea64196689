"""What answers look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class Problem(BaseModel, defer_build=True):
    """An error: what happened, to what, and what to do."""

    error: str
    message: str
    detail: str
    errors: list[Any] | None = None
    info: Any = None


class HookFigures(BaseModel, defer_build=True):
    """Calls of hooks in a run, what they came to, and their time in milliseconds."""

    calls: int
    changed: int
    blocked: int
    would_block: int
    failed: int
    asked: int
    ms: float


class Run(BaseModel, defer_build=True):
    """One execution of an agent on a thread."""

    run_id: str
    thread_id: str
    assistant_id: str
    agent_name: str
    created_at: str
    updated_at: str
    started_at: str | None = None
    ended_at: str | None = None
    status: str
    phase: str
    blocked_by: str | None = None
    block_reason: str | None = None
    error: str | None = None
    error_type: str | None = None
    attempt: int
    metadata: dict[str, Any]
    kwargs: dict[str, Any]
    multitask_strategy: str
    cancel_reason: str | None = None
    usage: dict[str, Any] | None = None
    unwound: bool | None = None
    origin: str
    session_id: str | None = None
    parent_run_id: str | None = None
    agent_version: int | None = None
    depth: int = 0
    kind: str = "graph"
    demands: list[str] = []
    timeout_seconds: float | None = None
    parameters: Any = None
    original_parameters: Any = None
    user_id: str | None = None
    summary: str | None = None
    queued_ms: float | None = None
    duration_ms: float | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    hooks: HookFigures


class EndedRun(Run):
    """A run with what came of it, as far as it has ended: a text, or data."""

    result_text: str | None = None
    result_data: Any = None


class DeliveryAttempt(BaseModel, defer_build=True):
    """When a delivery was attempted, and what went wrong."""

    at: str
    status_code: int | None = None
    error: str | None = None


class Delivery(BaseModel, defer_build=True):
    """What is owed when a run has ended: a finish hook, or a webhook."""

    delivery_id: str
    kind: str
    status: str
    attempts: int
    last_error: str | None = None
    target: str | None = None
    created_at: str
    due_at: str | None = None
    ended_at: str | None = None
    history: list[DeliveryAttempt] = []


Answers = dict[int | str, dict[str, Any]]

PROBLEMS: Answers = {"4XX": {"model": Problem}, "5XX": {"model": Problem}}
RUN: Answers = {200: {"model": Run}, **PROBLEMS}
ANY_RUN: Answers = {200: {"model": EndedRun}, **PROBLEMS}
RUNS: Answers = {200: {"model": list[Run]}, **PROBLEMS}
VALUES: Answers = {200: {"description": "The values, or `__error__`"}, **PROBLEMS}
STREAM: Answers = {
    200: {"description": "Server-sent events", "content": {"text/event-stream": {}}},
    **PROBLEMS,
}
