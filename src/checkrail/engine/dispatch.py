"""The state of one dispatch: what its hooks have said and done so far."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from operator import length_hint
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.engine.containment import ends_process
from checkrail.engine.event import variant
from checkrail.engine.outcomes import UNSET, Ask, Outcome
from checkrail.engine.points import Decision, Lane
from checkrail.engine.records import Call, HookRecord, RecordDraft, Trace, start_at

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound, Entry
    from checkrail.engine.event import Event
    from checkrail.engine.plan import Chain
    from checkrail.engine.scope import Scope
    from checkrail.engine.watch import Watch

log = logging.getLogger("checkrail")

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
        "subject",
        "transform",
    )

    def __init__(self) -> None:
        self.count = 0
        self.engine: Outcome | None = None
        self.subject: Any = UNSET
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


class Nesting(NamedTuple):
    """How deep within other hooks' work a dispatch is, and whose work that is."""

    depth: int
    at_work: frozenset[Any]


NOT_NESTED = Nesting(0, frozenset())


class Mark:
    """A hook at work, as the tasks that it starts remember it."""

    __slots__ = ("bound", "d")

    def __init__(self, bound: Bound, d: Dispatch) -> None:
        self.bound = bound
        self.d = d


class Dispatch:
    """One firing of one point. Only the engine sees it, until it becomes the verdict.

    A hook that is the last in its `trace` is at work. `watch` is None until a hook suspends.
    """

    __slots__ = (
        "chain",
        "entries",
        "event",
        "lanes",
        "nesting",
        "original",
        "quiet",
        "reached",
        "ruling",
        "scope",
        "sent",
        "trace",
        "value",
        "watch",
    )

    scope: Scope
    chain: Chain
    value: Any
    original: Any
    event: Event[Any]
    reached: float
    trace: Trace
    sent: list[HookRecord] | None
    nesting: Nesting | None
    lanes: Lanes
    entries: tuple[Entry, ...]
    watch: Watch | None
    ruling: Ruling | None
    quiet: bool

    @property
    def over(self) -> bool:
        """Whether it has come to its end, whichever."""
        return self.event is None

    @property
    def at_work(self) -> Bound | None:
        """The hook that was called last, if it has not ended."""
        last = self.trace[-1]
        return None if isinstance(last, float) else last

    @property
    def turn(self) -> Any:
        """When the turn of the hook at work came."""
        return self.trace[-2]

    def called(self) -> list[Bound]:
        """Give the hooks that were called so far."""
        hooks = [item for item in self.trace[1:] if not isinstance(item, float)]
        return [hook.bound if isinstance(hook, Call) else hook for hook in hooks]

    def keep(self, call: Call) -> None:
        """Put a call, now that it has ended, in the place of its hook."""
        self.quiet = False
        self.trace[-1] = call
        self.trace.append(call.ended)

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
        for item in self.trace:
            if isinstance(item, Call):
                item.forget()

    def told(self) -> int:
        """Say how much of the trace the records so far tell of; a hook's start alone is not it."""
        if not self.sent:
            return 2  # behind the scope and the time
        last = self.sent[-1]._at
        return last if last > 0 else 1 - last

    def flush(self) -> None:
        """Give the sinks every record of a call that has ended and that they have not had."""
        sent, trace = self.sent, self.trace
        if sent is None:
            return
        before = len(sent)
        announced = before % 2  # the start of the next one is told already
        at, last = self.told(), len(trace) - 1
        while at < last:
            if type(trace[at]) is float:
                at += 1
                continue
            if not announced:
                start = RecordDraft()  # made in place, for there are many
                start._trace = trace
                start._at = at
                start.__class__ = HookRecord
                sent.append(start)  # type: ignore[arg-type]
            announced = 0
            ending = RecordDraft()
            ending._trace = trace
            ending._at = -at
            ending.__class__ = HookRecord
            sent.append(ending)  # type: ignore[arg-type]
            at += 2  # past the time when it ended
        self.tell(sent[before:] if before else sent)

    def tell(self, records: list[HookRecord]) -> None:
        """Give the sinks some records; one that fails does not touch the others."""
        for sink in self.scope.sinks:
            left = iter(records)
            while True:
                try:
                    deque(map(sink, left), maxlen=0)  # the quickest loop there is
                    break
                except BaseException as error:
                    if ends_process(error):
                        raise
                    lost = records[-length_hint(left) - 1]
                    log.exception("a record sink failed; %r is lost to it", lost)

    def announce(self) -> float:
        """Tell the sinks that a hook has started and is being waited for; say how long it took.

        Values, and what hooks say of them, leave a point only after its transform lane. What is
        still held holds back what came after it too.
        """
        bound, sent = self.at_work, self.sent
        if bound is None or sent is None or (self.ruling is not None and self.ruling.asks):
            return 0.0
        asked = perf_counter()
        held = any(isinstance(item, Call) for item in self.trace[self.told() :])
        if bound.lane is not Lane.TRANSFORM or not held:
            self.flush()
            sent.append(start_at(self.trace, len(self.trace) - 1))
            self.tell(sent[-1:])
        return perf_counter() - asked
