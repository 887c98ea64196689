"""What the parts around the engine ask of it: trials, and whose work something is."""

import asyncio

from checkrail.engine.dispatch_state import hook_at_work
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
    [tried] = [h for h in scope.chain("on_run_start").hooks if h.spec.name == "tried"]
    trial = Trial(scope, ["on_run_start", "on_result"], [tried])
    verdict = await trial.fire("on_run_start", {"n": 1})
    assert (verdict.decision, verdict.value, told) == (Decision.CONTINUE, {"n": 2}, [])
    assert trial.chain("on_result") is None


async def test_tasks_that_hooks_start_are_their_work():
    told = []

    async def beneath():
        told.append(hook_at_work().spec.name)

    async def hook(event):
        await asyncio.sleep(0)
        await asyncio.create_task(beneath())

    registry = HookRegistry()
    registry.register(hook, "on_run_start", name="first")
    registry.register(hook, "on_run_start", name="second")
    await registry.fire("on_run_start", {})
    assert told == ["first", "second"]


async def test_outside_of_hooks_no_hook_is_at_work():
    registry = HookRegistry()
    registry.register(lambda event: None, "on_run_start")
    await registry.fire("on_run_start", {})
    assert hook_at_work() is None


async def test_a_plain_verdict_has_its_value_as_its_subject():
    verdict = await HookRegistry().fire("on_run_start", {"n": 1})
    assert (verdict.subject, verdict.given) == ({"n": 1}, {"n": 1})
