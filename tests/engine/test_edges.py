"""What the parts around the engine ask of it: trials, pinned work, missing packages."""

import asyncio

import pytest

from checkrail.engine.chain import hook_at_work, pinned
from checkrail.engine.extras import MissingExtraError, needs
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Trial


async def test_a_trial_calls_some_hooks_and_tells_nobody():
    told = []
    registry = HookRegistry(told.append)
    registry.register(lambda event: Continue({"n": 2}), "on_run_start", name="tried")
    registry.register(lambda event: Block("no"), "on_run_start", name="other", lane="gate")
    scope = registry.scope(run_id="r")
    [tried] = [
        entry[0]
        for _, entries in scope.chain("on_run_start").lanes
        for entry in entries
        if entry[0].spec.name == "tried"
    ]
    trial = Trial(scope, ["on_run_start", "on_result"], [tried])
    verdict = await trial.fire("on_run_start", {"n": 1})
    assert (verdict.decision, verdict.value, told) == (Decision.CONTINUE, {"n": 2}, [])
    assert trial.chain("on_result") is None


async def test_tasks_that_are_started_while_pinned_are_the_hooks_work():
    told = []

    async def beneath():
        told.append(hook_at_work().spec.name)

    async def hook(event):
        await asyncio.sleep(0)
        with pinned() as mark:
            task = asyncio.create_task(beneath())
        assert mark is not None
        await task

    registry = HookRegistry()
    registry.register(hook, "on_run_start", name="pinning")
    registry.register(hook, "on_run_start", name="pinning too")
    await registry.fire("on_run_start", {})
    assert told == ["pinning", "pinning too"]


async def test_outside_of_hooks_nothing_is_pinned():
    with pinned() as mark:
        assert mark is None


def test_what_was_pinned_elsewhere_is_let_go():
    async def hook(event):
        with pinned():
            await asyncio.sleep(0)

    registry = HookRegistry()
    registry.register(hook, "on_run_start")
    asyncio.run(registry.fire("on_run_start", {}))


async def test_a_plain_verdict_has_its_value_as_its_subject():
    verdict = await HookRegistry().fire("on_run_start", {"n": 1})
    assert (verdict.subject, verdict.given) == ({"n": 1}, {"n": 1})


def test_a_missing_package_is_named_with_what_to_install():
    told = r'chat needs rich: pip install "checkrail\[cli\]"'
    with pytest.raises(MissingExtraError, match=told), needs("rich", "chat", "cli"):
        raise ImportError("no rich")
