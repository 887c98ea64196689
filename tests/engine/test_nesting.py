"""Hooks within hooks: a hook's own work does not fire it again, and there is an end to depth."""

import asyncio

import pytest

from checkrail.engine.asks import Approval
from checkrail.engine.dispatch_state import hook_at_work
from checkrail.engine.outcomes import Ask, Block, Continue
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall


def counting(registry, name, seen, work=None, point="before_run", **options):
    """Register a hook that notes its call, then does some work."""

    async def hook(event):
        seen.append(name)
        if work is not None:
            await work()

    registry.register(hook, point, name=name, **options)


async def test_a_hooks_own_work_does_not_fire_it_again_but_fires_the_others():
    registry, seen = HookRegistry(), []
    counting(registry, "a", seen, lambda: registry.fire("before_run", {}))
    counting(registry, "b", seen)
    await registry.fire("before_run", {})
    assert seen == ["a", "b", "b"]


async def test_two_hooks_that_fire_each_other_come_to_an_end():
    registry, seen = HookRegistry(), []
    counting(registry, "a", seen, lambda: registry.fire("on_run_start", {}))
    counting(registry, "b", seen, lambda: registry.fire("before_run", {}), "on_run_start")
    await registry.fire("before_run", {})
    assert seen == ["a", "b"]


async def test_it_holds_at_other_points_and_in_other_scopes_of_the_same_hook():
    registry, seen = HookRegistry(), []

    async def hook(event):
        seen.append(event.point)
        await registry.scope(run_id="other").fire("on_run_start", {})

    registry.register(hook, "before_run", "on_run_start", name="h")
    await registry.fire("before_run", {})
    assert seen == ["before_run"]


async def test_a_hook_of_the_same_name_at_another_level_is_another_hook():
    server, agent, seen = HookRegistry(), HookRegistry(), []
    counting(server, "h", seen, lambda: agent.fire("before_run", {}))
    counting(agent, "h", seen)
    await server.fire("before_run", {})
    assert seen == ["h", "h"]


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_it_holds_in_every_lane(lane):
    registry, seen = HookRegistry(), []
    counting(registry, "h", seen, lambda: registry.fire("before_run", {}), lane=lane)
    await registry.fire("before_run", {})
    assert seen == ["h"]


async def test_it_holds_for_background_observers():
    registry, seen = HookRegistry(), []
    counting(registry, "h", seen, lambda: registry.fire("before_run", {}), background=True)
    await registry.fire("before_run", {})
    await registry.aclose()
    assert seen == ["h"]


async def test_it_holds_in_gathered_work():
    registry, seen = HookRegistry(), []

    def work():
        return asyncio.gather(*(registry.fire("before_run", {}) for _ in range(3)))

    counting(registry, "a", seen, work)
    counting(registry, "b", seen)
    await registry.fire("before_run", {})
    assert seen == ["a", "b", "b", "b", "b"]


async def test_it_holds_in_tasks_of_the_hook():
    registry, seen = HookRegistry(), []

    async def later():
        await asyncio.sleep(0)
        await registry.fire("before_run", {})

    async def work():
        await asyncio.create_task(later())

    counting(registry, "h", seen, work)
    await registry.fire("before_run", {})
    assert seen == ["h"]


def spawning(registry, seen, start):
    """Register hook `a`, which leaves a task behind that fires, and `b`, which lets it run."""
    tasks, go_on = [], asyncio.Event()

    async def later():
        await go_on.wait()
        seen.append("later")
        await registry.fire("before_run", {})

    async def waits(event):
        seen.append("b")
        go_on.set()
        await asyncio.sleep(0.01)

    counting(registry, "a", seen, lambda: start(tasks, later))
    registry.register(waits, "before_run", name="b")
    return tasks


async def start_task(tasks, later):
    tasks.append(asyncio.create_task(later()))


async def test_a_task_that_outlives_its_hook_stays_the_work_of_that_hook():
    registry, seen = HookRegistry(), []
    tasks = spawning(registry, seen, start_task)
    await registry.fire("before_run", {})
    await asyncio.gather(*tasks)
    assert seen == ["a", "b", "later", "b"]


async def test_a_task_that_nobody_awaits_is_the_work_of_the_hook_that_started_it_only():
    registry, seen, tasks = HookRegistry(), [], []

    async def later(name):
        await asyncio.sleep(0)
        seen.append((name, hook_at_work().spec.name))

    def starting(name):
        return lambda event: tasks.append(asyncio.create_task(later(name)))

    registry.register(starting("a"), "before_run", name="a")
    registry.register(starting("b"), "before_run", name="b")
    await registry.fire("before_run", {})
    await asyncio.gather(*tasks)
    assert seen == [("a", "a"), ("b", "b")]


async def test_an_approval_handler_works_for_the_hook_that_asks():
    registry, seen = HookRegistry(), []

    async def ask(question):
        verdict = await registry.fire("before_tool_call", question.value)
        seen.append((hook_at_work().spec.name, verdict.decision))
        return Approval(approved=True)

    registry.ask = ask
    registry.register(lambda event: Ask("may it?"), "before_tool_call", name="h")
    verdict = await registry.fire("before_tool_call", ToolCall(name="search"))
    assert verdict.decision == "continue"
    assert seen == [("h", "continue")]


async def test_it_holds_at_once_for_a_hook_that_starts_its_tasks_itself():
    registry, seen, tasks = HookRegistry(), [], []

    async def later():
        await asyncio.sleep(0.01)
        await registry.fire("before_run", {})

    async def hook(event):
        seen.append("a")
        tasks.append(asyncio.create_task(later()))

    registry.register(hook, "before_run", name="a")
    counting(registry, "b", seen)
    await registry.fire("before_run", {})
    await asyncio.gather(*tasks)
    assert seen == ["a", "b", "b"]


async def test_it_holds_in_a_task_that_outlives_the_dispatch():
    registry, seen, tasks = HookRegistry(), [], []

    async def later():
        await asyncio.sleep(0.01)
        await registry.fire("before_run", {})

    async def work():
        tasks.append(asyncio.create_task(later()))

    counting(registry, "h", seen, work)
    await registry.fire("before_run", {})
    await asyncio.gather(*tasks)
    assert seen == ["h"]


async def test_it_holds_for_work_in_a_thread():
    registry, seen = HookRegistry(), []

    def hook(event):
        seen.append("h")
        asyncio.run(registry.fire("before_run", {}))

    registry.register(hook, "before_run", name="h", thread=True)
    await registry.fire("before_run", {})
    assert seen == ["h"]


async def test_it_holds_for_a_dispatch_made_before_and_awaited_in_the_hook():
    registry, seen, made = HookRegistry(), [], []
    counting(registry, "h", seen, made.pop)
    made.append(registry.fire("before_run", {}))
    await registry.fire("before_run", {})
    assert seen == ["h"]


async def test_work_after_a_nested_dispatch_is_still_the_hooks_own():
    registry, other, seen = HookRegistry(), HookRegistry(), []
    counting(other, "o", seen)
    made = other.fire("before_run", {})

    async def work():
        await made
        await registry.fire("before_run", {})

    counting(registry, "h", seen, work)
    await registry.fire("before_run", {})
    assert seen == ["h", "o"]


async def test_two_dispatches_of_two_tasks_do_not_know_each_other():
    registry, seen = HookRegistry(), []
    counting(registry, "h", seen, lambda: asyncio.sleep(0.01))
    await asyncio.gather(*(registry.fire("before_run", {}) for _ in range(3)))
    assert seen == ["h"] * 3


async def test_after_a_dispatch_the_hook_is_called_again():
    registry, seen = HookRegistry(), []
    counting(registry, "h", seen)
    await registry.fire("before_run", {})
    await registry.fire("before_run", {})
    assert seen == ["h", "h"]


def tower(height):
    """Registries whose hooks each fire the next one, and hand its verdict back."""
    levels, verdicts = [HookRegistry() for _ in range(height)], []
    for number, registry in enumerate(levels):

        async def hook(event, *, number=number):
            if number + 1 < height:
                verdicts.append(await levels[number + 1].fire("before_run", {}))

        registry.register(hook, "before_run", name=f"floor{number}")
    return levels[0], verdicts


async def test_hooks_within_hooks_eight_deep_are_fine():
    ground, verdicts = tower(8)
    assert (await ground.fire("before_run", {})).decision == "continue"
    assert [verdict.decision for verdict in verdicts] == ["continue"] * 7


async def test_hooks_within_hooks_deeper_than_eight_are_a_fail():
    ground, verdicts = tower(12)
    assert (await ground.fire("before_run", {})).decision == "continue"
    deepest = verdicts[0]
    assert deepest.decision == "fail"
    assert "8" in deepest.reason
    assert deepest.records == ()
    assert all(verdict.decision == "continue" for verdict in verdicts[1:])


async def test_a_nested_verdict_is_the_hooks_to_use():
    registry = HookRegistry()
    registry.register(lambda event: Block("inner"), "on_run_start", name="inner")

    async def outer(event):
        verdict = await registry.fire("on_run_start", {})
        return Continue({"told": verdict.reason})

    registry.register(outer, "before_run", name="outer")
    assert (await registry.fire("before_run", {})).value == {"told": "inner"}
