"""What comes out of a point: the decision over all its hooks, and the story of how it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from checkrail.engine.dispatch import Dispatch
from checkrail.engine.frozen import FrozenError
from checkrail.engine.outcomes import UNSET
from checkrail.engine.points import Decision
from checkrail.engine.records import Call

if TYPE_CHECKING:
    from checkrail.engine.outcomes import Outcome
    from checkrail.engine.records import HookRecord

DROPS_INJECTED = frozenset({Decision.BLOCK, Decision.FAIL, Decision.STOP})


class Verdict:
    """The decision at one point, read from the dispatch that made it.

    `value` is what the work goes on with: the value as the hooks left it, or what a `replace`
    or `stop` brought.
    """

    __slots__ = ()

    value: Any
    _d: Dispatch | None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"a verdict is frozen: {name!r} cannot be set"
        raise FrozenError(message)

    def __delattr__(self, name: str) -> NoReturn:
        message = f"a verdict is frozen: {name!r} cannot be deleted"
        raise FrozenError(message)

    def __repr__(self) -> str:
        by = f" by {self.hook}" if self.hook else ""
        why = f": {self.reason}" if self.reason else ""
        return f"<Verdict {self.decision}{by}{why}>"

    @property
    def _outcome(self) -> Outcome | None:
        ruling = None if self._d is None else self._d.ruling
        return None if ruling is None else ruling.outcome

    @property
    def decision(self) -> Decision:
        """What was decided."""
        outcome = self._outcome
        return Decision.CONTINUE if outcome is None else outcome.decision

    @property
    def reason(self) -> str:
        """Why; empty for `continue`."""
        return getattr(self._outcome, "reason", "")

    @property
    def status(self) -> int | None:
        """The HTTP status of a `block` or `fail`."""
        return getattr(self._outcome, "status", None)

    @property
    def code(self) -> str | None:
        """The machine-readable code of a `block` or `fail`."""
        return getattr(self._outcome, "code", None)

    @property
    def retry_after(self) -> float | None:
        """In how many seconds a `block` says that it is worth asking again."""
        return getattr(self._outcome, "retry_after", None)

    @property
    def hook(self) -> str | None:
        """The name of the hook that decided; None for `continue`."""
        ruling = None if self._d is None else self._d.ruling
        decided = None if ruling is None else ruling.decided
        return None if decided is None else decided.by.spec.name

    @property
    def inject(self) -> Sequence[Mapping[str, Any]]:
        """Messages for the conversation."""
        ruling = None if self._d is None else self._d.ruling
        return () if ruling is None or self.decision in DROPS_INJECTED else ruling.inject

    @property
    def subject(self) -> Any:
        """The value at the point as the hooks left it, whatever a `replace` or `stop` brought."""
        d = self._d
        if d is None:
            return self.value
        return d.value if d.ruling is None or d.ruling.subject is UNSET else d.ruling.subject

    @property
    def given(self) -> Any:
        """The value that was given to the point, or what a redaction left of it."""
        return self.value if self._d is None else self._d.original

    @property
    def redacted(self) -> bool:
        """Whether a hook redacted the value: nobody may keep the earlier form of it."""
        trace = () if self._d is None else self._d.trace
        return any(type(call) is Call and call.redacted and not call.bound.shadow for call in trace)

    @property
    def records(self) -> tuple[HookRecord, ...]:
        """Every hook call of the dispatch: its start, and its ending."""
        d = self._d
        if d is None:
            return ()
        if d.sent is None:
            object.__setattr__(d, "sent", [])
        if not d.scope.sinks:
            d.flush()
        return tuple(d.sent or ())


class FinalVerdict(Verdict, Dispatch):
    """The verdict in the end: the dispatch itself, which does not change any more."""

    __slots__ = ()

    @property
    def _d(self) -> Dispatch:  # type: ignore[override]
        return self


class VerdictDraft:
    """A verdict beside its dispatch, while it is being made."""

    __slots__ = ("_d", "value")

    value: Any
    _d: Dispatch | None


class PlainVerdict(Verdict, VerdictDraft):
    """A verdict beside its dispatch, which has not come to its end, or was not needed."""

    __slots__ = ()


def verdict_so_far(d: Dispatch) -> Verdict:
    """Give the verdict over what the hooks of a dispatch have said so far."""
    draft = VerdictDraft()
    draft.value = d.value if d.ruling is None else d.ruling.result(d.value)
    draft._d = d
    draft.__class__ = PlainVerdict
    return draft  # type: ignore[return-value]
