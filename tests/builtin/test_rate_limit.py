import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail import InboundMessage, ToolCall
from checkrail.builtin import BUILTINS, rate_limit
from checkrail.builtin.rate_limit import MemoryStore, limiter
from checkrail.testing import (
    RecordingRegistry,
    assert_allowed,
    assert_blocked,
    event,
    sample,
)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def limited(clock, *points, store=None, **config):
    registry = RecordingRegistry()
    hook = limiter(config, store=store, clock=clock)
    registry.register(hook, *(points or ("before_run",)), lane="gate")
    return registry


async def allowed(registry, point="before_run", value=None, **context):
    given_value = sample(point) if value is None else value
    return (await registry.fire(point, given_value, **context)).decision == "continue"


async def test_the_limit_is_let_through_and_then_no_more(clock):
    registry = limited(clock, limit=3, per=60)
    assert [await allowed(registry, user="ann") for _ in range(5)] == [True] * 3 + [False] * 2


async def test_a_refusal_says_the_limit_and_when_to_come_again(clock):
    registry = limited(clock, limit=1, per="1m")
    assert await allowed(registry, user="ann")
    clock.now += 17.5
    verdict = await registry.fire("before_run", {}, user="ann")
    assert_blocked(verdict, by="rate_limit", status=429, code="rate_limited")
    assert verdict.reason == (
        "the limit of 1 per 60 s for user 'ann' is reached: try again in 43 s"
    )


async def test_the_window_slides(clock):
    registry = limited(clock, limit=2, per=10)
    assert await allowed(registry)
    clock.now += 6
    assert await allowed(registry)
    clock.now += 3.9
    assert not await allowed(registry)
    clock.now += 0.1
    assert await allowed(registry)
    assert not await allowed(registry)
    clock.now += 6
    assert await allowed(registry)


async def test_what_was_refused_does_not_count(clock):
    registry = limited(clock, limit=1, per=10)
    assert await allowed(registry)
    for _ in range(9):
        clock.now += 1
        assert not await allowed(registry)
    clock.now += 1
    assert await allowed(registry)


async def test_users_are_counted_apart_and_those_without_a_name_together(clock):
    registry = limited(clock, limit=1)
    assert await allowed(registry, user="ann")
    assert await allowed(registry, user="bob")
    assert not await allowed(registry, user="ann")
    assert await allowed(registry)
    verdict = await registry.fire("before_run", {})
    assert_blocked(verdict, reason="the limit of 1 per 60 s is reached")


async def test_the_sender_of_a_message_is_its_user(clock):
    registry = limited(clock, "before_inbound", limit=1)
    ann, bob = (InboundMessage(name, "web", "hi") for name in ("ann", "bob"))
    assert await allowed(registry, "before_inbound", ann)
    assert await allowed(registry, "before_inbound", bob)
    assert not await allowed(registry, "before_inbound", ann)


@pytest.mark.parametrize(
    ("by", "context"),
    [
        ("agent", {"agent_name": "x"}),
        ("session", {"session_id": "x"}),
        ("model", {"model": "x"}),
        ("user", {"user": "x"}),
        ("key", {"metadata": {"api_key": "x"}}),
    ],
)
async def test_by(clock, by, context):
    registry = limited(clock, limit=1, by=[by])
    assert await allowed(registry)
    assert await allowed(registry, **context)
    assert not await allowed(registry, **context)
    assert not await allowed(registry)


async def test_by_tool(clock):
    registry = limited(clock, "before_tool_call", "before_run", limit=1, by=["tool"])
    one, other = (ToolCall("1", name, {}) for name in ("one", "other"))
    assert await allowed(registry, "before_tool_call", one)
    assert not await allowed(registry, "before_tool_call", one)
    assert await allowed(registry, "before_tool_call", other)
    assert await allowed(registry, "before_run")
    assert not await allowed(registry, "before_run", {"name": "one"})


async def test_by_several(clock):
    registry = limited(clock, limit=1, by=["user", "agent"])
    assert await allowed(registry, user="ann", agent_name="a")
    assert await allowed(registry, user="ann", agent_name="b")
    assert await allowed(registry, user="bob", agent_name="a")
    verdict = await registry.fire("before_run", {}, user="ann", agent_name="a")
    assert_blocked(verdict, reason="for user 'ann' for agent 'a'")


async def test_names_cannot_be_chosen_so_that_two_keys_are_one(clock):
    registry = limited(clock, limit=1, by=["user", "agent"])
    assert await allowed(registry, user='a", "b', agent_name="c")
    assert await allowed(registry, user="a", agent_name='b", "c')


async def test_by_nothing_is_all_together(clock):
    registry = limited(clock, limit=1, by=[])
    assert await allowed(registry, user="ann")
    assert not await allowed(registry, user="bob")


async def test_each_point_is_counted_apart(clock):
    registry = limited(clock, "before_run", "before_llm_call", limit=1)
    assert await allowed(registry, "before_run")
    assert await allowed(registry, "before_llm_call")
    assert not await allowed(registry, "before_run")
    assert not await allowed(registry, "before_llm_call")


@pytest.mark.parametrize(
    ("per", "seconds"),
    [(90, 90), (0.5, 0.5), ("90s", 90), ("1m", 60), ("1.5h", 5400), ("1h", 3600), ("1 d", 86400)],
)
def test_times(per, seconds):
    assert BUILTINS["rate_limit"].parse_options({"limit": 1, "per": per}).per == seconds


async def test_keys_whose_hits_are_past_are_forgotten():
    store = MemoryStore()
    for number in range(1000):
        assert await store.hit(f"user {number}", 1, 10.0, float(number)) == (True, 0.0)
    assert len(store) == 10


async def test_there_are_never_more_keys_than_the_store_may_hold():
    store = MemoryStore(max_keys=5)
    for number in range(50):
        await store.hit(str(number), 1, 1e9, float(number))
        assert len(store) <= 5
    assert await store.hit("49", 1, 1e9, 50.0) == (False, 1e9 - 1)
    assert await store.hit("0", 1, 1e9, 50.0) == (True, 0.0)


async def test_a_store_that_may_hold_nothing_holds_nothing():
    store = MemoryStore(max_keys=0)
    assert await store.hit("a", 1, 10.0, 0.0) == (True, 0.0)
    assert len(store) == 0


async def test_a_refused_key_is_not_kept_longer_than_its_hits():
    store = MemoryStore()
    await store.hit("a", 1, 10.0, 0.0)
    await store.hit("b", 1, 10.0, 5.0)
    assert await store.hit("a", 1, 10.0, 9.0) == (False, 1.0)
    await store.hit("c", 1, 10.0, 12.0)
    assert len(store) == 2


@given(
    limit=st.integers(1, 5),
    steps=st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=60),
)
def test_no_stretch_of_time_ever_sees_more_than_the_limit(limit, steps):
    async def times():
        store, now, let_through = MemoryStore(), 0.0, []
        for step in steps:
            now += step
            ok, wait = await store.hit("k", limit, 7.0, now)
            assert ok is (wait == 0.0)
            assert 0.0 <= wait <= 7.0 + 1e-6
            if ok:
                let_through.append(now)
        return let_through

    let_through = asyncio.run(times())
    for first, last in zip(let_through, let_through[limit:], strict=False):
        assert last >= first + 7.0


async def test_a_store_of_ones_own(clock):
    class Full:
        seen = ()

        async def hit(self, key, limit, per, now):
            await asyncio.sleep(0)
            self.seen = (key, limit, per, now)
            return False, 0.2

    store = Full()
    registry = limited(clock, store=store, limit=7, per=3, by=["user", "tool"])
    verdict = await registry.fire("before_run", {}, user="ann")
    key = '["/rate_limit", "before_run", 3.0, "ann", null]'
    assert store.seen == (key, 7, 3.0, 1000.0)
    assert_blocked(verdict, reason="try again in 1 s")


async def test_a_store_that_cannot_be_reached_lets_nothing_through(clock):
    class Gone:
        async def hit(self, key, limit, per, now):
            raise ConnectionError("gone")

    registry = limited(clock, store=Gone(), limit=7)
    assert_blocked(await registry.fire("before_run", {}), status=500, code="hook_error")


async def test_two_made_hooks_count_apart():
    first, second = (BUILTINS["rate_limit"].make({"limit": 1}) for _ in range(2))
    made = event("before_run", {})
    assert await first(made) is None
    assert await second(made) is None
    assert (await first(made)).status == 429


async def test_as_a_plain_function_it_remembers_from_call_to_call():
    registry = RecordingRegistry()
    registry.register(rate_limit, "before_run", name="a", config={"limit": 2})
    registry.register(rate_limit, "before_tool_call", name="b", config={"limit": 1})
    for _ in range(2):
        assert_allowed(await registry.fire("before_run", {}))
    assert_blocked(await registry.fire("before_run", {}), by="a", code="rate_limited")
    assert_allowed(await registry.fire("before_tool_call", sample("before_tool_call")))
