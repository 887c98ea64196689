"""A cancellation at any moment: it surfaces, and every record has its ending."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from checkrail.engine.outcomes import Block
from checkrail.engine.registry import HookRegistry

quick = settings(max_examples=200, derandomize=True, deadline=None)


class Raise(Exception):
    """What a hook may raise in the place of its cancellation."""


async def lets_it_through(error):
    raise error


async def swallows_it(error):
    return Block("late")


async def raises_another(error):
    raise Raise from None


async def goes_on_waiting(error):
    await asyncio.sleep(0)


class Play:
    """Some hooks in one dispatch, which is cancelled from outside at the n-th suspension."""

    def __init__(self, hooks, at):
        self.told, self.started = [], []
        self.waits, self.at = 0, at
        self.registry = HookRegistry(self.told.append)
        for number, (lane, suspensions, ending) in enumerate(hooks):
            fn = self.hook(number, suspensions, ending)
            self.registry.register(fn, "on_result", name=f"h{number}", lane=lane)

    def hook(self, number, suspensions, ending):
        async def hook(event):
            self.started.append(f"h{number}")
            try:
                for _ in range(suspensions):
                    await self.wait()
            except asyncio.CancelledError as error:
                return await ending(error)
            return None

        return hook

    async def wait(self):
        self.waits += 1
        if self.waits == self.at:
            asyncio.get_running_loop().call_soon(self.task.cancel)
        await asyncio.sleep(0)

    async def run(self):
        self.task = asyncio.create_task(self.registry.fire("on_result", {}))
        await asyncio.wait([self.task])


hooks = st.tuples(
    st.sampled_from(["transform", "gate", "observe"]),
    st.integers(0, 3),
    st.sampled_from([lets_it_through, swallows_it, raises_another, goes_on_waiting]),
)


@quick
@given(hooks=st.lists(hooks, min_size=1, max_size=6), at=st.integers(1, 12))
def test_it_surfaces_with_all_records_ended_and_nothing_started_after(hooks, at):
    play = Play(hooks, at)
    asyncio.run(play.run())
    assert play.task.cancelled() == (play.waits >= at)
    starts, ends = play.told[::2], play.told[1::2]
    assert {str(record.kind) for record in starts} == {"hook_start"}
    assert [record.hook for record in starts] == play.started
    assert [record.hook for record in ends] == play.started
    expected = [None] * len(ends)
    if play.task.cancelled():
        expected[-1] = "cancelled"
    assert [record.failure for record in ends] == expected
