"""What a hook can say. Returning nothing means: go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.points import Decision

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of the type checker: nothing has to be installed

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


REFUSED: Final = 403
"""The HTTP status of a refusal that names none."""


class Unset(Enum):
    """Tells "no value was given" from "the value is None"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET

Message = Mapping[str, Any]


class Outcome:
    """The base of all decisions."""

    __slots__ = ()
    decision: ClassVar[Decision]


class ReasonedOutcome(Outcome):
    """The base of decisions that say why."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise `InvalidOutcomeError` if it says something that no caller could be told."""
        check_outcome(self)


class RefusalOutcome(ReasonedOutcome):
    """The base of decisions that refuse, with an HTTP status."""

    __slots__ = ()


def check_outcome(outcome: Outcome) -> None:
    """Raise `InvalidOutcomeError` if a decision says something that no caller could be told."""
    if isinstance(outcome, RefusalOutcome):
        check_refusal(outcome)
    elif isinstance(outcome, ReasonedOutcome):
        check_texts(outcome)


def check_texts(outcome: object) -> None:
    """Raise `InvalidOutcomeError` if the reason or the code of a decision is no text."""
    for name in ("reason", "code"):
        given = getattr(outcome, name, "")
        if not isinstance(given, str) and not (given is None and name == "code"):
            raise InvalidOutcomeError(
                f"the {name} of {type(outcome).__name__} is {type(given).__name__}, "
                "but has to be a text: write it out, such as with str() or json.dumps()",
            )


def check_refusal(refusal: object) -> None:
    """Raise `InvalidOutcomeError` if a refusal has a status or a time that HTTP cannot say."""
    check_texts(refusal)
    kind, status = type(refusal).__name__, getattr(refusal, "status", None)
    if not (is_refusal_status(status) or (status is None and not isinstance(refusal, Fail))):
        raise InvalidOutcomeError(
            f"the status of {kind} is {status!r}, but a refusal has a whole number from 400 to 599",
        )
    after = getattr(refusal, "retry_after", None)
    if after is not None and not _is_duration(after):
        raise InvalidOutcomeError(
            f"the retry_after of {kind} is {after!r}, but has to be seconds: a number from 0 on",
        )


def is_refusal_status(given: object) -> bool:
    """Return whether HTTP takes this for the status of a refusal."""
    return isinstance(given, int) and 400 <= given <= 599


def _is_duration(given: object) -> bool:
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    return number and 0 <= given < float("inf")  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Continue(Outcome, Generic[T_co]):
    """Go on, with the value as it is or changed.

    `last` ends the rest of the lane at this hook's level; `inject` adds messages to the
    conversation; `redacted` means that nothing may keep the earlier form of the value.
    """

    decision = Decision.CONTINUE
    value: T_co | Unset = UNSET
    last: bool = False
    inject: Sequence[Message] = ()
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Block(RefusalOutcome):
    """Refuse, with a reason and perhaps an HTTP status and a machine-readable code.

    Without a status, whoever carries the refusal chooses one: 403, and before a model what its
    clients take as final. `retry_after` is in how many seconds it is worth asking again.
    """

    decision = Decision.BLOCK
    reason: str = ""
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Ask(ReasonedOutcome):
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
class Retry(ReasonedOutcome):
    """Ask the model again, with this feedback added to the conversation."""

    decision = Decision.RETRY
    reason: str = ""
    inject: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Replace(ReasonedOutcome, Generic[T_co]):
    """Do not perform the step; this value stands for its result."""

    decision = Decision.REPLACE
    value: T_co | Unset = UNSET
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop(ReasonedOutcome, Generic[T_co]):
    """End the loop now, successfully, with this value."""

    decision = Decision.STOP
    value: T_co | Unset = UNSET
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail(RefusalOutcome):
    """End the work now as an error."""

    decision = Decision.FAIL
    reason: str = ""
    code: str | None = None
    status: int = 500


class Reject(Exception):
    """Raise it anywhere in a hook: the same as returning `Block`."""

    reason: str = ""
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None

    def __init__(
        self,
        reason: str = "",
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.reason = reason
        self.status = status
        self.code = code
        self.retry_after = retry_after
        check_refusal(self)
        super().__init__(reason)

    def as_block(self) -> Block:
        """Return the decision that it stands for, checked once more: its fields can be set."""
        return Block(self.reason, self.status, self.code, self.retry_after)


class RejectRun(Reject):
    """`Reject` as run hooks say it."""

    def __init__(
        self,
        message: str = "Run rejected by hook",
        status_code: int = 429,
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status_code, retry_after=retry_after)

    @property
    def message(self) -> str:
        """Why the run is refused."""
        return self.reason

    @message.setter
    def message(self, text: str) -> None:
        self.reason = text

    @property
    def status_code(self) -> int:
        """The HTTP status of the refusal."""
        return self.status or REFUSED

    @status_code.setter
    def status_code(self, status: int) -> None:
        self.status = status
