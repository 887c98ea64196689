"""The dispatch: how the hooks of one point are called, lane by lane, and what comes of it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Collection, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from checkrail.engine import timeouts
from checkrail.engine.apply_outcome import Step, apply_answer, apply_error, timeout_reason
from checkrail.engine.asks import settle_asks
from checkrail.engine.dispatch_state import HOOKS_AT_WORK, Dispatch
from checkrail.engine.event import NO_CONFIG, DetailedEvent
from checkrail.engine.outcomes import Block, Fail
from checkrail.engine.points import Lane
from checkrail.engine.timeouts import HookTimer, note_overrun, relay
from checkrail.engine.verdict import DispatchVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from checkrail.engine.chain import BoundHook, Chain
    from checkrail.engine.scope import Scope

MAX_DEPTH = 8

TRANSFORM = Lane.TRANSFORM


async def fire(
    scope: Scope,
    point: str,
    value: Any,
    *,
    lanes: Collection[Lane] | None = None,
    after: Verdict | None = None,
    **context: Any,
) -> Verdict:
    """Call the hooks at a point, and return the verdict.

    With `lanes`, those of some lanes only; `after` is what the transform lane said before.
    """
    only = scope.only_level  # the usual case, and the quicker way
    chain = scope.chain(point) if only is None else only.plan[point]
    if chain is None:
        if context:
            scope.context.bind(context)  # a mistake in it is one now, and not when a hook comes
        return Verdict(value)
    if context:
        scope = scope.bind(**context)
    return await run_dispatch(open_dispatch(scope, chain, value, lanes, after))


async def fire_detached(
    scope: Scope,
    point: str,
    value: Any,
    *,
    lanes: Collection[Lane] | None = None,
    **context: Any,
) -> Verdict:
    """Call the hooks at a point in a task of its own: so do all who fire outside of a run.

    A hook that has not ended in a grace after its timeout is not waited for any longer: it is
    recorded, and unless it only observes the verdict is a block with status 504.
    """
    chain = scope.chain(point)
    if chain is None:
        return await fire(scope, point, value, **context)
    if context:
        scope = scope.bind(**context)
    return await run_detached(open_dispatch(scope, chain, value, lanes))


def open_dispatch(
    scope: Scope,
    chain: Chain,
    value: Any,
    lanes: Collection[Lane] | None = None,
    after: Verdict | None = None,
) -> Dispatch:
    """Make a dispatch ready to be run: with its value admitted, and without the hooks at work."""
    if type(value) is not chain.exact:
        value = chain.contract.admit(value)
    if lanes is not None:
        chain = chain.in_lanes(lanes)
    outer = HOOKS_AT_WORK.get()
    whole = chain
    if outer:
        at_work = {bound.identity for bound in outer}
        chain = chain.narrow(lambda bound: bound.identity not in at_work)
    dispatch = Dispatch(scope, chain, value, outer)
    if lanes is not None or chain is not whole or scope.excluded:
        dispatch.is_partial = True
    earlier = None if after is None else after._ruling
    if earlier is not None:
        dispatch.rule().transform = earlier.transform
    if len(outer) > MAX_DEPTH:
        depth = f"hooks within hooks, {len(outer)} deep at {chain.point}"
        dispatch.rule().engine = Fail(f"{depth}: {MAX_DEPTH} is the limit", "hook_depth")
        dispatch.chain = chain.in_lanes(())
    return dispatch


async def run_dispatch(dispatch: Dispatch) -> Verdict:
    """Run a dispatch to its end. As long as no hook suspends, the event loop has no part in it."""
    token = HOOKS_AT_WORK.set(dispatch.outer)
    steps = run_lanes(dispatch)
    try:
        pending = steps.send(None)
        timer = dispatch.timer = HookTimer(dispatch)
        await relay(timer, steps, pending)
    except StopIteration:
        pass
    finally:
        try:  # noqa: SIM105 - a context manager costs more than the rest of this
            HOOKS_AT_WORK.reset(token)
        except ValueError:
            pass  # closed from another context, which never had this
        dispatch.flush()
        del dispatch.event  # which refers back to the dispatch
    if dispatch.new_messages is not None:
        dispatch.new_messages.remember()
    return DispatchVerdict(dispatch)


async def run_lanes(dispatch: Dispatch) -> None:
    """Run the lanes one after the other, and once more behind what a person has approved."""
    lanes = dispatch.chain.lanes
    while lanes:
        for lane, hooks in lanes:
            if lane is TRANSFORM or enter_lane(dispatch, lane):
                await run_hooks(dispatch, hooks)
        ruling = dispatch.ruling
        lanes = await settle_asks(dispatch) if ruling is not None and ruling.asks else ()


def enter_lane(dispatch: Dispatch, lane: Lane) -> bool:
    """Make a dispatch ready for its next lane, or return that the lane has nothing to do."""
    ruling = dispatch.ruling
    if lane is Lane.GATE:
        if ruling is not None and not ruling.open_gates(dispatch.value):
            return False
        if not dispatch.has_asks:
            dispatch.flush()
        return True
    if dispatch.has_asks:
        return False
    dispatch.flush()
    verdict = dispatch.event.verdict or DispatchVerdict(dispatch)
    dispatch.event = DetailedEvent(dispatch, dispatch.value, NO_CONFIG, verdict)
    for bound in dispatch.chain.background:
        start_background(dispatch, bound)
    return True


async def run_hooks(dispatch: Dispatch, hooks: Sequence[BoundHook]) -> None:  # noqa: C901, PLR0912
    """Call hooks one after the other; what one says is applied before the next one is called."""
    dispatch.lane_hooks, dispatch.ended_levels = hooks, ()
    event, value, outer = dispatch.event, dispatch.value, dispatch.outer
    now = perf_counter()
    for bound in hooks:
        if dispatch.ended_levels and bound.level in dispatch.ended_levels:
            continue
        HOOKS_AT_WORK.set((*outer, bound) if outer else bound.alone)
        dispatch.bound, dispatch.started, dispatch.call = bound, now, None
        try:
            if bound.condition is not None:
                met = bound.condition(event)
                if met is not True:
                    if hasattr(met, "__await__"):
                        met = await await_condition(dispatch, met)
                    if not met:
                        now = perf_counter()
                        continue
            answer = bound.fn(event, value) if bound.takes_value else bound.fn(event)
            if answer is not None and hasattr(answer, "__await__"):
                answer = await answer
        except BaseException as error:  # noqa: BLE001 - applied, whatever it is
            now = perf_counter()
            step = apply_error(dispatch, dispatch.end_call(now), error)
        else:
            now = perf_counter()
            if now - dispatch.started >= bound.spec.timeout:
                note_overrun(dispatch, now)
            if answer is None and dispatch.call is None:
                dispatch.calls.append((bound, dispatch.started, now))
                continue
            step = apply_answer(dispatch, dispatch.end_call(now), answer)
        if step is Step.END_LANE:
            return
        if step is Step.END_LEVEL:
            dispatch.ended_levels = (*dispatch.ended_levels, bound.level)
        event, value = dispatch.event, dispatch.value


async def await_condition(dispatch: Dispatch, condition: Awaitable[Any]) -> Any:
    """Await a condition. Until it holds there is no call, and so nothing to record."""
    dispatch.in_condition = True
    try:
        met = await condition
    finally:
        dispatch.in_condition = False
    if dispatch.timer is not None:
        dispatch.timer.raise_if_interrupted()
    return met


def start_background(dispatch: Dispatch, bound: BoundHook) -> None:
    """Call a background observer in a dispatch and a task of its own."""
    chain = replace(dispatch.chain, lanes=((Lane.OBSERVE, (bound,)),), background=())
    own = Dispatch(dispatch.scope, chain, dispatch.value, dispatch.outer)
    own.original = dispatch.original
    own.event = DetailedEvent(own, own.value, NO_CONFIG, dispatch.event.verdict)
    bound.level.spawn(run_detached(own))


async def run_detached(dispatch: Dispatch) -> Verdict:
    """Run a dispatch in a task of its own, and leave it there if a hook in it will not end."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(run_dispatch(dispatch))
    while not task.done():
        overdue = dispatch.overdue = loop.create_future()
        try:
            await asyncio.wait({task, overdue}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            dispatch.scope.outermost.keep_task(task)
            await asyncio.wait({task}, timeout=timeouts.GRACE)
            raise
        finally:
            overdue.cancel()
        if not task.done() and dispatch.timer is not None and dispatch.timer.is_overdue:
            task.cancel()  # so that it ends when the hook does
            dispatch.scope.outermost.keep_task(task)
            return leave_dispatch(dispatch)
    return task.result()


def leave_dispatch(dispatch: Dispatch) -> Verdict:
    """Record that the hook under way will not end, and return the verdict without it."""
    left = copy.copy(dispatch)
    left.calls, left.records = [*dispatch.calls], [*dispatch.records]
    left.ruling = copy.copy(dispatch.ruling)
    dispatch.sinks = ()  # nobody is told what comes of it in the end
    call: Any = copy.copy(dispatch.call)
    left.call, bound = call, call.bound
    left.forget_uncertain_values(bound)
    call.failure = "timeout"
    call.error = f"{timeout_reason(call)}, and has not ended since"
    left.end_call(perf_counter())
    if bound.lane is not Lane.OBSERVE and bound.contract.block:
        left.rule().decide(bound, Block(timeout_reason(call), 504, "hook_timeout"))
    left.flush()
    return DispatchVerdict(left)
