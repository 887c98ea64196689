"""Timeouts of hooks that suspend, by asyncio's own means.

A hook that never suspends cannot be interrupted by any timer, so `fire` takes the first step of a
dispatch by hand. Only when a hook in it suspends does `relay` pass the dispatch on to the event
loop, with one timer that cancels the task for whichever hook is late.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Coroutine, Generator
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine.dispatch_state import log

if TYPE_CHECKING:
    from checkrail.engine.dispatch_state import Dispatch
    from checkrail.engine.records import Call


GRACE = 1.0
"""Seconds after which a hook that was cancelled and has not ended is cancelled again."""

LOG_EVERY = 60
"""A hook that will not end is logged when it is cancelled again, and then once in so many times."""

GROUPS_UNCANCEL = sys.version_info >= (3, 13)
"""Whether a TaskGroup takes back every cancellation that it has asked its parent for."""


class HookTimer:
    """The timer of one suspended dispatch: it cancels the task for a hook that is late."""

    def __init__(self, dispatch: Dispatch) -> None:
        task = asyncio.current_task()
        if task is None:
            message = "a hook suspended outside of an asyncio task: fire points from within one"
            raise RuntimeError(message)
        self._dispatch = dispatch
        self._task = task
        self._requests_before = task.cancelling()
        self._call: Call | None = None
        self._due = inf
        self._rings_at = inf
        self._handle: asyncio.TimerHandle | None = None
        self._groups: list[Any] = []
        self._group_requests = 0
        self.cancels = 0

    def watch_call(self) -> None:
        """Watch what is now waited for: a hook, or a person, who may take any time."""
        dispatch = self._dispatch
        call = dispatch.open_call()
        if call is None:
            self._call, self._due = None, inf
        elif call is not self._call:
            self._call = call
            lag = dispatch.announce()  # time that does not pass in the hook
            self._ring_by(call.started + call.bound.spec.timeout + lag)
        elif not call.is_announced:
            self._due += dispatch.announce()  # so far its condition was waited for

    def stop(self) -> None:
        """Ring no more."""
        if self._handle is not None:
            self._handle.cancel()

    def note_first_resume(self, error: BaseException) -> None:
        """Count a cancellation that was asked for just before the task suspended as from outside.

        It is counted from the beginning, and arrives when the task is resumed for the first time.
        """
        pending = self._requests_before > 0 and not self.is_interrupted()
        if pending and isinstance(error, asyncio.CancelledError):
            self._requests_before -= 1

    def blame_group(self, steps: Coroutine[Any, Any, None]) -> None:
        """Count a cancellation that arrives in a TaskGroup's exit as that group's, once for each.

        Before Python 3.13 a group that fails while it is being left asks its parent to be cancelled
        and does not take that back: what it leaves counted is no request from outside.
        """
        if self._unexplained_requests() > 0 and self._note_group(steps):
            self._group_requests += 1

    def clear_group(self, steps: Coroutine[Any, Any, None]) -> None:
        """Count nothing as that of a TaskGroup whose exit began with a cancellation."""
        self._note_group(steps)

    def _note_group(self, steps: Coroutine[Any, Any, None]) -> bool:
        group = _find_group_exit(steps)
        is_new = group is not None and group not in self._groups
        if is_new:
            self._groups.append(group)
        return is_new

    @property
    def is_overdue(self) -> bool:
        """Whether a hook has not ended in a grace after it was cancelled for being late."""
        return self.cancels > 1

    def is_interrupted(self) -> bool:
        """Return whether the hook being waited for is to end: it is late, or somebody cancelled."""
        return self.cancels > 0 or self._unexplained_requests() > 0

    def raise_if_interrupted(self) -> None:
        """Let what came in while somebody was awaited take its course."""
        if self.is_interrupted():
            raise asyncio.CancelledError

    def release(self, error: BaseException | None) -> tuple[int, bool]:
        """Return how often a hook that has ended was cancelled as late, and if others did so.

        Our own cancellations, made for a timeout, are taken back, and so are those of a TaskGroup,
        unless the hook ended by one: then it was somebody else's.
        """
        cancels = self.cancels
        self._due = inf
        if cancels or self._groups:
            is_others = isinstance(error, asyncio.CancelledError)
            for _ in range(cancels + (0 if is_others else self._group_requests)):
                self._task.uncancel()
            self.cancels = self._group_requests = 0
            self._groups.clear()
        return cancels, self._task.cancelling() > self._requests_before

    def _unexplained_requests(self) -> int:
        explained = self._requests_before + self.cancels + self._group_requests
        return self._task.cancelling() - explained

    def _ring_by(self, due: float) -> None:
        """Set when the hook is late; the event loop is told only of what is earlier than before."""
        self._due = due
        if due < self._rings_at:
            self.stop()
            self._rings_at = due
            self._handle = self._task.get_loop().call_later(due - perf_counter(), self._ring)

    def _ring(self) -> None:
        self._handle, self._rings_at = None, inf
        now = perf_counter()
        if self._due > now:
            self._ring_by(self._due)
            return
        self.cancels += 1
        if self.is_overdue and self._call is not None:
            self._report_overdue(self._call)
        self._ring_by(now + GRACE)
        self._task.cancel()

    def _report_overdue(self, call: Call) -> None:
        if self.cancels == 2 or self.cancels % LOG_EVERY == 0:
            log.error(
                "%s was cancelled %d times and has not ended, %.3g s after it began: "
                "it holds up its dispatch until it does",
                call.bound.where,
                self.cancels,
                perf_counter() - call.started,
            )
        overdue = self._dispatch.overdue
        if overdue is not None and not overdue.done():
            overdue.set_result(None)


def _find_group_exit(waiting: Any) -> Any:
    """Return the `__aexit__` of a TaskGroup, if that is what a coroutine waits for in the end."""
    while hasattr(waiting.cr_await, "cr_code"):
        waiting = waiting.cr_await
    return waiting if waiting.cr_code is asyncio.TaskGroup.__aexit__.__code__ else None


@types.coroutine
def relay(
    timer: HookTimer, steps: Coroutine[Any, Any, None], pending: Any
) -> Generator[Any, None, None]:
    """Pass a suspended dispatch on to the event loop, until it is over."""
    is_first = True
    try:
        while True:
            timer.watch_call()
            thrown = None
            try:
                yield pending
            except BaseException as error:  # noqa: BLE001 - passed on, whatever it is
                thrown = error  # and not in here, lest all that follows count as its consequence
            if thrown is None:
                pending = steps.send(None)
            else:
                if is_first:
                    timer.note_first_resume(thrown)
                if not GROUPS_UNCANCEL:  # pragma: no branch - depends on the version of Python
                    timer.blame_group(steps)
                pending = steps.throw(thrown)
                if not GROUPS_UNCANCEL:  # pragma: no branch - depends on the version of Python
                    timer.clear_group(steps)
            is_first = False
    except StopIteration:
        return
    finally:
        timer.stop()


LOG_SECONDS = 60.0
"""Seconds in which one hook is logged once."""


class Overruns:
    """The overruns of one hook: how many there were, and when they were logged last."""

    __slots__ = ("count", "logged_at")

    def __init__(self) -> None:
        self.count = 0
        self.logged_at = -LOG_SECONDS


def note_overrun(dispatch: Dispatch, now: float) -> None:
    """Count a hook that took longer than its timeout in one go, and log it now and then."""
    bound = dispatch.bound
    if bound is None or (dispatch.timer is not None and dispatch.timer.cancels):
        return  # it was waited for, and cancelled
    found = bound.level.overruns.setdefault(bound.spec.name, Overruns())
    found.count += 1
    if now - found.logged_at < LOG_SECONDS:
        return
    found.logged_at = now
    log.warning(
        "%s held the event loop for %.3g s, though its timeout is %g s: nothing else could go on "
        "meanwhile (%d times so far). Plain code cannot be interrupted: say thread: true to move "
        "it into a thread, or await what it waits for",
        bound.where,
        now - dispatch.started,
        bound.spec.timeout,
        found.count,
    )
