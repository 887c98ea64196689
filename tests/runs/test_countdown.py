"""The time that a run may take stands still while somebody is asked."""

import asyncio

from checkrail.runs.execute.countdown import Countdown


async def test_time_does_not_pass_inside_a_pause_however_many_there_are():
    over = asyncio.Event()
    countdown = Countdown(over.set)
    countdown.start(0.02)
    with countdown.pause():
        with countdown.pause():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        assert not over.is_set()
    async with asyncio.timeout(30):
        await over.wait()


async def test_what_has_ended_or_has_no_limit_is_never_over():
    over = asyncio.Event()
    ended, endless = Countdown(over.set), Countdown(over.set)
    ended.start(0.01)
    ended.finish()
    endless.start(None)
    with ended.pause(), endless.pause():
        pass
    await asyncio.sleep(0.05)
    assert not over.is_set()
