"""What a scope conceals: hooks see it, and records, reasons, errors and the log have none of it."""

import asyncio
import logging

import pytest

from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import ToolCall

POINT = "before_tool_call"
SECRET = "sesame-98765"
CALL = ToolCall("1", "open", {"word": SECRET})


@pytest.fixture
def fire():
    """Fire one hook in a scope that conceals the secret, and return the verdict."""

    async def fire_hook(hook, **options):
        registry = HookRegistry()
        registry.register(hook, POINT, **options)
        scope = registry.scope()
        scope.conceal = lambda text: text.replace(SECRET, "[concealed]")
        return await scope.bind(run_id="r1").fire(POINT, CALL)

    return fire_hook


async def test_a_failure_does_not_tell_it(fire, caplog):
    def fails(event):
        raise ValueError(f"no door for {event.value.args['word']}")

    with caplog.at_level(logging.DEBUG):
        verdict = await fire(fails, on_error="block")
    failed = verdict.records[-1]
    assert failed.error == "ValueError: no door for [concealed]"
    assert "fails" in caplog.text
    assert not [text for text in (verdict.reason, failed.reason, caplog.text) if SECRET in text]


async def test_a_timeout_is_told_as_ever(fire):
    async def sleeps(event):
        await asyncio.sleep(60)

    verdict = await fire(sleeps, on_error="block", timeout=0.01)
    assert verdict.status == 504
    assert "timed out" in verdict.records[-1].error


async def test_a_reason_does_not_tell_it_in_records(fire):
    verdict = await fire(lambda event: Block(f"not with {event.value.args['word']}"))
    assert verdict.decision is Decision.BLOCK
    assert verdict.records[-1].reason == "not with [concealed]"


async def test_a_change_is_recorded_as_a_redaction_is(fire):
    verdict = await fire(lambda _: Continue(ToolCall("1", "open", {"word": SECRET * 2})))
    assert verdict.value.args == {"word": SECRET * 2}
    assert verdict.records[-1].redacted
    assert SECRET not in repr(verdict.records[-1].wire())
