"""What is carried out, wherever that is: a run as its body sees it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.config.agents import AgentConfig
from checkrail.engine.scope import Scope
from checkrail.engine.values import User
from checkrail.engine.verdict import Verdict

Emit = Callable[[str, tuple[str, ...], Any], None]
Message = Mapping[str, Any]


MEMO = "memo"
"""Where a body was left, in what is kept of a run; without it, its result is kept."""

GIVEN = "given"
"""Says that a runner was given what is kept of a body: it may have been entered again by now."""


def suspended_state(memo: Any, usage: Mapping[str, Any], held: Sequence[Any]) -> dict[str, Any]:
    """Return the suspended state of a job: its snapshot, usage, and events to be emitted."""
    return {MEMO: memo, "usage": dict(usage), "events": [*held]}


NOT_LEFT: Mapping[str, Any] = suspended_state(None, {}, ())
"""What was kept of a body that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run, ready to be executed: its start hooks have agreed."""

    run_id: str
    thread_id: str
    session_id: str | None
    attempt: int
    agent: AgentConfig
    parameters: Any
    history: Sequence[Message] = ()
    scope: Scope
    emit: Emit
    user: User | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    """The run's `scope`: for tools and programs, never shown to a model."""
    memo: Mapping[str, Any] | None = None
    """Where its body was left, if it is entered again."""
    used: dict[str, Any] = field(default_factory=dict)
    """What its models have used so far, by their names: known at any time, however it ends."""
    mark_usage: Callable[[], object] = lambda: None
    """Is called when they have used more, in whatever thread."""
    mark: Callable[[str, Mapping[str, Any]], object] = lambda _event, _data: None
    """Is told when a step begins or ends, in whatever thread."""

    @property
    def idempotency_key(self) -> str:
        """What an agent passes on so that others recognize an attempt that is repeated."""
        return f"{self.run_id}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job: its output, or the verdict or error that ended it."""

    output: Any = None
    messages: Sequence[Message] | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict | None = None
    error: str | None = None
    error_type: str | None = None
    blocked_by: str | None = None  # the hook that ended it, where its verdict is not at hand
