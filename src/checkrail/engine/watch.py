"""Timeouts for hooks that suspend.

A dispatch is driven by hand for its first step. Only when a hook in it suspends is there
anything that a timer could interrupt: from then on `drive` relays between the dispatch and the
event loop, and a watchdog that all dispatches of a registry share keeps an eye on whichever hook
is being waited for.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine.quirks import group_at, rehome

if TYPE_CHECKING:
    from checkrail.engine.dispatch import Dispatch

GRACE = 1.0
"""How long a hook that was cancelled for its timeout may take to clean up."""

NEVER = float("inf")

OVER: Any = object()
"""What a walker says when it is done with a dispatch."""

Walker = Generator[Any, Any, None]
"""Calls the hooks of a dispatch that is sent to it; see `chain.walk`."""


class Watchdog:
    """One timer for all suspended dispatches of a registry in one event loop."""

    __slots__ = ("due", "loop", "timer", "watches")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.watches: dict[Watch, None] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.due = NEVER

    def wake_by(self, due: float) -> None:
        """See to it that the timer rings no later than this."""
        if due < self.due:
            if self.timer is not None:
                self.timer.cancel()
            self.due = due
            self.timer = self.loop.call_later(due - perf_counter(), self._ring)

    def _ring(self) -> None:
        self.timer, self.due = None, NEVER
        now = perf_counter()
        for watch in list(self.watches):
            if watch.due <= now:
                watch.ring(now)
        self.wake_by(min((watch.due for watch in self.watches), default=NEVER))


class Watch:
    """What the watchdog knows of one suspended dispatch."""

    __slots__ = ("abandoning", "baseline", "dog", "due", "group", "late", "task")

    def __init__(self, dogs: dict[asyncio.AbstractEventLoop, Watchdog]) -> None:
        task = asyncio.current_task()
        if task is None:
            message = "a hook suspended outside of an asyncio task: fire points from within one"
            raise RuntimeError(message)
        self.task: asyncio.Task[Any] = task
        self.dog = _watchdog(dogs, task.get_loop())
        self.baseline = task.cancelling() - getattr(task, "_must_cancel", False)
        self.due = NEVER
        self.late = 0
        self.group: asyncio.TaskGroup | None = None
        self.abandoning = False

    def follow(self, d: Dispatch, lag: float) -> None:
        """Watch what is now being waited for: a hook, or a person, who may take any time.

        `lag` is time that did not pass in the hook.
        """
        hook = d.trace[-1]
        if type(hook) is float:
            self.due = NEVER
            return
        self.due = due = d.trace[-2] + hook.spec.timeout + lag
        if due < self.dog.due:
            self.dog.wake_by(due)

    def ring(self, now: float) -> None:
        """Cancel a hook that is late; one that does not end within its grace is abandoned."""
        if self.late:
            self.abandoning = True
        self.late += 1
        self.due = now + GRACE
        self.task.cancel()

    def interrupted(self) -> bool:
        """Say whether the hook being waited for is to end: it is late, or somebody cancelled."""
        return self.late > 0 or self.task.cancelling() > self.baseline

    def raise_if_interrupted(self) -> None:
        """Let what came in while somebody was awaited take its course."""
        if self.interrupted():
            raise asyncio.CancelledError

    def release(self) -> tuple[bool, bool]:
        """Say, now that a hook has ended, whether it was late, and whether somebody cancelled.

        Our own cancellations, made for a timeout, are taken back.
        """
        late = self.late > 0
        while self.late:
            self.late -= 1
            self.task.uncancel()
        self.due = NEVER
        return late, self.task.cancelling() > self.baseline


GONE = Watch.__new__(Watch)
"""What is left when a dispatch is over: whoever was left behind by it is late for ever."""
GONE.late = 1
GONE.task = None  # type: ignore[assignment]


def _watchdog(
    dogs: dict[asyncio.AbstractEventLoop, Watchdog],
    loop: asyncio.AbstractEventLoop,
) -> Watchdog:
    dog = dogs.get(loop)
    if dog is None:
        for other in list(dogs):
            if other.is_closed():
                dogs.pop(other, None)
        dog = dogs[loop] = Watchdog(loop)
    return dog


@types.coroutine
def drive(
    walker: Walker,
    pending: Any,
    d: Dispatch,
    abandon: Callable[[Dispatch, Watch, Walker, Any], Walker],
) -> Generator[Any, None, None]:
    """Relay a suspended dispatch to the event loop until it is over.

    A hook that outlives its timeout and then its grace is abandoned: `abandon` leaves it to a
    task of its own, and gives the walker that goes on without it.
    """
    watch = d.watch = Watch(d.scope.outermost.dogs)
    watches = watch.dog.watches
    watches[watch] = None
    followed = announced = 0
    try:
        while pending is not OVER:
            lag = 0.0
            turn = len(d.trace)
            if turn != announced and d.sent is not None and not d.quiet:
                announced = turn
                lag = d.announce()
            if turn != followed:
                followed = turn
                watch.follow(d, lag)
            thrown = None
            try:
                yield pending
            except BaseException as error:  # noqa: BLE001 - relayed, whatever it is
                thrown = error  # and not in here, lest all that follows count as its consequence
            if thrown is None:
                pending = walker.send(None)
                continue
            if (group := group_at(walker)) is not None and group is not watch.group:
                watch.group = group
                watch.task.uncancel()
            if watch.abandoning:
                watch.abandoning = False
                walker = abandon(d, watch, walker, pending)
                pending = walker.send(d)
            else:
                pending = walker.throw(thrown)
    finally:
        del watches[watch]
        d.watch = GONE


async def leave(walker: Walker, pending: Any, old: asyncio.Task[Any]) -> None:
    """Let an abandoned walker come to its end, in another task than it began in."""
    rehome(walker, old, asyncio.current_task())
    await _relay(walker, pending)


@types.coroutine
def _relay(walker: Walker, pending: Any) -> Generator[Any, None, None]:
    try:
        while True:
            if getattr(pending, "_asyncio_future_blocking", None) is False:
                pending._asyncio_future_blocking = True
            try:
                yield pending
            except BaseException as error:  # noqa: BLE001 - relayed, whatever it is
                pending = walker.throw(error)
            else:
                pending = walker.send(None)
    except StopIteration:
        return
