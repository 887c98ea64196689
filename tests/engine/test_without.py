"""Work that a hook started elsewhere: the hook is named, and left out of it."""

import asyncio

from checkrail.engine.dispatch_state import hook_at_work
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry


def scope_of(*registries, without):
    first, *others = registries
    scope = first.scope(run_id="r")
    scope.exclude(frozenset(without))
    for registry in others:
        scope = registry.scope(parent=scope)
    return scope


async def test_a_hook_that_is_named_is_left_out_and_the_others_hold():
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "on_run_start", name="strict")
    registry.register(lambda event: Continue({"n": 2}), "on_run_start", name="second")
    scope = scope_of(registry, without=["/strict"])
    verdict = await scope.fire("on_run_start", {"n": 1})
    assert (verdict.decision, verdict.value) == (Decision.CONTINUE, {"n": 2})


async def test_where_it_was_the_only_one_there_is_none():
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "on_run_start", name="strict")
    scope = scope_of(registry, without=["/strict"])
    assert not scope.has("on_run_start")
    assert (await scope.fire("on_run_start", {})).decision is Decision.CONTINUE
    assert registry.scope(run_id="s").has("on_run_start")


async def test_it_is_left_out_beneath_as_well_and_with_more_ids():
    outer, inner = HookRegistry(), HookRegistry(label="inner")
    outer.register(lambda event: Block("no"), "before_tool_call", name="strict")
    scope = scope_of(outer, inner, without=["/strict"]).bind(iteration=2)
    assert not scope.has("before_tool_call")


async def test_an_observer_in_the_background_is_left_out_too():
    seen = []
    registry = HookRegistry()

    async def watch(event):
        seen.append(event.point)

    registry.register(watch, "after_run", name="watch", background=True)
    assert not scope_of(registry, without=["/watch"]).has("after_run")
    assert scope_of(registry, without=["inner/watch", "watch"]).has("after_run")


async def test_the_hook_at_work_can_be_told():
    told = []

    async def beneath():
        told.append(hook_at_work().spec.name)

    async def hook(event):
        told.append(hook_at_work().spec.name)
        await asyncio.sleep(0)
        told.append(hook_at_work().spec.name)
        await asyncio.create_task(beneath())

    registry = HookRegistry()
    registry.register(hook, "on_run_start", name="working")
    await registry.fire("on_run_start", {})
    assert told == ["working"] * 3
    assert hook_at_work() is None


async def test_a_hook_that_starts_no_tasks_can_be_told_too():
    told = []

    async def hook(event):
        await asyncio.sleep(0)
        told.append(hook_at_work().key)

    registry = HookRegistry(label="agent")
    registry.register(hook, "on_run_start", name="plain")
    await registry.fire("on_run_start", {})
    assert told == ["agent/plain"]
