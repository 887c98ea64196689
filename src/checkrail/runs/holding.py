"""Events that have to wait: what the last step of a graph tells, while hooks may still rule on it.

Nobody knows that a step was the last one until nothing follows. So the events of a step are let
out when the next one begins, and those of the last are settled with the verdict on the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkrail.engine.points import Lane
from checkrail.engine.scope import Scope

Emit = Callable[[str, tuple[str, ...], Any], None]


def rules_on_result(scope: Scope) -> bool:
    """Say whether a hook may change or refuse the result of a run."""
    chain = scope.chain("on_result")
    return chain is not None and any(
        not entry[0].shadow
        for lane, entries in chain.lanes
        if lane is not Lane.OBSERVE
        for entry in entries
    )


class Held:
    """Holds the events of the step that may be the last."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._step: list[tuple[str, tuple[str, ...], Any]] = []
        self._complete = False

    def emit(self, event: str, ns: tuple[str, ...], data: Any) -> None:
        """Take an event; those of the step before are let out, for it was not the last."""
        if self._complete:
            self.release()
        self._step.append((event, ns, data))
        self._complete = event == "values" and not ns

    def release(self) -> None:
        """Let out what is held, as it is."""
        step, self._step, self._complete = self._step, [], False
        for item in step:
            self._emit(*item)

    def replace(self, values: Any) -> None:
        """Drop what is held, and tell the values that took its place."""
        told = any(event == "values" and not ns for event, ns, _ in self._step)
        self.drop()
        if told:
            self._emit("values", (), values)

    def drop(self) -> None:
        """Drop what is held: it was refused."""
        self._step.clear()
        self._complete = False
