"""What a hook cancels within itself stays within it."""

import asyncio

import pytest

from checkrail.engine.outcomes import Continue
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


async def times_out_inside(event):
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        return Continue("inner timeout")


async def group_fails_inside(event):
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("child")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(asyncio.sleep(10))
    except* ValueError:
        pass
    return Continue("inner group")


async def group_fails_in_its_body(event):
    async def fails():
        raise ValueError("child")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.sleep(10)
    except* ValueError:
        pass
    return Continue("inner group body")


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
@pytest.mark.parametrize("fn", [times_out_inside, group_fails_inside, group_fails_in_its_body])
async def test_what_a_hook_cancels_within_itself_stays_within_it(lane, fn):
    registry, seen = HookRegistry(), []

    async def hook(event):
        answer = await fn(event)
        return answer if lane == "transform" else None

    async def next_one(event):
        await asyncio.sleep(0)
        seen.append("next")

    registry.register(hook, POINT, name="h", lane=lane)
    registry.register(next_one, POINT, name="next", lane=lane)
    verdict = await registry.fire(POINT, {})
    assert [record.failure for record in verdict.records] == [None] * 4
    assert seen == ["next"]
