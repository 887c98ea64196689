"""A cancellation from outside always gets through."""

import asyncio
import contextvars
import time

import pytest

from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.registry import HookRegistry

POINT = "on_result"
LANES = ["transform", "gate", "observe"]

lanes = pytest.mark.parametrize("lane", LANES)


class Stage:
    """A registry with one hook to be cancelled and others after it, and what was seen of them."""

    def __init__(self, fn, lane="transform", **options):
        self.told, self.seen = [], []
        self.started = asyncio.Event()
        self.registry = HookRegistry(self.told.append)

        async def hook(event):
            self.started.set()
            return await fn(event)

        self.registry.register(hook, POINT, name="h", lane=lane, **options)
        for later in LANES[LANES.index(lane) :]:
            self.registry.register(
                lambda event: self.seen.append("later"), POINT, name=f"l-{later}", lane=later
            )

    async def cancelled(self, times=1):
        """Fire in a task and cancel it once the hook has started."""
        task = asyncio.create_task(self.registry.fire(POINT, {}))
        await self.started.wait()
        for _ in range(times):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    def check(self):
        assert self.seen == []
        assert [(record.kind, record.failure) for record in self.told] == [
            ("hook_start", None),
            ("hook_failed", "cancelled"),
        ]


async def waits(event):
    await asyncio.sleep(10)


async def swallows(event):
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return Block("not now")


async def swallows_and_goes_on(event):
    for _ in range(3):
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            continue


async def turns_it_into_another_error(event):
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        raise ValueError("oops") from None


async def has_a_timeout_inside(event):
    async with asyncio.timeout(5):
        await asyncio.sleep(10)


async def has_a_group_inside(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(10))


async def shields(event):
    await asyncio.shield(asyncio.sleep(0.05))


async def waits_for_another_dispatch(event):
    inner = HookRegistry()
    inner.register(waits, POINT)
    await inner.fire(POINT, {})


HOOKS = [
    waits,
    swallows,
    swallows_and_goes_on,
    turns_it_into_another_error,
    has_a_timeout_inside,
    has_a_group_inside,
    shields,
    waits_for_another_dispatch,
]


@lanes
@pytest.mark.parametrize("fn", HOOKS)
@pytest.mark.parametrize("mode", ["enforce", "shadow"])
async def test_it_surfaces_and_hooks_not_yet_started_do_not_run(lane, fn, mode):
    stage = Stage(fn, lane, mode=mode)
    await stage.cancelled()
    stage.check()


@lanes
async def test_it_surfaces_however_often_it_was_asked_for(lane):
    stage = Stage(swallows_and_goes_on, lane)
    await stage.cancelled(times=2)
    stage.check()


async def test_it_surfaces_from_a_hook_in_a_thread():
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    registry, told = HookRegistry(), []
    registry.sinks = (told.append,)

    def hook(event):
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

    registry.register(hook, POINT, name="h", thread=True)
    task = asyncio.create_task(registry.fire(POINT, {}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert told[-1].failure == "cancelled"


async def test_it_surfaces_from_a_condition():
    registry, seen = HookRegistry(), []

    async def condition(event):
        await asyncio.sleep(10)

    registry.register(lambda event: seen.append(1), POINT, name="h", when=condition)
    registry.register(lambda event: seen.append(2), POINT, name="next")
    task = asyncio.create_task(registry.fire(POINT, {}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == []


@pytest.mark.parametrize("answer", [True, False])
async def test_it_surfaces_if_a_condition_swallows_it(answer):
    registry, seen = HookRegistry(), []

    async def condition(event):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return answer

    registry.register(lambda event: seen.append(0), POINT, name="h", when=condition)
    registry.register(lambda event: seen.append(1), POINT, name="next")
    task = asyncio.create_task(registry.fire(POINT, {}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == []


async def test_it_surfaces_when_it_meets_a_timeout():
    async def slow(event):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)

    stage = Stage(slow, timeout=0.01)
    task = asyncio.create_task(stage.registry.fire(POINT, {}))
    await stage.started.wait()
    await asyncio.sleep(0.03)  # the hook has been cancelled for its timeout, and is still at it
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stage.check()


def blocks_the_loop():
    time.sleep(0.6)


@pytest.mark.parametrize("delay", [0.2, 0.4])
async def test_it_surfaces_when_it_comes_in_the_same_moment_as_a_timeout(delay):
    async def hook(event):
        await asyncio.sleep(0)
        loop.call_later(delay, task.cancel)
        blocks_the_loop()  # when it suspends, both are due, in one order or the other
        await asyncio.sleep(10)

    loop = asyncio.get_running_loop()
    stage = Stage(hook, timeout=0.3)
    task = asyncio.create_task(stage.registry.fire(POINT, {}))
    with pytest.raises(asyncio.CancelledError):
        await task
    stage.check()


@pytest.mark.usefixtures("short_grace")
async def test_it_surfaces_from_a_hook_that_has_to_be_cancelled_again_and_again():
    cancellations = []

    async def stubborn(event):
        while len(cancellations) < 3:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                cancellations.append(1)

    stage = Stage(stubborn, timeout=0.05)
    await stage.cancelled()
    stage.check()
    assert len(cancellations) == 3


async def test_it_surfaces_if_the_task_asked_for_it_just_before():
    stage = Stage(waits)

    async def work():
        asyncio.current_task().cancel()
        await stage.registry.fire(POINT, {})

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    stage.check()


async def test_it_surfaces_if_a_hook_asked_for_it_before_anything_suspended():
    registry, seen = HookRegistry(), []

    def cancels(event):
        asyncio.current_task().cancel()

    registry.register(cancels, POINT, name="c")
    registry.register(waits, POINT, name="h")
    registry.register(lambda event: seen.append(1), POINT, name="next")
    task = asyncio.create_task(registry.fire(POINT, {}))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == []


async def test_a_timeout_around_a_dispatch_is_a_timeout():
    stage = Stage(swallows)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await stage.registry.fire(POINT, {})
    stage.check()
    assert asyncio.current_task().cancelling() == 0


async def test_wait_for_around_a_dispatch_is_a_timeout():
    stage = Stage(waits)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stage.registry.fire(POINT, {}), 0.02)
    stage.check()


async def test_a_group_around_a_dispatch_cancels_it_when_another_task_fails():
    stage = Stage(swallows)

    async def fails():
        await stage.started.wait()
        raise ValueError("sibling")

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.registry.fire(POINT, {}))
            group.create_task(fails())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert caught.group_contains(ValueError, match="sibling")
    stage.check()


async def test_a_dispatch_in_a_task_that_was_cancelled_before_runs_normally():
    """As in a `finally` of cancelled work, where observers still have to be told."""
    registry, seen = HookRegistry(), []

    async def hook(event):
        await asyncio.sleep(0)
        seen.append(1)
        return Continue("changed")

    registry.register(hook, POINT, name="h")

    async def work():
        try:
            await asyncio.sleep(10)
        finally:
            seen.append((await registry.fire(POINT, {})).value)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [1, "changed"]


async def tidies_up():
    try:
        await asyncio.sleep(10)
    finally:
        await asyncio.sleep(0.02)


async def fails_soon():
    raise ValueError("child")


async def group_waits_for_its_children(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(tidies_up())
        group.create_task(fails_soon())


async def group_with_a_body_waits_for_its_children(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(tidies_up())
        group.create_task(fails_soon())
        await asyncio.sleep(10)


@pytest.mark.parametrize(
    "fn", [group_waits_for_its_children, group_with_a_body_waits_for_its_children]
)
async def test_it_surfaces_from_a_group_that_is_failing_already(fn):
    stage = Stage(fn)
    task = asyncio.create_task(stage.registry.fire(POINT, {}))
    await stage.started.wait()
    await asyncio.sleep(0.01)  # the group has failed, and waits for the child that tidies up
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stage.check()


async def test_closing_a_dispatch_ends_its_records():
    stage = Stage(waits)
    dispatch = stage.registry.fire(POINT, {})
    dispatch.send(None)
    dispatch.close()
    stage.check()


async def test_closing_a_dispatch_from_another_context_ends_its_records():
    stage = Stage(waits)
    dispatch = stage.registry.fire(POINT, {})
    dispatch.send(None)
    contextvars.copy_context().run(dispatch.close)
    stage.check()
