"""What comes out of a point: the decision over all its hooks, and the story of how it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.engine.frozen import FrozenObject, set_field
from checkrail.engine.outcomes import REFUSED
from checkrail.engine.points import Decision

if TYPE_CHECKING:
    from checkrail.engine.dispatch_state import Dispatch, Ruling
    from checkrail.engine.outcomes import Outcome
    from checkrail.engine.records import HookRecord

DROPS_INJECTED = frozenset({Decision.BLOCK, Decision.FAIL, Decision.STOP})


class Verdict(FrozenObject):
    """The decision at one point: to go on, unless the dispatch beside it says more.

    `value` is what the work goes on with: the value as the hooks left it, or what a `replace`
    or `stop` brought.
    """

    __slots__ = ("value",)

    value: Any
    _dispatch: Dispatch | None = None

    def __init__(self, value: Any) -> None:
        _set_value(self, value)

    def __repr__(self) -> str:
        by = f" by {self.hook}" if self.hook else ""
        why = f": {self.reason}" if self.reason else ""
        return f"<Verdict {self.decision}{by}{why}>"

    @property
    def _ruling(self) -> Ruling | None:
        return None if self._dispatch is None else self._dispatch.ruling

    @property
    def _outcome(self) -> Outcome | None:
        ruling = self._ruling
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
        """The HTTP status of a `block` or `fail`: 403 for a block that names none."""
        if self.decision is Decision.BLOCK:
            return self.named_status or REFUSED
        return self.named_status

    @property
    def named_status(self) -> int | None:
        """The HTTP status that the hook itself named for its refusal, if it did."""
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
        strictest = None if self._ruling is None else self._ruling.strictest
        return None if strictest is None else strictest.by.spec.name

    @property
    def inject(self) -> Sequence[Mapping[str, Any]]:
        """Messages for the conversation."""
        ruling = self._ruling
        return () if ruling is None or self.decision in DROPS_INJECTED else ruling.inject

    @property
    def subject(self) -> Any:
        """The value at the point as the hooks left it, whatever a `replace` or `stop` brought."""
        return self.value if self._dispatch is None else self._dispatch.value

    @property
    def given(self) -> Any:
        """The value that was given to the point, or what a redaction left of it."""
        return self.value if self._dispatch is None else self._dispatch.original

    @property
    def redacted(self) -> bool:
        """Whether a hook redacted the value: nobody may keep the earlier form of it."""
        results = () if self._dispatch is None else self._dispatch.results()
        return any(call.redacted and not call.bound.shadow for call in results)

    @property
    def records(self) -> tuple[HookRecord, ...]:
        """Every hook call of the dispatch: its start, and its ending."""
        dispatch = self._dispatch
        if dispatch is None:
            return ()
        if not dispatch.sinks:
            dispatch.make_records()
        return tuple(dispatch.records)


_set_value = vars(Verdict)["value"].__set__
"""Sets the slot: quicker than `set_field`, and most points have no hooks and need no more."""


class DispatchVerdict(Verdict):
    """The verdict over what the hooks of a dispatch have said so far, and in the end."""

    __slots__ = ("_dispatch",)

    def __init__(self, dispatch: Dispatch) -> None:
        set_field(self, "_dispatch", dispatch)

    @property
    def value(self) -> Any:
        """What the work goes on with."""
        ruling = self._ruling
        return self.subject if ruling is None else ruling.result(self.subject)
