"""The state of one dispatch: what its hooks have said and done so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.engine.event import variant
from checkrail.engine.outcomes import UNSET, Ask, Outcome
from checkrail.engine.points import Decision, Lane
from checkrail.engine.records import Call, HookRecord, RecordDraft, RecordKind, Traced

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound, Entry
    from checkrail.engine.event import Event
    from checkrail.engine.plan import Chain
    from checkrail.engine.scope import Scope
    from checkrail.engine.watch import Watch

log = logging.getLogger("checkrail")

Lanes = tuple[tuple[Lane | None, tuple["Entry", ...]], ...]
"""Hooks by lane; None stands for a lane that was entered before, and is now gone on with."""

PLAIN: tuple[RecordKind, ...] = (RecordKind.START, RecordKind.COMPLETE)
START_ONLY: tuple[RecordKind, ...] = (RecordKind.START,)

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


class Decided(NamedTuple):
    """One decision: what, by whom, and what a `replace` or `stop` brought."""

    outcome: Outcome
    by: Bound
    brought: Any
    number: int

    @property
    def strictness(self) -> int:
        """How strict it is."""
        return STRICTNESS[self.outcome.decision]

    def over(self, other: Decided | None) -> bool:
        """Whether this is the one that counts: the stricter, on a tie the first."""
        if other is None:
            return True
        return (self.strictness, other.number) > (other.strictness, self.number)


class Ruling:
    """What the hooks of a dispatch have decided, as far as it is more than going on."""

    __slots__ = (
        "approved",
        "asks",
        "count",
        "engine",
        "gate",
        "gated",
        "held",
        "inject",
        "transform",
    )

    def __init__(self) -> None:
        self.count = 0
        self.engine: Outcome | None = None
        self.transform: Decided | None = None
        self.gate: Decided | None = None
        self.inject: tuple[Mapping[str, Any], ...] = ()
        self.asks: tuple[tuple[Call, Ask], ...] = ()
        self.held: tuple[Entry, ...] = ()
        self.approved: tuple[tuple[Bound, str], ...] = ()
        self.gated: Any = UNSET

    def decide(self, bound: Bound, outcome: Outcome, brought: Any = UNSET) -> None:
        """Take a decision if it is stricter than what its lane decided before."""
        self.count += 1
        made = Decided(outcome, bound, brought, self.count)
        if bound.lane is Lane.TRANSFORM:
            self.transform = made
        elif made.over(self.gate):
            self.gate = made

    @property
    def decided(self) -> Decided | None:
        """The strictest decision; on a tie the first."""
        if self.transform is None or (self.gate is not None and self.gate.over(self.transform)):
            return self.gate
        return self.transform

    @property
    def outcome(self) -> Outcome | None:
        """What was decided."""
        decided = self.decided
        return self.engine if decided is None else decided.outcome

    def enter_gates(self, value: Any) -> bool:
        """Let gates look at a value, unless it is refused or they have seen it already.

        What they said of another value, which a person has edited since, no longer counts.
        """
        if self.refused or self.gated is value:
            return False
        self.gate = None
        self.gated = value
        return True

    def result(self, value: Any) -> Any:
        """Give what a `replace` or `stop` brought, else the value as it is."""
        decided = self.decided
        return value if decided is None or decided.brought is UNSET else decided.brought

    @property
    def refused(self) -> bool:
        """Whether the work is blocked or has failed."""
        outcome = self.outcome
        return outcome is not None and outcome.decision in (Decision.BLOCK, Decision.FAIL)

    @property
    def asking(self) -> bool:
        """Whether a person has to be asked: not if the work is refused or retried anyway."""
        decided = self.decided
        return bool(self.asks) and (
            decided is None or decided.strictness < STRICTNESS[Decision.ASK]
        )


class Mark:
    """A hook at work, as the tasks that it starts remember it."""

    __slots__ = ("bound", "d")

    def __init__(self, bound: Bound, d: Dispatch) -> None:
        self.bound = bound
        self.d = d


class Dispatch:
    """One firing of one point. Only the engine sees it, and only while it runs.

    `at_work` are the hooks whose work this is, `depth` how many they are.
    """

    __slots__ = (
        "at_work",
        "began",
        "bound",
        "chain",
        "depth",
        "entries",
        "epoch",
        "event",
        "lanes",
        "original",
        "quiet",
        "reached",
        "ruling",
        "scope",
        "sent",
        "started",
        "trace",
        "value",
        "watch",
    )

    scope: Scope
    chain: Chain
    value: Any
    original: Any
    event: Event[Any]
    started: float
    reached: float
    began: float
    trace: list[Traced]
    sent: list[HookRecord] | None
    bound: Bound | None
    at_work: frozenset[Any]
    depth: int
    lanes: Lanes
    entries: tuple[Entry, ...]
    watch: Watch | None
    ruling: Ruling | None
    epoch: int
    quiet: bool

    def rule(self) -> Ruling:
        """Give the ruling, made when there is first something to rule."""
        if self.ruling is None:
            self.ruling = Ruling()
        return self.ruling

    def set_value(self, value: Any, *, redacted: bool = False) -> None:
        """Go on with another value; a redaction leaves no trace of the earlier one."""
        self.value = value
        if redacted:
            self.original = value
            self.forget()
        self.event = variant(self.event, value=value)

    def forget(self) -> None:
        """Keep no value that was changed so far: it was redacted, or might have been."""
        for traced in self.trace:
            if isinstance(traced, Call):
                traced.forget()

    def flush(self, waiting: Traced | None = None) -> None:
        """Give the sinks every record that they have not had; `waiting` has only started."""
        sent, scope = self.sent, self.scope
        if sent is None:
            return
        untold = self.trace[len(sent) // 2 :]
        for traced in untold if waiting is None else (*untold, waiting):
            kinds: tuple[RecordKind, ...]
            if isinstance(traced, Call):
                kinds = (RecordKind.START, traced.ending)
            else:
                kinds = START_ONLY if traced is waiting else PLAIN
            for kind in kinds[len(sent) % 2 :]:
                draft = RecordDraft()
                draft.kind = kind
                draft._traced = traced
                draft._scope = scope
                draft.__class__ = HookRecord
                sent.append(draft)  # type: ignore[arg-type]
                for sink in scope.sinks:
                    try:
                        sink(draft)  # type: ignore[arg-type]
                    except Exception:
                        log.exception("a record sink failed; %r is lost to it", draft)

    def announce(self, bound: Bound, began: float) -> float:
        """Tell the sinks that a hook has started and is being waited for; say how long it took.

        Values, and what hooks say of them, leave a point only after its transform lane. What is
        still held holds back what came after it too.
        """
        if self.sent is None or len(self.sent) > 2 * len(self.trace):
            return 0.0
        if self.ruling is not None and self.ruling.asks:
            return 0.0
        asked = perf_counter()
        held = self.trace[len(self.sent) // 2 :]
        if bound.lane is not Lane.TRANSFORM or all(type(call) is tuple for call in held):
            self.flush((bound, began, began))
        return perf_counter() - asked
