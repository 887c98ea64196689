"""Events that have to wait: what the last step of a graph tells, while hooks may still rule on it.

Nobody knows that a step was the last one until nothing follows. So the events of a step are let
out when the next one begins, and those of the last are settled with the verdict on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from checkrail.engine.enforcement import has_enforcing_hooks
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.scope import Scope
from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.graphs.execution import STEP

Emit = Callable[[str, tuple[str, ...], Any], None]


def has_result_hooks(scope: Scope) -> bool:
    """Return whether a hook may change or refuse the result of a run."""
    return has_enforcing_hooks(scope, HookPoint.ON_RESULT, Lane.TRANSFORM, Lane.GATE)


class HeldEvents:
    """Holds back the events of the step that may be the last, but not more than `most`."""

    def __init__(self, emit: Emit, most: int, events: Iterable[Sequence[Any]] = ()) -> None:
        self._emit = emit
        self._most = most
        self._step: list[tuple[str, tuple[str, ...], Any]] = [
            (event, tuple(ns), data) for event, ns, data in events
        ]

    @property
    def events(self) -> list[tuple[str, tuple[str, ...], Any]]:
        """The events that are held."""
        return [*self._step]

    def emit(self, event: str, ns: tuple[str, ...], data: Any) -> None:
        """Take an event; when a step begins, the one before was not the last and is released."""
        if event == STEP:
            self.release()
            return
        if len(self._step) >= self._most:
            raise EventLimitError(
                f"the run told more than {self._most} events that have to wait for the hooks at "
                "on_result. Stream less, or raise limits.events_per_run"
            )
        self._step.append((event, ns, data))

    def release(self) -> None:
        """Emit what is held, as it is."""
        step, self._step = self._step, []
        for item in step:
            self._emit(*item)

    def drop(self) -> None:
        """Drop what is held: it was refused, or something else took its place."""
        self._step.clear()
