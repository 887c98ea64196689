"""The dispatch: how the hooks of one point are called."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine.asks import settle_asks
from checkrail.engine.binding import ASYNC, ASYNC_VALUE, SYNC_VALUE
from checkrail.engine.dispatch import MAX_DEPTH, Dispatch
from checkrail.engine.event import NO_CONFIG, Event, EventDraft, variant
from checkrail.engine.outcomes import Fail
from checkrail.engine.points import Lane
from checkrail.engine.settle import Step, answered, fell, rest
from checkrail.engine.watch import Walk, drive, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from checkrail.engine.binding import Entry
    from checkrail.engine.plan import Chain
    from checkrail.engine.points import HookPoint
    from checkrail.engine.scope import Scope
    from checkrail.engine.verdict import Verdict

TRANSFORM, GATE, OBSERVE = Lane.TRANSFORM, Lane.GATE, Lane.OBSERVE
GO, HOLD = Step.GO, Step.HOLD

CURRENT: ContextVar[Dispatch | None] = ContextVar("checkrail_dispatch", default=None)
"""The dispatch whose hook is at work: what it fires in turn is a hook's own work."""


def begin(scope: Scope, chain: Chain, value: Any) -> Dispatch:
    """Make the state of one firing of one point."""
    d = Dispatch()
    d.scope = scope
    d.lanes = d.plan = chain.lanes
    d.background = chain.background
    d.value = value if type(value) is chain.exact else chain.contract.admit(value)
    d.event = first_event(d, chain.contract.point)
    d.trace = []
    d.watch = None
    if scope.sinks:
        d.sent = []
    if (parent := CURRENT.get()) is not None:
        nest(d, parent)
    return d


async def perform(d: Dispatch) -> Verdict:
    """Call the hooks of a dispatch, and give the verdict."""
    CURRENT.set(d)
    try:
        walking: Walk | None = walk(d)
        while walking is not None:
            try:
                pending = walking.send(None)
            except StopIteration:
                break
            walking = await drive(walking, pending, d, abandon)
    finally:
        CURRENT.set(d.parent)
        if d.sent is not None:
            d.flush()
    return d.conclude()


def first_event(d: Dispatch, point: HookPoint) -> Event[Any]:
    """Make the event that the first hook sees."""
    event: EventDraft[Any] = EventDraft()
    event.point = point
    event.value = event.original = d.value
    event.config = NO_CONFIG
    event.context = d.scope.context
    event.verdict = None
    event._at = d.t0 = perf_counter()
    event.__class__ = Event
    return event  # type: ignore[return-value]


async def walk(d: Dispatch) -> None:
    """Call the hooks of a dispatch, lane by lane.

    A hook that just goes on without suspending is the common case and stays in this loop;
    everything else is settled elsewhere, and says how the lane goes on.
    """
    clock, trace, epoch = perf_counter, d.trace, d.epoch
    started = d.t0
    while True:
        for lane, entries in d.lanes:
            if lane is not TRANSFORM and not enter(d, lane):
                continue
            event, value = d.event, d.value
            while entries:
                d.entries = entries
                for bound, fn, condition, timeout, kind in entries:
                    d.bound = bound
                    d.t0 = started
                    try:
                        if condition is not None and (met := condition(event)) is not True:
                            if hasattr(met, "__await__"):
                                met = await quietly(d, met)
                                started = d.t0 if met else clock()
                            if not met:
                                continue
                        if kind == ASYNC_VALUE:
                            answer = await fn(event, value)
                        elif kind == ASYNC:
                            answer = await fn(event)
                        else:
                            answer = fn(event, value) if kind == SYNC_VALUE else fn(event)
                            if answer is not None and hasattr(answer, "__await__"):
                                answer = await answer
                    except BaseException as error:
                        if d.epoch != epoch:
                            return
                        ended = clock()
                        step = fell(d, bound, error, started, ended)
                    else:
                        ended = clock()
                        if answer is None and ended - started < timeout and d.watch is None:
                            trace.append((bound, started, ended))
                            started = ended
                            continue
                        if d.epoch != epoch:
                            return
                        step = answered(d, bound, answer, started, ended)
                    started = ended
                    event, value = d.event, d.value
                    if step is not GO:
                        break
                else:
                    break
                if step is HOLD:
                    d.held = rest(entries, bound, GO)
                entries = rest(entries, bound, step)
        if not d.asks:
            break
        await settle_asks(d)
        started = clock()
    d.bound = None


async def quietly(d: Dispatch, asking: Awaitable[Any]) -> Any:
    """Await a condition. Until it holds there is no call, and so nothing to record."""
    d.quiet = True
    try:
        met = await asking
    finally:
        d.quiet = False
    if not met and d.watch is not None and d.watch.interrupted:
        raise asyncio.CancelledError
    return met


def enter(d: Dispatch, lane: Lane | None) -> bool:
    """Make a dispatch ready for its next lane, or say that the lane has nothing to do."""
    if lane is OBSERVE:
        if d.asks:
            return False
        d.flush()
        d.event = variant(d.event, verdict=d.conclude())
        for entry in d.background:
            d.scope.hold(alone(d, entry))
    elif lane is GATE:
        if d.refused or d.gated is d.value:
            return False
        d.gated = d.value
        if not d.asks:
            d.flush()
    return True


async def alone(d: Dispatch, entry: Entry) -> None:
    """Call one background observer, in a task of its own."""
    own = Dispatch()
    own.scope, own.event, own.value = d.scope, d.event, d.value
    own.lanes = own.plan = ((None, (entry,)),)
    own.background = ()
    own.parent, own.depth = d.parent, d.depth
    own.trace, own.watch, own.t0 = [], None, perf_counter()
    own.sent = None if d.sent is None else []
    await perform(own)


async def left(walking: Walk, pending: Any) -> None:
    """See an abandoned hook to its end."""
    await leave(walking, pending)


def nest(d: Dispatch, parent: Dispatch) -> None:
    """Place a dispatch under the hook whose work fired it: that hook is not called again."""
    d.parent, d.depth = parent, parent.depth + 1
    if d.depth > MAX_DEPTH:
        reason = f"hooks within hooks, {d.depth} deep at {d.event.point}: {MAX_DEPTH} is the limit"
        d.outcome = Fail(reason, "hook_depth")
        d.lanes, d.background = (), ()
        return
    at_work = set()
    outer: Dispatch | None = parent
    while outer is not None:
        if outer.bound is not None:
            at_work.add(outer.bound.identity)
        outer = outer.parent
    lanes = ((lane, others(entries, at_work)) for lane, entries in d.plan)
    d.lanes = d.plan = tuple(lanes)
    d.background = others(d.background, at_work)


def others(entries: tuple[Entry, ...], at_work: set[Any]) -> tuple[Entry, ...]:
    """Leave out the hooks that are at work already."""
    return tuple(entry for entry in entries if entry[0].identity not in at_work)


def abandon(d: Dispatch, walking: Walk, pending: Any) -> Walk:
    """Leave a hook that will not end to a task of its own, and go on without it."""
    bound = d.bound
    assert bound is not None  # noqa: S101 - only a hook can be late
    d.epoch += 1
    d.quiet = False
    d.scope.hold(left(walking, pending), abandoned=True)
    step = answered(d, bound, None, d.t0, perf_counter())
    order = (None, *Lane)
    later = [item for item in d.lanes if order.index(item[0]) > order.index(bound.lane)]
    d.lanes = ((None, rest(d.entries, bound, step)), *later)
    d.t0 = perf_counter()
    return walk(d)
