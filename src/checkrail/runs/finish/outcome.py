"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["success", "error", "timeout", "interrupted"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run: what the client sees, what the thread becomes, what hooks are given."""

    status: Status
    phase: str
    output: Any = None
    error: str | None = None
    error_type: str | None = None
    blocked_by: str | None = None
    block_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    values: Any = None
    interrupts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    thread_status: ThreadStatus = "idle"
    keeps_values: bool = False  # the thread's values are as they were
    unwound: bool | None = None
    rolled_back: bool = False

    @property
    def is_success(self) -> bool:
        """Return whether `after_run` is fired for it, and not `on_run_error`."""
        return self.status == "success" or (self.status, self.phase) == (
            "interrupted",
            "interrupted",
        )

    def last_events(self) -> list[tuple[str, Any]]:
        """Return the last events of the run: an error if it went wrong, and always `end`."""
        told: dict[str, Any] = {"status": self.status, "phase": self.phase}
        if self.error is not None:
            told["error"] = self.error
        if self.interrupts:
            told["interrupts"] = [item for many in self.interrupts.values() for item in many]
        words: list[tuple[str, Any]] = [("end", told)]
        if self.status in ("error", "timeout"):
            words.insert(0, ("error", {"error": self.error_type, "message": self.error}))
        return words


def cancelled_outcome(*, rolled_back: bool = False, unwound: bool | None = None) -> RunOutcome:
    """Return the outcome of a run that somebody cancelled."""
    return RunOutcome(
        status="interrupted",
        phase="cancelled",
        error="the run was cancelled",
        error_type="CancelledError",
        keeps_values=True,
        rolled_back=rolled_back,
        unwound=unwound,
    )


def timeout_outcome(error: str, *, unwound: bool | None = None) -> RunOutcome:
    """Return the outcome of a run that took too long."""
    return RunOutcome(
        status="timeout",
        phase="timeout",
        error=error,
        error_type="TimeoutError",
        thread_status="error",
        keeps_values=True,
        unwound=unwound,
    )


def error_outcome(error: str, error_type: str, **more: Any) -> RunOutcome:
    """Return the outcome of a run that ended with an error."""
    more = {"thread_status": "error", "keeps_values": True, **more}
    return RunOutcome(status="error", phase="error", error=error, error_type=error_type, **more)


def blocked_outcome(hook: str | None, reason: str) -> RunOutcome:
    """Return the outcome of a run that a hook refused; its thread is as good as before."""
    return RunOutcome(
        status="error",
        phase="blocked",
        error=reason,
        error_type="Blocked",
        blocked_by=hook,
        block_reason=reason,
        keeps_values=True,
    )
