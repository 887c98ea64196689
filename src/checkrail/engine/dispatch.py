"""The state of one dispatch: what its hooks have said and done so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkrail.engine.event import variant
from checkrail.engine.frozen import freeze
from checkrail.engine.outcomes import UNSET, Ask, Outcome
from checkrail.engine.points import Decision, Lane
from checkrail.engine.records import Call, RecordKind, Traced, call_of, record
from checkrail.engine.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound, Entry
    from checkrail.engine.event import Event
    from checkrail.engine.records import HookRecord
    from checkrail.engine.scope import Scope
    from checkrail.engine.watch import Watch

log = logging.getLogger("checkrail")

MAX_DEPTH = 8

Lanes = tuple[tuple[Lane | None, tuple["Entry", ...]], ...]
"""Hooks by lane; None stands for a lane that was entered before, and is now gone on with."""

STRICTNESS = {
    decision: rank
    for rank, decision in enumerate(
        (
            Decision.CONTINUE,
            Decision.REPLACE,
            Decision.STOP,
            Decision.ASK,
            Decision.RETRY,
            Decision.BLOCK,
            Decision.FAIL,
        ),
    )
}


class Dispatch:
    """One firing of one point. Only the engine sees it, and only while it runs.

    What most dispatches never touch stays a default of the class, which costs nothing to make.
    """

    scope: Scope
    lanes: Lanes
    plan: Lanes
    background: tuple[Entry, ...]
    event: Event[Any]
    value: Any
    trace: list[Traced]
    t0: float
    watch: Watch | None
    entries: tuple[Entry, ...]
    bound: Bound | None
    parent: Dispatch | None = None
    depth: int = 0
    epoch: int = 0
    quiet: bool = False
    outcome: Outcome | None = None
    by: Bound | None = None
    brought: Any = UNSET
    inject: tuple[Mapping[str, Any], ...] = ()
    asks: tuple[tuple[Bound, Ask], ...] = ()
    held: tuple[Entry, ...] = ()
    approved: frozenset[tuple[Bound, str]] = frozenset()
    gated: Any = UNSET
    verdict: Verdict | None = None
    sent: list[HookRecord] | None = None

    def set_value(self, value: Any, *, redacted: bool = False) -> None:
        """Go on with another value; a redaction leaves no trace of the earlier one."""
        self.value = value
        original = value if redacted else self.event.original
        self.event = variant(self.event, value=value, original=original)
        if redacted:
            for traced in self.trace:
                if isinstance(traced, Call):
                    traced.forget()

    def decide(self, bound: Bound, outcome: Outcome, brought: Any = UNSET) -> None:
        """Take a decision if it is stricter than what was decided before."""
        known = self.outcome
        if known is None or STRICTNESS[outcome.decision] > STRICTNESS[known.decision]:
            self.outcome, self.by, self.brought = outcome, bound, brought

    def add_messages(self, messages: Any) -> None:
        """Keep messages that a hook wants in the conversation."""
        if messages:
            self.inject = (*self.inject, *freeze(list(messages)))

    @property
    def refused(self) -> bool:
        """Whether the work is blocked or has failed."""
        return self.outcome is not None and self.outcome.decision in (
            Decision.BLOCK,
            Decision.FAIL,
        )

    def conclude(self) -> Verdict:
        """Give the verdict; it is made once."""
        if self.verdict is None:
            self.verdict = verdict_of(self, self.value if self.brought is UNSET else self.brought)
        return self.verdict

    def flush(self) -> None:
        """Give the sinks every record that they have not had."""
        if self.sent is None:
            return
        sent, trace = self.sent, self.trace
        while len(sent) < 2 * len(trace):
            traced = trace[len(sent) // 2]
            kind = RecordKind.START if len(sent) % 2 == 0 else call_of(traced).ending
            self._send(record(kind, traced, self.scope.context, self.scope.history))

    def announce(self, bound: Bound, started: float) -> None:
        """Tell the sinks that a hook has started and is being waited for.

        Values leave a point only after its transform lane, so a change that is still held
        holds back what came after it too.
        """
        if self.sent is None or len(self.sent) > 2 * len(self.trace):
            return
        held = self.trace[len(self.sent) // 2 :]
        if any(isinstance(call, Call) and call.after is not UNSET for call in held):
            return
        self.flush()
        traced = (bound, started, started)
        self._send(record(RecordKind.START, traced, self.scope.context, self.scope.history))

    def _send(self, made: HookRecord) -> None:
        self.sent.append(made)  # type: ignore[union-attr]
        for sink in self.scope.sinks:
            try:
                sink(made)
            except Exception:
                log.exception("a record sink failed on %r; the record is lost to it", made)
