"""Conditions: `when`, and the field matchers that come before it."""

import asyncio
import functools
import re

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall

POINT = "on_result"


async def fired(when, value="x", point=POINT, **options):
    registry = HookRegistry()
    calls = []
    registry.register(lambda event: calls.append(1), point, name="h", when=when, **options)
    return await registry.fire(point, value), calls


async def slowly_true(event):
    await asyncio.sleep(0)
    return True


async def slowly_false(event):
    await asyncio.sleep(0)
    return False


class Condition:
    async def __call__(self, event, value):
        return value == "x"


@pytest.mark.parametrize(
    "when",
    [
        lambda event: True,
        lambda event: "yes",
        lambda event, value: value == "x",
        functools.partial(slowly_true),
        slowly_true,
        Condition(),
        Condition().__call__,
    ],
)
async def test_true_calls_the_hook(when):
    verdict, calls = await fired(when)
    assert (calls, len(verdict.records)) == ([1], 2)


@pytest.mark.parametrize(
    "when",
    [lambda event: False, lambda event: None, lambda event, value: value == "y", slowly_false],
)
async def test_false_means_not_called_and_nothing_recorded(when, told):
    registry, calls = HookRegistry(told.append), []
    registry.register(lambda event: calls.append(1), POINT, name="h", when=when)
    verdict = await registry.fire(POINT, "x")
    assert (calls, verdict.records, told) == ([], (), [])
    assert verdict.decision == "continue"


async def test_it_is_asked_at_the_hooks_turn_on_the_current_value():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Continue("changed"), POINT, name="t")
    registry.register(
        lambda event: Block("no"),
        POINT,
        name="h",
        when=lambda event, value: seen.append((event.value, value, event.original)),
    )
    await registry.fire(POINT, "given")
    assert seen == [("changed", "changed", "given")]


async def test_it_is_not_asked_where_the_hook_has_no_turn():
    registry, seen = HookRegistry(), []
    registry.register(lambda event: Block("no"), POINT, name="t")
    registry.register(lambda event: None, POINT, name="h", when=lambda event: seen.append(1))
    await registry.fire(POINT, "x")
    assert seen == []


def fails(event):
    raise ValueError("boom")


async def fails_later(event):
    await asyncio.sleep(0)
    raise ValueError("boom")


@pytest.mark.parametrize("when", [fails, fails_later])
@pytest.mark.parametrize(("lane", "decision"), [("transform", "continue"), ("gate", "block")])
async def test_raising_is_a_failure_of_kind_error(when, lane, decision):
    verdict, calls = await fired(when, lane=lane)
    assert (verdict.decision, calls) == (decision, [])
    assert [record.kind for record in verdict.records] == ["hook_start", "hook_failed"]
    assert verdict.records[1].failure == "error"


async def test_it_is_inside_the_hooks_timeout():
    async def hangs(event):
        await asyncio.sleep(10)

    verdict, calls = await fired(hangs, timeout=0.01, lane="gate")
    assert (verdict.decision, verdict.status, calls) == ("block", 504, [])
    assert verdict.records[1].failure == "timeout"


async def test_condition_and_hook_share_one_timeout():
    async def takes_a_moment(event):
        await asyncio.sleep(0.06)
        return True

    registry = HookRegistry()
    registry.register(takes_a_moment, POINT, name="h", when=takes_a_moment, timeout=0.09)
    verdict = await registry.fire(POINT, "x")
    assert verdict.records[1].failure == "timeout"


async def test_it_cannot_damage_the_value():
    verdict, calls = await fired(lambda event, value: value.append(1), ["x"])
    assert (verdict.value, calls) == (["x"], [])
    assert verdict.records[1].failure == "error"


@pytest.mark.parametrize("when", ["value == 1", 5])
def test_something_else_is_refused(when):
    with pytest.raises(HookRefusedError, match=r"'h'.*when"):
        HookRegistry().register(print, POINT, name="h", when=when)


def test_a_condition_with_the_wrong_parameters_is_refused():
    with pytest.raises(HookRefusedError, match="'h'"):
        HookRegistry().register(print, POINT, name="h", when=lambda: True)


@pytest.mark.parametrize(
    ("point", "match", "context", "called"),
    [
        ("before_tool_call", {"tools": "search"}, {}, True),
        ("before_tool_call", {"tools": ["other", "sea*"]}, {}, True),
        ("before_tool_call", {"tools": "/^s.*h$/"}, {}, True),
        ("before_tool_call", {"tools": re.compile("arc")}, {}, True),
        ("before_tool_call", {"tools": ["other", "/^x/"]}, {}, False),
        ("after_tool_call", {"tools": "sea??h"}, {}, True),
        ("on_result", {"agents": "helper"}, {"agent_name": "helper"}, True),
        ("on_result", {"agents": "helper"}, {}, False),
        ("on_result", {"agents": "h*"}, {}, False),
        ("before_llm_call", {"models": "m"}, {}, True),
        ("on_result", {"models": "gpt-*"}, {"model": "gpt-9"}, True),
        ("before_inbound", {"users": "u1"}, {}, True),
        ("before_inbound", {"users": "u1"}, {"user": "u2"}, False),
        ("on_result", {"users": "u?"}, {"user": "u2"}, True),
        ("before_inbound", {"channels": ["web"]}, {}, True),
        ("on_result", {"channels": "web"}, {"metadata": {"channel": "web"}}, True),
        ("on_result", {"tags": "b*"}, {"metadata": {"tags": ["alpha", "beta"]}}, True),
        ("on_result", {"tags": "x"}, {"metadata": {"tags": ["alpha", "beta"]}}, False),
        ("on_result", {"tags": "x"}, {}, False),
        ("before_inbound", {"users": "u1", "channels": "web"}, {}, True),
        ("before_inbound", {"users": "u1", "channels": "mail"}, {}, False),
    ],
)
async def test_field_matchers(point, match, context, called, sample):
    registry, calls = HookRegistry(), []
    registry.register(lambda event: calls.append(1), point, name="h", **match)
    verdict = await registry.fire(point, sample(point), **context)
    assert (calls, len(verdict.records)) == ([1] * called, 2 * called)


async def test_field_matchers_come_before_when(sample):
    asked = []
    for tool in ("search", "other"):
        await fired(
            lambda event: asked.append(event.value.name),
            sample("before_tool_call"),
            "before_tool_call",
            tools=tool,
        )
    assert asked == ["search"]


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(HookRefusedError, match=r"'h'.*agents"):
        HookRegistry().register(print, POINT, name="h", agents="/(/")


def test_a_tool_matcher_where_there_is_no_tool_is_refused():
    with pytest.raises(HookRefusedError, match=r"'h'.*tools.*on_result"):
        HookRegistry().register(print, POINT, name="h", tools="search")


@pytest.mark.parametrize("tools", ["*x", "/x/", re.compile("x")])
async def test_a_name_that_is_too_long_for_patterns_is_a_failure(tools):
    registry = HookRegistry()
    registry.register(lambda event: None, "before_tool_call", name="h", lane="gate", tools=tools)
    verdict = await registry.fire("before_tool_call", ToolCall("c", "a" * 1001))
    assert verdict.decision == "block"
    assert "too long to be matched" in str(verdict.records[-1])


async def test_a_long_name_that_is_written_out_is_matched():
    registry = HookRegistry()
    registry.register(lambda event: Block("no"), "before_tool_call", name="h", tools="a" * 1001)
    verdict = await registry.fire("before_tool_call", ToolCall("c", "a" * 1001))
    assert verdict.reason == "no"
