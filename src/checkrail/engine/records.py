"""What is kept of a hook call: a start, and exactly one ending."""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from checkrail.engine.frozen import FrozenObject, set_field
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import Decision
from checkrail.engine.values import digest, plain
from checkrail.times import epoch_time, iso_time, uuid7

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook
    from checkrail.engine.points import HookPoint, Lane
    from checkrail.engine.scope import Scope

History = Literal["full", "digest", "off"]


class RecordKind(StrEnum):
    """The four kinds of records."""

    START = "hook_start"
    COMPLETE = "hook_complete"
    FAILED = "hook_failed"
    BLOCKED = "hook_blocked"


class LazyId:
    """A UUIDv7 of a moment of the performance counter, made when it is first read."""

    __slots__ = ("_id", "moment")

    def __init__(self, moment: float) -> None:
        self.moment = moment
        self._id: str | None = None

    def __str__(self) -> str:
        if self._id is None:
            self._id = uuid7(epoch_time(self.moment))
        return self._id


class Call:
    """One call of one hook, and what came of it: just that the hook went on, unless more is set."""

    decision: Decision | None = None
    reason: str = ""
    failure: str | None = None
    error: str | None = None
    before: Any = UNSET
    after: Any = UNSET
    redacted: bool = False
    injected: int = 0
    answer: str | None = None
    status: int | None = None
    code: str | None = None
    is_announced: bool = False

    def __init__(
        self,
        bound: BoundHook,
        scope: Scope,
        started: float,
        ended: float = 0.0,
        dispatch: LazyId | None = None,
    ) -> None:
        self.bound = bound
        self.scope = scope
        self.started = started
        self.ended = ended
        self.own_id = LazyId(started)
        self.dispatch = LazyId(started) if dispatch is None else dispatch

    @property
    def has_result(self) -> bool:
        """Whether there is more to tell than that the hook went on."""
        return self.decision is not None or self.failure is not None

    @property
    def overran(self) -> bool:
        """Whether the hook took longer than its timeout without being interrupted."""
        return self.failure is None and self.ended - self.started >= self.bound.spec.timeout

    @property
    def kind(self) -> RecordKind:
        """The kind of the record that ends this call."""
        if self.failure is not None:
            return RecordKind.FAILED
        if self.decision in (Decision.BLOCK, Decision.FAIL):
            return RecordKind.BLOCKED
        return RecordKind.COMPLETE

    def forget_values(self) -> None:
        """Keep nothing of the values: a later hook redacted them."""
        if self.before is not UNSET:
            self.before = self.after = UNSET
            self.redacted = True
        self.reason, self.code = "", None
        if self.error is not None:
            self.error = f"{self.bound.where} failed; what it said was redacted"


def _call_field(path: str, doc: str) -> Any:
    return property(attrgetter(f"_call.{path}"), doc=doc)


def _ending_field(name: str, doc: str) -> Any:
    at_start = getattr(Call, name)

    def read(record: HookRecord) -> Any:
        return getattr(record._call, name) if record._is_ending else at_start

    return property(read, doc=doc)


class HookRecord(FrozenObject):
    """One line of a hook's story. What it tells is read from the call when asked for."""

    __slots__ = ("_call", "_stamp")

    _call: Call
    _is_ending = False
    _stamp: tuple[float, str]

    def __init__(self, call: Call) -> None:
        set_field(self, "_call", call)

    def __repr__(self) -> str:
        decided = f" {self.decision}" if self.decision else ""
        failed = f" {self.failure}: {self.error}" if self.failure else ""
        return f"<{self.kind} {self.hook} at {self.point}{decided}{failed}>"

    started: float = _call_field(
        "started", "The performance counter when the hook's turn came, in both records of a call."
    )
    point: HookPoint = _call_field("bound.point", "The point at which the hook was called.")
    hook: str = _call_field("bound.spec.name", "The hook's name.")
    source: str = _call_field("bound.spec.source", "Where the hook was declared.")
    lane: Lane = _call_field("bound.lane", "The hook's lane.")
    mode: str = _call_field("bound.spec.mode", "The hook's mode.")
    shadow: bool = _call_field("bound.shadow", "Whether this only says what would have been done.")
    level: str = _call_field("bound.level.label", "The level at which the hook was registered.")
    attempt: int = _call_field("scope.context.attempt", "Which attempt of the run this belongs to.")
    iteration: int | None = _call_field(
        "scope.context.iteration", "Which iteration of the loop this belongs to."
    )

    reason: str = _ending_field("reason", "The hook's reason.")
    failure: str | None = _ending_field(
        "failure", "The kind of failure: error, timeout, unreachable, invalid or cancelled."
    )
    error: str | None = _ending_field("error", "What went wrong.")
    redacted: bool = _ending_field(
        "redacted", "Whether the change was a redaction, or was redacted later: no value is kept."
    )
    injected: int = _ending_field(
        "injected", "How many messages the hook injected, or in shadow mode would have."
    )
    answer: str | None = _ending_field(
        "answer",
        "What came of an `ask`: approved, denied, timeout, nobody, withdrawn, failed, or waiting.",
    )
    status: int | None = _ending_field(
        "status", "The HTTP status of a refusal, the hook's own or that of its failure."
    )
    code: str | None = _ending_field("code", "The machine-readable code of a refusal.")

    @property
    def kind(self) -> RecordKind:
        """Which of the four kinds of records it is."""
        return self._call.kind if self._is_ending else RecordKind.START

    @property
    def record_id(self) -> str:
        """A UUIDv7, the same on every reading."""
        return self._read_stamp()[1]

    @property
    def call_id(self) -> str:
        """The id of the call: the same in its start and its ending."""
        return str(self._call.own_id)

    @property
    def dispatch(self) -> str:
        """The id of the dispatch: the same for all hooks that one firing of a point called."""
        return str(self._call.dispatch)

    @property
    def time(self) -> float:
        """When it happened, in seconds since the epoch."""
        return self._read_stamp()[0]

    @property
    def decision(self) -> Decision | None:
        """What the hook decided; None at the start and for a failure."""
        call = self._call
        if not self._is_ending or call.failure is not None:
            return None
        return call.decision or Decision.CONTINUE

    @property
    def duration_ms(self) -> float | None:
        """How long the hook took."""
        call = self._call
        return (call.ended - call.started) * 1000 if self._is_ending else None

    @property
    def overran(self) -> bool:
        """Whether the hook took longer than its timeout without ever suspending."""
        return self._is_ending and self._call.overran

    @property
    def ids(self) -> dict[str, str]:
        """The ids that this belongs to, where they exist."""
        context = self._call.scope.context
        names = [name for name in context.__slots__ if name.endswith(("_id", "_name"))]
        found = {name: getattr(context, name) for name in names}
        found["user_id"] = None if context.user is None else context.user.identity
        return {name: value for name, value in found.items() if value is not None}

    @property
    def changed(self) -> bool:
        """Whether the hook changed the value, or in shadow mode would have."""
        call = self._call
        return self._is_ending and (call.redacted or call.after is not UNSET)

    @property
    def before(self) -> Any:
        """The value that the hook changed, as the history setting keeps it."""
        return self._value_for_history(self._call.before)

    @property
    def after(self) -> Any:
        """What the hook made of the value, as the history setting keeps it."""
        return self._value_for_history(self._call.after)

    def _read_stamp(self) -> tuple[float, str]:
        if not hasattr(self, "_stamp"):
            call = self._call
            moment = epoch_time(call.ended if self._is_ending else call.started)
            set_field(self, "_stamp", (moment, uuid7(moment)))
        return self._stamp

    def _value_for_history(self, value: Any) -> Any:
        history = self._call.scope.history
        if not self._is_ending or value is UNSET or history == "off":
            return None
        return digest(value) if history == "digest" else value

    def wire(self) -> dict[str, Any]:
        """Return the record as JSON data, with the names that event consumers know."""
        bound = self._call.bound
        fields: dict[str, Any] = {
            "record_id": self.record_id,
            "call_id": self.call_id,
            "dispatch": self.dispatch,
            "event_type": str(self.kind),
            "kind": str(self.kind),
            "time": self.time,
            "timestamp": iso_time(self.time),
            "point": str(self.point),
            "hook": self.hook,
            "source": self.source,
            "lane": str(self.lane),
            "level": self.level,
            "mode": self.mode,
            "shadow": self.shadow,
            "hook_type": bound.declared,
            "target_type": bound.spec.target_type,
            "target_name": bound.spec.target_name,
            "on_error_behavior": bound.on_error(self.failure or "error"),
            "attempt": self.attempt,
            **self.ids,
        }
        if self.iteration is not None:
            fields["iteration"] = self.iteration
        if self._is_ending:
            fields |= self._wire_ending()
        return fields

    def _wire_ending(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"duration_ms": self.duration_ms, "changed": self.changed}
        if self.decision is not None:
            fields |= {"decision": str(self.decision), "action": str(self.decision)}
        if self.failure is not None:
            fields |= {"failure": self.failure, "error": self.error}
        if self.reason:
            fields["reason"] = self.reason
        if self.kind is RecordKind.BLOCKED:
            fields["block_reason"] = self.reason
        told = ((name, getattr(self, name)) for name in _TOLD_IF_ANY)
        fields |= {name: said for name, said in told if said}
        if self.redacted:
            fields["redacted"] = True
        elif self.changed and self._call.scope.history != "off":
            fields |= {"before": plain(self.before), "after": plain(self.after)}
        return fields


_TOLD_IF_ANY = ("status", "code", "injected", "answer", "overran")


class EndingRecord(HookRecord):
    """The record of a call that has ended."""

    __slots__ = ()

    _is_ending = True
