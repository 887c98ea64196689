"""Timeouts for hooks that suspend.

A dispatch is driven by hand for its first step. Only when a hook in it suspends is there
anything that a timer could interrupt: from then on `drive` relays between the dispatch and the
event loop, and one timer, armed when needed, watches whichever hook is being waited for.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkrail.engine.dispatch import Dispatch

GRACE = 1.0
"""How long a hook that was cancelled for its timeout may take to clean up."""

Walk = Coroutine[Any, None, None]


class Watch:
    """The timer over one suspended dispatch."""

    __slots__ = ("abandoning", "baseline", "d", "late", "t0", "task", "timer")

    def __init__(self, d: Dispatch) -> None:
        task = asyncio.current_task()
        if task is None:
            message = "a hook suspended outside of an asyncio task: fire points from within one"
            raise RuntimeError(message)
        self.d = d
        self.task: asyncio.Task[Any] = task
        self.baseline = task.cancelling()
        self.timer: asyncio.TimerHandle | None = None
        self.t0 = -1.0
        self.late = 0
        self.abandoning = False

    def suspended(self) -> None:
        """See to it that the hook that is being waited for is under its timeout."""
        d = self.d
        bound = d.bound
        if bound is None:
            return
        if d.sent is not None and not d.quiet:
            d.announce(bound, d.t0)
        if d.t0 != self.t0:
            self.t0 = d.t0
            self._arm(d.t0 + bound.spec.timeout)

    def _arm(self, due: float) -> None:
        if due == float("inf"):
            return
        loop = self.task.get_loop()
        when = loop.time() + due - perf_counter()
        if self.timer is not None:
            if self.timer.when() <= when:
                return
            self.timer.cancel()
        self.timer = loop.call_at(when, self._due)

    def _due(self) -> None:
        self.timer = None
        bound = self.d.bound
        if bound is None:
            return
        if self.late:
            self.abandoning = True
        elif (due := self.d.t0 + bound.spec.timeout) > perf_counter():
            self._arm(due)
            return
        else:
            self._arm(perf_counter() + GRACE)
        self.late += 1
        self.task.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether somebody else asked for this task's cancellation."""
        return self.task.cancelling() - self.late > self.baseline

    @property
    def interrupted(self) -> bool:
        """Whether the hook being waited for is to end."""
        return self.late > 0 or self.cancelled

    def release(self) -> tuple[bool, bool]:
        """Say, now that a hook has ended, whether it was late, and whether it was cancelled."""
        late = self.late > 0
        if late:
            self.disarm()
        while self.late:
            self.late -= 1
            self.task.uncancel()
        return late, self.cancelled

    def disarm(self) -> None:
        """Take the timer away."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@types.coroutine
def drive(
    walk: Walk,
    pending: Any,
    d: Dispatch,
    abandon: Callable[[Dispatch, Walk, Any], Walk],
) -> Generator[Any, None, Walk | None]:
    """Relay a suspended dispatch to the event loop until it is over.

    A hook that outlives its timeout and then its grace is abandoned: it is left to a task of its
    own, and what is given back is the walk that goes on without it.
    """
    watch = d.watch
    if watch is None:
        watch = d.watch = Watch(d)
    try:
        while True:
            watch.suspended()
            thrown: BaseException | None = None
            try:
                yield pending
            except GeneratorExit:
                walk.close()
                raise
            except BaseException as error:  # noqa: BLE001 - relayed, whatever it is
                if watch.abandoning:
                    watch.abandoning = False
                    return abandon(d, walk, pending)
                thrown = error
            try:
                pending = walk.send(None) if thrown is None else walk.throw(thrown)
            except StopIteration:
                return None
    finally:
        watch.disarm()


@types.coroutine
def leave(walk: Walk, pending: Any) -> Generator[Any, None, None]:
    """Let an abandoned walk come to its end, in another task than it began in."""
    while True:
        if getattr(pending, "_asyncio_future_blocking", None) is False:
            pending._asyncio_future_blocking = True
        try:
            yield pending
            pending = walk.send(None)
        except StopIteration:
            return
        except GeneratorExit:
            walk.close()
            raise
        except BaseException as error:  # noqa: BLE001 - relayed, whatever it is
            try:
                pending = walk.throw(error)
            except StopIteration:
                return

