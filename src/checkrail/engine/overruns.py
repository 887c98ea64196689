"""Hooks that held the event loop for longer than their timeout: nobody else could go on."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from checkrail.engine.dispatch import log
from checkrail.engine.records import call_at

if TYPE_CHECKING:
    from checkrail.engine.records import Call, Trace

LOG_EVERY = 60.0
"""Seconds in which one hook is logged once."""


class Overruns:
    """The overruns of one hook: how many there were, and when they were logged last."""

    __slots__ = ("count", "logged_at")

    def __init__(self) -> None:
        self.count = 0
        self.logged_at = -LOG_EVERY


def note_overruns(trace: Trace) -> None:
    """Count the hooks of a dispatch that overran, and log each now and then."""
    for at in range(2, len(trace)):
        if type(trace[at]) is float:
            continue
        call = call_at(trace, at)
        if call.overran and call.failure is None:
            _note(call)


def _note(call: Call) -> None:
    bound = call.bound
    found = bound.level.overruns.setdefault(bound.spec.name, Overruns())
    found.count += 1
    now = perf_counter()
    if now - found.logged_at < LOG_EVERY:
        return
    found.logged_at = now
    log.warning(
        "%s held the event loop for %.3g s, though its timeout is %g s: nothing else could go on "
        "meanwhile (%d times so far). Plain code cannot be interrupted: say thread: true to move "
        "it into a thread, or await what it waits for",
        bound.where,
        call.ended - call.started,
        bound.spec.timeout,
        found.count,
    )
