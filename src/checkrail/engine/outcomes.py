"""What a hook can say. Returning nothing means: go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Literal

from checkrail.engine.points import Decision


class Unset(Enum):
    """Tells "no value was given" from "the value is None"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

Message = Mapping[str, Any]


class Outcome:
    """The base of all decisions."""

    __slots__ = ()
    decision: ClassVar[Decision]


@dataclass(frozen=True, slots=True)
class Continue(Outcome):
    """Go on, with the value as it is or changed.

    `last` ends the rest of the lane at this hook's level; `inject` adds messages to the
    conversation; `redacted` means that nothing may keep the earlier form of the value.
    """

    decision = Decision.CONTINUE
    value: Any = UNSET
    last: bool = False
    inject: Sequence[Message] = ()
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Block(Outcome):
    """Refuse, with a reason, an HTTP status and perhaps a machine-readable code."""

    decision = Decision.BLOCK
    reason: str = ""
    status: int = 403
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Ask(Outcome):
    """Hold until a person approves or denies.

    `timeout` is how long to wait for an answer; `on_deny` and `on_timeout` say what a refusal
    and a silence mean.
    """

    decision = Decision.ASK
    reason: str = ""
    timeout: float | None = None
    on_deny: Literal["block", "fail", "continue"] = "block"
    on_timeout: Literal["block", "fail", "continue"] = "block"


@dataclass(frozen=True, slots=True)
class Retry(Outcome):
    """Ask the model again, with this feedback added to the conversation."""

    decision = Decision.RETRY
    reason: str = ""
    inject: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Replace(Outcome):
    """Do not perform the step; this value stands for its result."""

    decision = Decision.REPLACE
    value: Any = UNSET
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop(Outcome):
    """End the loop now, successfully, with this value."""

    decision = Decision.STOP
    value: Any = UNSET
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail(Outcome):
    """End the work now as an error."""

    decision = Decision.FAIL
    reason: str = ""
    code: str | None = None
    status: int = 500


class Reject(Exception):
    """Raise it anywhere in a hook: the same as returning `Block`."""

    def __init__(self, reason: str = "", status: int = 403, code: str | None = None) -> None:
        self.reason = reason
        self.status = status
        self.code = code
        super().__init__(reason)


class RejectRun(Reject):
    """`Reject` as run hooks say it."""

    def __init__(self, message: str = "Run rejected by hook", status_code: int = 429) -> None:
        self.message = message
        self.status_code = status_code
        super().__init__(message, status_code)
