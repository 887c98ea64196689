"""The state of one dispatch: what its hooks have said and done so far."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from checkrail.engine.containment import ends_process
from checkrail.engine.event import Event
from checkrail.engine.new_messages import NewMessages
from checkrail.engine.outcomes import UNSET, Ask, Outcome
from checkrail.engine.points import Decision, Lane
from checkrail.engine.records import Call, EndingRecord, HookRecord, LazyId
from checkrail.times import epoch_time

if TYPE_CHECKING:
    import asyncio

    from checkrail.engine.chain import BoundHook, Chain
    from checkrail.engine.scope import Scope
    from checkrail.engine.timeouts import HookTimer

log = logging.getLogger("checkrail")

HOOKS_AT_WORK: ContextVar[tuple[BoundHook, ...]] = ContextVar("checkrail_hooks", default=())
"""The hooks whose work is being done here, the innermost last."""


def hook_at_work() -> BoundHook | None:
    """Return the hook whose work is being done here; None: nobody's."""
    hooks = HOOKS_AT_WORK.get()
    return hooks[-1] if hooks else None


STRICTNESS = {
    Decision(name): rank
    for rank, name in enumerate(["continue", "replace", "stop", "ask", "retry", "block", "fail"])
}


class HookDecision(NamedTuple):
    """One decision: what, by whom, and the result that a `replace` or `stop` gave."""

    outcome: Outcome
    by: BoundHook
    result: Any
    number: int

    @property
    def strictness(self) -> int:
        """How strict it is."""
        return STRICTNESS[self.outcome.decision]

    def outranks(self, other: HookDecision | None) -> bool:
        """Return whether this is the one that counts: the stricter, on a tie the first."""
        if other is None:
            return True
        return (self.strictness, other.number) > (other.strictness, self.number)


class Ruling:
    """What the hooks of a dispatch have decided, as far as it is more than going on.

    `engine` is the engine's own decision; `asks` are questions that are still to be put, and `held`
    the hooks that wait behind the first of them; `gated` is the value that gates saw last.
    """

    def __init__(self) -> None:
        self.count = 0
        self.engine: Outcome | None = None
        self.transform: HookDecision | None = None
        self.gate: HookDecision | None = None
        self.inject: tuple[Mapping[str, Any], ...] = ()
        self.asks: tuple[tuple[Call, Ask], ...] = ()
        self.held: tuple[BoundHook, ...] = ()
        self.approved: tuple[tuple[BoundHook, str], ...] = ()
        self.gated: Any = UNSET

    def decide(self, bound: BoundHook, outcome: Outcome, result: Any = UNSET) -> None:
        """Take a decision if it is stricter than what its lane decided before."""
        self.count += 1
        made = HookDecision(outcome, bound, result, self.count)
        if bound.lane is Lane.TRANSFORM:
            self.transform = made
        elif made.outranks(self.gate):
            self.gate = made

    @property
    def strictest(self) -> HookDecision | None:
        """The strictest decision; on a tie the first."""
        if self.transform is None or (self.gate is not None and self.gate.outranks(self.transform)):
            return self.gate
        return self.transform

    @property
    def outcome(self) -> Outcome | None:
        """What was decided."""
        strictest = self.strictest
        return self.engine if strictest is None else strictest.outcome

    @property
    def is_refusal(self) -> bool:
        """Whether the work is blocked or has failed."""
        outcome = self.outcome
        return outcome is not None and outcome.decision in (Decision.BLOCK, Decision.FAIL)

    @property
    def needs_answer(self) -> bool:
        """Whether a person has to be asked: not if the work is refused or retried anyway."""
        strictest = self.strictest
        return bool(self.asks) and (
            strictest is None or strictest.strictness < STRICTNESS[Decision.ASK]
        )

    def open_gates(self, value: Any) -> bool:
        """Let gates look at a value, unless it is refused or they have seen it already.

        What they said of another value, which a person has edited since, no longer counts.
        """
        if self.is_refusal or self.gated is value:
            return False
        self.gate = None
        self.gated = value
        return True

    def result(self, value: Any) -> Any:
        """Return what a `replace` or `stop` gave, else the value as it is."""
        strictest = self.strictest
        return value if strictest is None or strictest.result is UNSET else strictest.result


CallEntry = Call | tuple["BoundHook", float, float]
"""A call, or of a hook that went on at once itself, when its turn came, and when it ended."""


class Dispatch:
    """One firing of one point. Only the engine sees it.

    `outer` are the hooks within whose work it was fired; `bound` is the hook whose turn came at
    `started`, and `call` is set once it is waited for; `timer` is None until a hook suspends.
    """

    bound: BoundHook | None
    call: Call | None
    started: float
    lane_hooks: Sequence[BoundHook]
    ended_levels: tuple[object, ...]
    is_partial = False
    """Whether some hooks of the point are left out."""

    def __init__(
        self, scope: Scope, chain: Chain, value: Any, outer: tuple[BoundHook, ...] = ()
    ) -> None:
        self.scope = scope
        self.sinks = scope.sinks
        self.chain = chain
        self.outer = outer
        self.value = self.original = value
        self.event: Event[Any] = Event(self, value)
        self.in_condition = False
        self.calls: list[CallEntry] = []
        self.records: list[HookRecord] = []
        self._records_made = 0
        self.ruling: Ruling | None = None
        self.timer: HookTimer | None = None
        self.overdue: asyncio.Future[None] | None = None
        self.new_messages: NewMessages | None = None
        self.began = perf_counter()
        self._reached_at: float | None = None
        self._id: LazyId | None = None

    @property
    def id(self) -> LazyId:
        """The id that its records share."""
        if self._id is None:
            self._id = LazyId(self.began)
        return self._id

    @property
    def reached_at(self) -> float:
        """When the point was reached, in seconds since the epoch."""
        if self._reached_at is None:
            self._reached_at = epoch_time(self.began)
        return self._reached_at

    @property
    def has_asks(self) -> bool:
        """Whether there are questions that are still to be put to a person."""
        return self.ruling is not None and bool(self.ruling.asks)

    def find_new_messages(self, messages: Sequence[Any]) -> list[Any]:
        """Return those messages of a request that were in no request of its conversation."""
        if self.new_messages is None:
            self.new_messages = NewMessages(self)
        return self.new_messages.find_in(messages)

    def rule(self) -> Ruling:
        """Return the ruling, made when there is first something to rule."""
        if self.ruling is None:
            self.ruling = Ruling()
        return self.ruling

    def open_call(self) -> Call | None:
        """Return the call of the hook that is now waited for; None: a person is waited for."""
        if self.call is None and self.bound is not None:
            self.call = Call(self.bound, self.scope, self.started, dispatch=self.id)
        return self.call

    def end_call(self, ended: float) -> Call:
        """Keep the call of a hook that has ended, and return it."""
        call: Any = self.open_call()
        call.ended = ended
        self.calls.append(call)
        return call  # type: ignore[no-any-return]

    def results(self) -> Iterator[Call]:
        """Yield the calls of which there is more to tell than that the hook went on."""
        return (call for call in self.calls if isinstance(call, Call) and call.has_result)

    def hooks_after(self, bound: BoundHook) -> tuple[BoundHook, ...]:
        """Return the hooks of the lane that are still to be called after this one."""
        after = self.lane_hooks[self.lane_hooks.index(bound) + 1 :]
        return tuple(hook for hook in after if hook.level not in self.ended_levels)

    def set_value(self, value: Any, *, redacted: bool = False) -> None:
        """Go on with another value; a redaction leaves no trace of the earlier one."""
        self.value = value
        if redacted:
            self.original = value
            self.forget_values()
        self.event = Event(self, value)

    def forget_values(self) -> None:
        """Keep no value that was changed so far: it was redacted, or might have been."""
        for call in self.results():
            call.forget_values()

    def forget_uncertain_values(self, bound: BoundHook) -> None:
        """Keep no value if a hook that is cut off, or one behind it, might have redacted it."""
        if bound.lane is Lane.TRANSFORM or (self.ruling is not None and self.ruling.held):
            self.forget_values()

    def make_records(self) -> list[HookRecord]:
        """Make the records of the calls that have ended and have none yet, and return those."""
        made: list[HookRecord] = []
        for entry in self.calls[self._records_made :]:
            if isinstance(entry, Call):
                call = entry
            else:
                bound, started, ended = entry
                call = Call(bound, self.scope, started, ended, self.id)
            if not call.is_announced:
                made.append(HookRecord(call))
            made.append(EndingRecord(call))
        self._records_made = len(self.calls)
        self.records += made
        return made

    def flush(self) -> None:
        """Send the sinks every record of a call that has ended and that they have not had."""
        if self.sinks:
            self._tell_sinks(self.make_records())

    def announce(self) -> float:
        """Send the sinks the start of a hook that is waited for, and return how long that took.

        Values, and what hooks say of them, leave a point only after its transform lane. What is
        still held holds back what came after it too.
        """
        call = self.call
        if call is None or not self.sinks or self.in_condition or self.has_asks:
            return 0.0
        began = perf_counter()
        untold = self.calls[self._records_made :]
        is_held = any(isinstance(entry, Call) and entry.has_result for entry in untold)
        if call.bound.lane is not Lane.TRANSFORM or not is_held:
            self.flush()
            call.is_announced = True
            self.records.append(HookRecord(call))
            self._tell_sinks(self.records[-1:])
        return perf_counter() - began

    def _tell_sinks(self, records: Sequence[HookRecord]) -> None:
        """Send the sinks some records; one that fails does not touch the others."""
        for sink in self.sinks:
            for record in records:
                try:
                    sink(record)
                except BaseException as error:
                    if ends_process(error):
                        raise
                    log.exception("a record sink failed; %r is lost to it", record)
