"""Other names that users know for points."""

import pytest

from checkrail.engine.errors import CheckrailError
from checkrail.engine.points import ALIASES
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunError, RunResult

PLAIN_ALIASES = {
    "pre_request": "before_llm_call",
    "post_response": "after_llm_call",
    "pre_tool_call": "before_tool_call",
    "before_tool_execution": "before_tool_call",
    "on_tool_call": "before_tool_call",
    "post_tool_call": "after_tool_call",
    "after_tool_execution": "after_tool_call",
    "transform_response": "before_final_response",
    "on_error": "on_run_error",
}


def test_there_are_these_aliases():
    assert set(ALIASES) == {*PLAIN_ALIASES, "on_run_finish", "on_timeout"}


@pytest.mark.parametrize(("alias", "point"), PLAIN_ALIASES.items())
async def test_an_alias_is_accepted_everywhere_and_shown_as_its_point(alias, point, sample):
    registry = HookRegistry()
    seen = []
    registry.register(lambda event: seen.append(event.point), alias, name="h")
    assert registry.has(alias)
    assert registry.has(point)
    assert [spec.name for spec in registry.list(alias)] == ["h"]
    for name in (alias, point):
        verdict = await registry.fire(name, sample(point))
        assert {record.point for record in verdict.records} == {point}
    assert seen == [point, point]


@pytest.mark.parametrize(
    ("alias", "point", "status", "called"),
    [
        ("on_run_finish", "after_run", "success", True),
        ("on_run_finish", "after_run", "interrupted", False),
        ("on_run_finish", "on_run_error", "error", True),
        ("on_run_finish", "on_run_error", "cancelled", True),
        ("on_timeout", "on_run_error", "timeout", True),
        ("on_timeout", "on_run_error", "error", False),
    ],
)
async def test_an_alias_that_narrows_a_point(alias, point, status, called):
    registry = HookRegistry()
    seen = []
    registry.register(lambda event: seen.append(event.point), alias, name="h")
    value = RunResult(status=status) if point == "after_run" else RunError(status=status)
    verdict = await registry.fire(point, value)
    assert seen == ([point] if called else [])
    assert len(verdict.records) == (2 if called else 0)


@pytest.mark.parametrize("alias", ["on_run_finish", "on_timeout"])
async def test_an_alias_that_narrows_a_point_cannot_be_fired(alias):
    with pytest.raises(CheckrailError, match="on_run_error"):
        await HookRegistry().fire(alias, RunError())
