"""`RunContext`: what a run hook is told about a run, and cannot change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.engine.event import NO_CONFIG, Event
from checkrail.engine.values import RunError, RunResult, User, Value

ANONYMOUS = User(identity="anonymous")


@dataclass(frozen=True, slots=True)
class RunContext(Value):
    """What a run hook is told. Every hook gets all fields; nothing in them can be changed.

    The four ids are always texts, empty where the run has none (a stateless run has no thread).
    `output` and `status` are there after a run, `error` and `error_type` on its error.
    `extras` holds what the server collected, such as `usage_metadata`.
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
    """Tell about the run that an event belongs to.

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
        config=told.get("config") or {},
        extras=_extras(event),
        **_ending(event.value),
    )


def _ending(value: Any) -> dict[str, Any]:
    if isinstance(value, RunResult):
        return {"input": value.input, "output": value.output, "status": value.status}
    if isinstance(value, RunError):
        return {"input": value.input, "error": value.error, "error_type": value.error_type}
    return {"input": value}


def _extras(event: Event[Any]) -> Mapping[str, Any]:
    told: Mapping[str, Any] = event.metadata.get("extras") or {}
    value = event.value
    if isinstance(value, (RunResult, RunError)) and value.usage:
        return {**told, "usage_metadata": value.usage}
    return told
