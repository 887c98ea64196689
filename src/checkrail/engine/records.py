"""What is kept of a hook call: a start, and exactly one ending."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from checkrail.engine.event import wall
from checkrail.engine.frozen import FrozenError
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import Decision
from checkrail.engine.values import digest, plain

if TYPE_CHECKING:
    from checkrail.engine.binding import Bound
    from checkrail.engine.points import HookPoint, Lane
    from checkrail.engine.scope import Scope

History = Literal["full", "digest", "off"]


class RecordKind(StrEnum):
    """The four kinds of records."""

    START = "hook_start"
    COMPLETE = "hook_complete"
    FAILED = "hook_failed"
    BLOCKED = "hook_blocked"


@dataclass(slots=True)
class Call:
    """One call of one hook, as the dispatch kept it."""

    bound: Bound
    started: float
    ended: float
    decision: Decision | None = None
    reason: str = ""
    failure: str | None = None
    error: str | None = None
    before: Any = UNSET
    after: Any = UNSET
    redacted: bool = False
    overran: bool = False
    injected: int = 0
    answer: str | None = None

    @property
    def ending(self) -> RecordKind:
        """The kind of the record that ends this call."""
        if self.failure is not None:
            return RecordKind.FAILED
        if self.decision in (Decision.BLOCK, Decision.FAIL):
            return RecordKind.BLOCKED
        return RecordKind.COMPLETE

    def forget(self) -> None:
        """Keep nothing of the values: a later hook redacted them."""
        if self.before is not UNSET:
            self.before = self.after = UNSET
            self.redacted = True
        self.reason = ""
        if self.error is not None:
            self.error = f"{self.bound.where} failed; what it said was redacted"


Trace = list[Any]
"""What a dispatch keeps of its hooks, and every record reads.

First comes the scope, then readings of the clock, and between them the hooks: each stands after
the time when its turn came, and before the time when it ended. If there is more to tell than that
a hook went on, its `Call` takes its place. Times without a hook in between are of other things.
"""


def call_at(trace: Trace, at: int) -> Call:
    """Give the whole form of what a dispatch kept of a hook."""
    hook = trace[at]
    if isinstance(hook, Call):
        return hook
    started = trace[at - 1]
    return call_of(hook, started, trace[at + 1] if at + 1 < len(trace) else started)


def call_of(bound: Bound, started: float, ended: float) -> Call:
    """Give what there is to tell of a hook that went on."""
    return Call(bound, started, ended, overran=ended - started >= bound.spec.timeout)


class RecordDraft:
    """A record while it is being made; others only ever see the frozen `HookRecord`.

    `_at` is the place of its hook in the trace: as it is for the start, negative for the ending.
    """

    __slots__ = ("_at", "_stamp", "_trace")

    _trace: Trace
    _at: int
    _stamp: tuple[float, str]


class HookRecord(RecordDraft):
    """One line of a hook's story. What it tells is read from the dispatch when asked for."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"a record is frozen: {name!r} cannot be set"
        raise FrozenError(message)

    def __delattr__(self, name: str) -> NoReturn:
        message = f"a record is frozen: {name!r} cannot be deleted"
        raise FrozenError(message)

    def __repr__(self) -> str:
        told = f" {self.decision}" if self.decision else ""
        failed = f" {self.failure}: {self.error}" if self.failure else ""
        return f"<{self.kind} {self.hook} at {self.point}{told}{failed}>"

    @property
    def _call(self) -> Call:
        return call_at(self._trace, abs(self._at))

    @property
    def _scope(self) -> Scope:
        return self._trace[0]  # type: ignore[no-any-return]

    @property
    def _ended(self) -> bool:
        return self._at < 0

    @property
    def kind(self) -> RecordKind:
        """Which of the four kinds of records it is."""
        return self._call.ending if self._ended else RecordKind.START

    @property
    def record_id(self) -> str:
        """A UUIDv7, the same on every reading."""
        return self._stamped()[1]

    @property
    def time(self) -> float:
        """When it happened, in seconds since the epoch."""
        return self._stamped()[0]

    @property
    def started(self) -> float:
        """The performance counter when the hook's turn came, in both records of a call."""
        return self._call.started

    @property
    def point(self) -> HookPoint:
        """The point at which the hook was called."""
        return self._call.bound.point

    @property
    def hook(self) -> str:
        """The hook's name."""
        return self._call.bound.spec.name

    @property
    def source(self) -> str:
        """Where the hook was declared."""
        return self._call.bound.spec.source

    @property
    def lane(self) -> Lane:
        """The hook's lane."""
        return self._call.bound.lane

    @property
    def mode(self) -> str:
        """The hook's mode."""
        return self._call.bound.spec.mode

    @property
    def shadow(self) -> bool:
        """Whether this only says what would have been done."""
        return self._call.bound.shadow

    @property
    def decision(self) -> Decision | None:
        """What the hook decided; None at the start and for a failure."""
        call = self._call
        if not self._ended or call.failure is not None:
            return None
        return call.decision or Decision.CONTINUE

    @property
    def reason(self) -> str:
        """The hook's reason."""
        return self._call.reason if self._ended else ""

    @property
    def failure(self) -> str | None:
        """The kind of failure: error, timeout, unreachable, invalid or cancelled."""
        return self._call.failure if self._ended else None

    @property
    def error(self) -> str | None:
        """What went wrong."""
        return self._call.error if self._ended else None

    @property
    def duration_ms(self) -> float | None:
        """How long the hook took."""
        call = self._call
        return (call.ended - call.started) * 1000 if self._ended else None

    @property
    def attempt(self) -> int:
        """Which attempt of the run this belongs to."""
        return self._scope.context.attempt

    @property
    def ids(self) -> dict[str, str]:
        """The ids that this belongs to, where they exist."""
        context = self._scope.context
        names = [name for name in context.__slots__ if name.endswith(("_id", "_name"))]
        found = {name: getattr(context, name) for name in names}
        found["user_id"] = None if context.user is None else context.user.identity
        return {name: value for name, value in found.items() if value is not None}

    @property
    def changed(self) -> bool:
        """Whether the hook changed the value, or in shadow mode would have."""
        call = self._call
        return self._ended and (call.redacted or call.after is not UNSET)

    @property
    def redacted(self) -> bool:
        """Whether the change was a redaction, or was redacted later: no value is kept."""
        return self._ended and self._call.redacted

    @property
    def before(self) -> Any:
        """The value that the hook changed, as the history setting keeps it."""
        return self._kept(self._call.before)

    @property
    def after(self) -> Any:
        """What the hook made of the value, as the history setting keeps it."""
        return self._kept(self._call.after)

    @property
    def injected(self) -> int:
        """How many messages the hook put into the conversation, or in shadow mode would have."""
        return self._call.injected if self._ended else 0

    @property
    def answer(self) -> str | None:
        """What came of an `ask`: approved, denied, timeout, nobody, failed, or waiting."""
        return self._call.answer if self._ended else None

    @property
    def overran(self) -> bool:
        """Whether the hook took longer than its timeout without ever suspending."""
        return self._ended and self._call.overran

    def _stamped(self) -> tuple[float, str]:
        if not hasattr(self, "_stamp"):
            call = self._call
            moment = wall(call.ended if self._ended else call.started)
            object.__setattr__(self, "_stamp", (moment, uuid7(moment)))
        return self._stamp

    def _kept(self, value: Any) -> Any:
        if not self._ended or value is UNSET or self._scope.history == "off":
            return None
        return digest(value) if self._scope.history == "digest" else value

    def wire(self) -> dict[str, Any]:
        """Give the record as JSON data, with the names that event consumers know."""
        bound = self._call.bound
        told: dict[str, Any] = {
            "record_id": self.record_id,
            "event_type": str(self.kind),
            "kind": str(self.kind),
            "time": self.time,
            "timestamp": iso_time(self.time),
            "point": str(self.point),
            "hook": self.hook,
            "source": self.source,
            "lane": str(self.lane),
            "mode": self.mode,
            "shadow": self.shadow,
            "hook_type": bound.declared,
            "target_type": bound.spec.target_type,
            "target_name": bound.spec.target_name,
            "on_error_behavior": bound.on_error(self.failure or "error"),
            "attempt": self.attempt,
            **self.ids,
        }
        if self._ended:
            told |= self._wire_ending()
        return told

    def _wire_ending(self) -> dict[str, Any]:
        told: dict[str, Any] = {"duration_ms": self.duration_ms}
        if self.decision is not None:
            told |= {"decision": str(self.decision), "action": str(self.decision)}
        if self.failure is not None:
            told |= {"failure": self.failure, "error": self.error}
        if self.reason:
            told["reason"] = self.reason
        if self.kind is RecordKind.BLOCKED:
            told["block_reason"] = self.reason
        if self.injected:
            told["injected"] = self.injected
        if self.answer:
            told["answer"] = self.answer
        if self.overran:
            told["overran"] = True
        if self.redacted:
            told["redacted"] = True
        elif self.changed and self._scope.history != "off":
            told |= {"before": plain(self.before), "after": plain(self.after)}
        return told


def start_at(trace: Trace, at: int) -> HookRecord:
    """Make the record of a hook's start."""
    draft = RecordDraft()
    draft._trace = trace
    draft._at = at
    draft.__class__ = HookRecord
    return draft  # type: ignore[return-value]


def iso_time(seconds: float) -> str:
    """Return a time as ISO 8601, in UTC and to the millisecond."""
    millis = round(seconds * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03}Z"


def uuid7(seconds: float | None = None) -> str:
    """Make an id that sorts by time."""
    millis = int((time.time() if seconds is None else seconds) * 1000)
    number = (millis << 80) | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | (0x7 << 76)
    number = number & ~(0x3 << 62) | (0x2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
