"""The dispatch: how the hooks of one point are called."""

from __future__ import annotations

import asyncio
import types
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine.asks import settle_asks
from checkrail.engine.binding import ASYNC, ASYNC_VALUE, SYNC_VALUE
from checkrail.engine.dispatch import NOT_NESTED, Dispatch, Mark, Nesting, Ruling
from checkrail.engine.event import NOTHING_MORE, Event, EventDraft, variant
from checkrail.engine.outcomes import Fail
from checkrail.engine.overruns import note_overruns
from checkrail.engine.points import Lane
from checkrail.engine.settle import Step, answered, fell, rest
from checkrail.engine.verdict import (
    FinalVerdict,
    PlainVerdict,
    Verdict,
    VerdictDraft,
    verdict_so_far,
)
from checkrail.engine.watch import OVER, Walker, drive, leave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from checkrail.engine.binding import Bound, Entry
    from checkrail.engine.scope import Scope
    from checkrail.engine.watch import Watch

TRANSFORM, GATE, OBSERVE = Lane.TRANSFORM, Lane.GATE, Lane.OBSERVE
GO, HOLD = Step.GO, Step.HOLD

MAX_DEPTH = 8

CURRENT: ContextVar[Dispatch | Mark] = ContextVar("checkrail_dispatch")
"""The dispatch whose hook is at work: what it fires in turn is a hook's own work."""


async def fire(scope: Scope, point: str, value: Any, **context: Any) -> Verdict:  # noqa: C901, PLR0912, PLR0915
    """Call the hooks at a point, and give the verdict.

    This and `walk` are the way that every event takes, so what they make is made in place.
    """
    only = scope.only
    chain = scope.chain(point) if only is None else only.plan[point]
    if chain is None:
        if context:
            scope.context.bind(context)  # a mistake in it is one now, and not when a hook comes
        verdict = VerdictDraft()
        verdict.value = value
        verdict._d = None
        verdict.__class__ = PlainVerdict
        return verdict  # type: ignore[return-value]
    if context:
        scope = scope.bind(**context)
    if type(value) is not chain.exact:
        value = chain.contract.admit(value)
    d = Dispatch()
    d.scope = scope
    d.chain = chain
    d.lanes = chain.lanes
    d.value = d.original = value
    d.sent = [] if scope.sinks else None
    d.watch = d.ruling = d.nesting = None
    d.quiet = False
    event: EventDraft[Any] = EventDraft()
    event.value = value
    event._d = d
    event._more = NOTHING_MORE
    event.__class__ = Event
    d.event = event  # type: ignore[assignment]
    if (outer := CURRENT.get(None)) is not None:
        nest(d, outer)
    d.trace = [scope, perf_counter()]
    token = CURRENT.set(d)
    try:
        idle = scope.outermost.idle
        try:
            walker = idle.pop()
        except IndexError:
            walker = new_walker()
        pending = walker.send(d)
        if pending is OVER:
            idle.append(walker)
        else:
            await drive(walker, pending, d, abandon)
    finally:
        try:  # noqa: SIM105 - a context manager costs more than the rest of this
            CURRENT.reset(token)
        except ValueError:
            pass  # closed from another context, which never had this dispatch
        if d.sent is not None:
            d.flush()
        d.event = None  # type: ignore[assignment]
    if perf_counter() - d.trace[1] >= chain.least_timeout:
        note_overruns(d.trace)
    ruling: Ruling | None = d.ruling
    if ruling is not None:
        ruling.subject = d.value
        d.value = ruling.result(d.value)
    d.__class__ = FinalVerdict
    return d  # type: ignore[return-value]


def new_walker() -> Walker:
    """Make a walker, and take it to where it waits for its first dispatch."""
    walker = walk()
    walker.send(None)
    return walker


@types.coroutine
def walk() -> Walker:  # noqa: C901, PLR0912, PLR0915 - one loop, to be read in one piece
    """Call the hooks of one dispatch after another, lane by lane.

    A hook that just goes on without suspending is the common case and stays in this loop;
    everything else is settled elsewhere, and says how the lane goes on. Making a walker costs
    more than most dispatches do, so it is used again: it says `OVER`, and waits for the next.
    """
    clock = perf_counter
    d = None
    while True:
        if d is None:
            d = yield OVER
            trace, marks = d.trace, d.chain.marks
        for lane, entries in d.lanes:
            if lane is not TRANSFORM:
                if not enter(d, lane):
                    continue
                trace.append(clock())
            event, value = d.event, d.value
            while entries:
                d.entries = entries
                for bound, fn, condition, kind in entries:
                    trace.append(bound)
                    if marks:
                        CURRENT.set(Mark(bound, d))
                    try:
                        if condition is not None and (met := condition(event)) is not True:
                            if hasattr(met, "__await__"):
                                met = yield from quietly(d, met)
                                if d.trace is not trace:
                                    return
                                d.quiet = False
                            if not met:
                                trace[-1] = clock()  # no call: only time has passed
                                continue
                        if kind == ASYNC_VALUE:
                            answer = yield from fn(event, value)
                        elif kind == ASYNC:
                            answer = yield from fn(event)
                        else:
                            answer = fn(event, value) if kind == SYNC_VALUE else fn(event)
                            if answer is not None and hasattr(answer, "__await__"):
                                answer = yield from answer.__await__()
                    except BaseException as error:  # noqa: BLE001 - settled, whatever it is
                        if d.trace is not trace:
                            return
                        step = fell(d, bound, error)
                    else:
                        if answer is None and (
                            d.watch is None or (d.trace is trace and not d.watch.interrupted())
                        ):
                            trace.append(clock())
                            continue
                        if d.trace is not trace:
                            return
                        step = answered(d, bound, answer)
                    event, value = d.event, d.value
                    if step is not GO:
                        break
                else:
                    break
                if step is HOLD:
                    d.rule().held = rest(entries, bound, GO)
                entries = rest(entries, bound, step)  # noqa: PLW2901 - what is left of it
        if d.ruling is not None and d.ruling.asks:
            yield from settle_asks(d)
            trace.append(clock())
        else:
            d = trace = event = value = answer = None


async def quietly(d: Dispatch, asking: Awaitable[Any]) -> Any:
    """Await a condition. Until it holds there is no call, and so nothing to record."""
    d.quiet = True
    met = await asking
    if d.watch is not None:
        d.watch.raise_if_interrupted()
    return met


def enter(d: Dispatch, lane: Lane | None) -> bool:
    """Make a dispatch ready for its next lane, or say that the lane has nothing to do."""
    ruling = d.ruling
    asked = ruling is not None and bool(ruling.asks)
    if lane is OBSERVE:
        if asked:
            return False
        d.flush()
        d.event = variant(d.event, verdict=verdict_so_far(d))
        for entry in d.chain.background:
            start_alone(d, entry)
    elif lane is GATE:
        if ruling is not None and not ruling.enter_gates(d.value):
            return False
        if not asked:
            d.flush()
    return True


def start_alone(d: Dispatch, entry: Entry) -> None:
    """Call a background observer in a dispatch and a task of its own."""
    own = Dispatch()
    own.scope, own.value, own.original, own.event = d.scope, d.value, d.original, d.event
    own.chain = replace(d.chain, lanes=((None, (entry,)),), background=())
    own.lanes = own.chain.lanes
    own.trace = [own.scope, perf_counter()]
    own.sent = None if d.sent is None else []
    own.watch = own.ruling = None
    own.nesting = d.nesting
    own.quiet = False
    entry[0].level.hold(alone(own))


async def alone(d: Dispatch) -> None:
    """See a background observer to its end."""
    token = CURRENT.set(d)
    try:
        walker = new_walker()
        if (pending := walker.send(d)) is not OVER:
            await drive(walker, pending, d, abandon)
    finally:
        CURRENT.reset(token)
        d.flush()
        d.event = None  # type: ignore[assignment]
    if perf_counter() - d.trace[1] >= d.chain.least_timeout:
        note_overruns(d.trace)


def nest(d: Dispatch, parent: Dispatch | Mark) -> None:
    """Place a dispatch under the hook whose work fired it: that hook is not called again."""
    outer = parent.d if isinstance(parent, Mark) else parent
    bound = parent.bound if isinstance(parent, Mark) else worker(parent)
    if bound is None:
        for level in outer.scope.levels:
            level.mark()
    around = outer.nesting or NOT_NESTED
    own = () if bound is None else (bound.identity,)
    d.nesting = depth, at_work = Nesting(around.depth + 1, around.at_work.union(own))
    if depth > MAX_DEPTH:
        reason = f"hooks within hooks, {depth} deep at {d.chain.point}: {MAX_DEPTH} is the limit"
        d.rule().engine = Fail(reason, "hook_depth")
        d.lanes = ()
        return
    lanes = tuple((lane, others(entries, at_work)) for lane, entries in d.chain.lanes)
    d.chain = replace(
        d.chain,
        lanes=lanes,
        background=others(d.chain.background, at_work),
        marks=d.chain.marks or bound is None,
    )
    d.lanes = lanes


@contextmanager
def pinned() -> Iterator[Dispatch | Mark | None]:
    """Have the tasks that are started inside remember whose work they are, if it is a hook's."""
    current = CURRENT.get(None)
    bound = worker(current) if isinstance(current, Dispatch) else None
    if bound is None or not isinstance(current, Dispatch):
        yield current
        return
    mark = Mark(bound, current)
    token = CURRENT.set(mark)
    try:
        yield mark
    finally:
        with suppress(ValueError):  # closed from another context, which never had this mark
            CURRENT.reset(token)


def hook_at_work() -> Bound | None:
    """Give the hook whose work is being done here; None: nobody's, or it cannot be told."""
    current = CURRENT.get(None)
    if current is None or isinstance(current, Mark):
        return None if current is None else current.bound
    return worker(current)


def worker(d: Dispatch) -> Bound | None:
    """Say whose work is being done here, in the context of a dispatch without marks.

    A task that was started by some hook of it, and is not awaited where the dispatch runs, could
    be anybody's if there was more than one: then nobody is named, so that no hook is left out.
    """
    hooks = d.called()
    if d.over:
        return hooks[0] if len(hooks) == 1 else None
    if d.watch is None or len(hooks) == 1 or d.watch.task is asyncio.current_task():
        return d.at_work
    return None


def others(entries: tuple[Entry, ...], at_work: frozenset[Any]) -> tuple[Entry, ...]:
    """Leave out the hooks that are at work already."""
    return tuple(entry for entry in entries if entry[0].identity not in at_work)


def abandon(d: Dispatch, watch: Watch, walker: Walker, pending: Any) -> Walker:
    """Leave a hook that will not end to a task of its own, and go on without it."""
    bound: Any = d.at_work
    bound.level.hold(leave(walker, pending, watch.task), abandoned=True)
    d.trace = [*d.trace]  # another one, by which the walker that is left behind knows that it is
    step = answered(d, bound, None)
    order = (None, *Lane)
    later = [item for item in d.lanes if order.index(item[0]) > order.index(bound.lane)]
    d.lanes = ((None, rest(d.entries, bound, step)), *later)
    return new_walker()
