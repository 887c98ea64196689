"""What a piece of work takes: values that hooks leave are checked beyond their type."""

import pytest

from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry


def small(point, value):
    return None if value["n"] < 10 else f"{point}: n is {value['n']}, and less than 10 is wanted"


def scope_of(registry):
    scope = registry.scope(run_id="r")
    scope.accepts = small
    return scope.bind(agent_name="a")


async def test_a_change_that_fits_is_taken():
    registry = HookRegistry()
    registry.register(lambda event: Continue({"n": 3}), "on_run_start")
    verdict = await scope_of(registry).fire("on_run_start", {"n": 1})
    assert verdict.value == {"n": 3}


async def test_a_change_that_does_not_fit_is_the_hooks_failure():
    registry = HookRegistry()
    registry.register(lambda event: Continue({"n": 30}), "on_run_start", name="large")
    verdict = await scope_of(registry).fire("on_run_start", {"n": 1})
    assert verdict.decision is Decision.FAIL
    assert "on_run_start: n is 30, and less than 10 is wanted" in verdict.reason


@pytest.mark.parametrize("on_error", ["continue", "block"])
async def test_what_becomes_of_it_is_for_on_error_to_say(on_error):
    registry = HookRegistry()
    registry.register(lambda event: Continue({"n": 30}), "on_run_start", on_error=on_error)
    verdict = await scope_of(registry).fire("on_run_start", {"n": 1})
    assert verdict.decision is Decision(on_error)
    assert verdict.value == {"n": 1}


async def test_an_edited_value_that_does_not_fit_is_no_approval():
    async def person(_question):
        return Approval(approved=True, value={"n": 99})

    registry = HookRegistry(ask=person)
    registry.register(lambda event: Ask("may it?"), "on_run_start")
    verdict = await scope_of(registry).fire("on_run_start", {"n": 1})
    assert verdict.decision is Decision.BLOCK
    assert "n is 99" in verdict.reason
