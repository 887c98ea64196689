"""`RunContext`: what a run hook is told about a run, and cannot change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.event import NO_CONFIG, ORIGINAL, Event
from checkrail.engine.points import HookPoint
from checkrail.engine.values import RunError, RunResult, User, Value

ANONYMOUS = User(identity="anonymous")


@dataclass(frozen=True, slots=True)
class RunContext(Value):
    """What a run hook sees of a run. Every hook gets all fields; nothing in them can be changed.

    The four ids are always texts, empty where the run has none (a stateless run has no thread).
    `config` is the run's, with the ids that the server gave it in `configurable`, as graphs find
    them there. `output` and `status` are there after a run, `error` and `error_type` on its error.
    `extras` holds what the server collected, such as `usage_metadata`, and after a run the
    `original_parameters`, as they were before hooks changed them.
    """

    run_id: str
    thread_id: str
    assistant_id: str
    graph_id: str
    user: User
    config: Mapping[str, Any] = field(default_factory=lambda: NO_CONFIG)
    input: Any = None
    output: Any = None
    status: str | None = None
    error: str | None = None
    error_type: str | None = None
    extras: Mapping[str, Any] = field(default_factory=lambda: NO_CONFIG)


def run_context(event: Event[Any]) -> RunContext:
    """Return the context of the run that an event belongs to.

    A server puts the run's `config`, and what it has for `extras`, into the event's metadata;
    also `graph_id`, if that is not the agent's name.
    """
    told = event.metadata
    return RunContext(
        run_id=event.run_id or "",
        thread_id=event.thread_id or "",
        assistant_id=event.assistant_id or "",
        graph_id=told.get("graph_id") or event.agent_name or "",
        user=event.user or ANONYMOUS,
        config=_build_config(event),
        extras=_build_extras(event),
        **_end_fields(event.value),
    )


def event_fields(ctx: RunContext) -> dict[str, Any]:
    """Return the fields of an event that a context contains."""
    return {
        "run_id": ctx.run_id or None,
        "thread_id": ctx.thread_id or None,
        "assistant_id": ctx.assistant_id or None,
        "agent_name": ctx.graph_id or None,
        "user": ctx.user,
        "metadata": {"config": ctx.config, "graph_id": ctx.graph_id, "extras": ctx.extras},
    }


def value_at(point: HookPoint, ctx: RunContext) -> Any:
    """Return the value that would flow through a point for a context."""
    usage = ctx.extras.get("usage_metadata")
    if point is HookPoint.AFTER_RUN:
        return RunResult(ctx.status or "success", ctx.output, ctx.input, usage)
    if point is HookPoint.ON_RUN_ERROR:
        return RunError("error", ctx.error, ctx.error_type, ctx.input, usage)
    return ctx.input


def _build_config(event: Event[Any]) -> Mapping[str, Any]:
    given: Mapping[str, Any] = event.metadata.get("config") or {}
    ids = {
        "thread_id": event.thread_id,
        "run_id": event.run_id,
        "assistant_id": event.assistant_id,
        "graph_id": event.metadata.get("graph_id") or event.agent_name,
        "langgraph_auth_user_id": event.user and event.user.identity,
    }
    known = {name: found for name, found in ids.items() if found}
    if not known:
        return given
    return {**given, "configurable": {**(given.get("configurable") or {}), **known}}


def _end_fields(value: Any) -> dict[str, Any]:
    if isinstance(value, RunResult):
        return {"input": value.input, "output": value.output, "status": value.status}
    if isinstance(value, RunError):
        return {"input": value.input, "error": value.error, "error_type": value.error_type}
    return {"input": value}


def _build_extras(event: Event[Any]) -> Mapping[str, Any]:
    told: dict[str, Any] = {**(event.metadata.get("extras") or {})}
    value = event.value
    if not isinstance(value, (RunResult, RunError)):
        return told
    if value.usage:
        told["usage_metadata"] = value.usage
    if ORIGINAL in event.metadata:
        told[ORIGINAL] = event.metadata[ORIGINAL]
    return told
