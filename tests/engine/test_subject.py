"""What a caller can still see of a verdict: the value as the hooks left it, and redactions."""

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Block, Continue, Replace
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall, ToolResult

CALL = ToolCall("c1", "search", {"q": "secret"})
CLEAN = ToolCall("c1", "search", {"q": "…"})


def registry(*answers, **options):
    found = HookRegistry()
    for answer in answers:
        found.register(lambda event, value, said=answer: said, "before_tool_call", **options)
    return found


async def test_without_hooks_the_subject_is_the_value():
    verdict = await HookRegistry().fire("before_tool_call", CALL)
    assert verdict.subject is CALL
    assert not verdict.redacted


async def test_a_replacement_does_not_hide_what_was_replaced():
    brought = ToolResult("c1", "search", "cached")
    verdict = await registry(Continue(CLEAN), Replace(brought)).fire("before_tool_call", CALL)
    assert (verdict.value, verdict.subject) == (brought, CLEAN)


@pytest.mark.parametrize("last", [None, Block("no"), Replace("cached")])
async def test_a_redaction_is_seen_whatever_was_decided_after_it(last):
    hooks = registry(Continue(CLEAN, redacted=True), last)
    verdict = await hooks.fire("before_tool_call", CALL)
    assert verdict.redacted
    assert verdict.subject == CLEAN


async def test_a_change_is_no_redaction():
    verdict = await registry(Continue(CLEAN), None).fire("before_tool_call", CALL)
    assert not verdict.redacted


async def test_a_redaction_in_shadow_redacts_nothing():
    hooks = registry(Continue(CLEAN, redacted=True), mode="shadow")
    verdict = await hooks.fire("before_tool_call", CALL)
    assert not verdict.redacted
    assert verdict.subject is CALL


@pytest.mark.parametrize(
    ("said", "window"),
    [("whole", None), ("window", 256), ("window:1", 1), ("window:4000", 4000)],
)
def test_a_hook_says_how_much_of_a_stream_it_needs(said, window):
    assert HookRegistry().register(print, "after_llm_call", stream=said).window == window


@pytest.mark.parametrize("said", ["windows", "window:0", "window:", "window:-1", "", 5, None])
def test_what_is_no_way_to_see_a_stream_is_refused(said):
    with pytest.raises(HookRefusedError, match=r"stream is .*Say whole, window, or window:N"):
        HookRegistry().register(print, "after_llm_call", stream=said)


async def test_a_bound_scope_sees_a_reload_like_its_parent():
    outer, inner = HookRegistry(), HookRegistry()
    inner.register(lambda event: None, "before_tool_call", name="inner")
    scope = inner.scope(parent=outer.scope(run_id="r1"))
    bound = scope.bind(tool_call_id="c1")
    assert (await bound.fire("before_tool_call", CALL)).decision == "continue"
    outer.register(lambda event: Block("no"), "before_tool_call", name="outer")
    assert (await bound.fire("before_tool_call", CALL)).hook == "outer"
    assert (await scope.fire("before_tool_call", CALL)).hook == "outer"
