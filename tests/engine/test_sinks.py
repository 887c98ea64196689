"""Sinks: when records reach them, and what they must never be given."""

import asyncio
import json
import logging

import pytest

from checkrail.engine.asks import Approval
from checkrail.engine.outcomes import Ask, Block, Continue
from checkrail.engine.registry import HookRegistry

POINT = "on_result"
SECRET = "swordfish"


def kinds(records):
    return [str(record.kind) for record in records]


async def test_several_sinks_of_several_levels_get_every_record():
    first, second, third = [], [], []
    server = HookRegistry([first.append, second.append])
    agent = HookRegistry(third.append)
    agent.register(lambda event: None, POINT, name="h")
    await agent.scope(parent=server.scope()).fire(POINT, {})
    assert kinds(first) == kinds(second) == kinds(third) == ["hook_start", "hook_complete"]


async def test_a_sink_that_raises_touches_nothing(told, caplog):
    def bad(record):
        raise ValueError("disk full")

    registry = HookRegistry([bad, told.append])
    registry.register(lambda event: Block("no"), POINT, name="h")
    with caplog.at_level(logging.ERROR, "checkrail"):
        verdict = await registry.fire(POINT, {})
    assert verdict.decision == "block"
    assert kinds(told) == ["hook_start", "hook_blocked"]
    assert "disk full" in caplog.text


@pytest.mark.parametrize("lane", ["transform", "gate", "observe"])
async def test_the_start_of_a_suspended_hook_is_told_while_it_is_waited_for(lane, told):
    registry = HookRegistry(told.append)
    seen = []

    async def hook(event):
        await asyncio.sleep(0.01)
        seen.append(kinds(told))

    registry.register(lambda event: None, POINT, name="first", lane=lane)
    registry.register(hook, POINT, name="h", lane=lane)
    verdict = await registry.fire(POINT, {})
    assert seen == [["hook_start", "hook_complete", "hook_start"]]
    assert [record.record_id for record in told] == [r.record_id for r in verdict.records]


async def test_a_condition_that_is_waited_for_is_not_told(told):
    registry, seen = HookRegistry(told.append), []

    async def condition(event):
        await asyncio.sleep(0.01)
        seen.append(kinds(told))

    registry.register(lambda event: None, POINT, name="h", when=condition)
    await registry.fire(POINT, {})
    assert seen == [[]]
    assert told == []


async def test_values_are_told_only_after_the_transform_lane(told):
    registry, seen = HookRegistry(told.append), []

    async def slow(event):
        await asyncio.sleep(0.01)
        seen.append([record.hook for record in told if record.changed])

    registry.register(lambda event: Continue({"a": 2}), POINT, name="change")
    registry.register(slow, POINT, name="slow")
    registry.register(slow, POINT, name="gate", lane="gate")
    await registry.fire(POINT, {"a": 1})
    assert seen == [[], ["change"]]


def everything(records, verdict=None):
    """All that can be read of some records, as text."""
    parts = [json.dumps(record.wire()) for record in records]
    parts += [repr((record.before, record.after, record)) for record in records]
    return "\n".join(parts)


def redacting(registry, name="redact", **options):
    registry.register(
        lambda event: Continue({"text": "***"}, redacted=True), POINT, name=name, **options
    )


async def test_a_redaction_leaves_no_earlier_form_anywhere(told):
    registry, seen = HookRegistry(told.append), []

    async def slow(event):
        await asyncio.sleep(0)

    registry.register(slow, POINT, name="slow")
    registry.register(
        lambda event, value: Continue({**value, "more": 1}), POINT, name="before", priority=50
    )
    registry.register(
        lambda event, value: Continue({**value, "shadow": 1}),
        POINT,
        name="shadow",
        priority=60,
        mode="shadow",
    )
    redacting(registry)
    registry.register(slow, POINT, name="slow2")
    for lane in ("transform", "gate", "observe"):
        registry.register(
            lambda event: seen.append(repr((event, event.value, event.original, event.verdict))),
            POINT,
            name=lane,
            lane=lane,
        )
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert verdict.value == {"text": "***"}
    assert SECRET not in everything(told) + everything(verdict.records)
    assert len(seen) == 3
    assert SECRET not in "".join(seen)
    by_name = {record.hook: record for record in verdict.records[1::2]}
    assert by_name["redact"].redacted
    assert by_name["redact"].changed
    assert by_name["before"].redacted
    assert by_name["redact"].wire()["redacted"] is True


async def test_what_hooks_said_of_the_earlier_form_is_redacted_too(told):
    registry = HookRegistry(told.append)

    def quotes(event, value):
        raise ValueError(f"cannot read {value['text']}")

    registry.register(quotes, POINT, name="fails")
    registry.register(
        lambda event, value: Block(f"not {value['text']}"), POINT, name="shadow", mode="shadow"
    )
    redacting(registry)
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert kinds(told[1::2]) == ["hook_failed", "hook_blocked", "hook_complete"]
    assert SECRET not in everything(told) + everything(verdict.records)


async def test_changes_after_a_redaction_are_kept_whole(told):
    registry = HookRegistry(told.append)
    redacting(registry)
    registry.register(lambda event: Continue({"text": "+++"}), POINT, name="after")
    verdict = await registry.fire(POINT, {"text": SECRET})
    after = verdict.records[3]
    assert (after.before, after.after) == ({"text": "***"}, {"text": "+++"})
    assert after.redacted is False


async def test_a_redaction_of_a_value_that_is_clean_already_still_redacts_what_came_before(told):
    registry, seen = HookRegistry(told.append), []
    registry.register(lambda event: Continue({"text": "***"}), POINT, name="cleans")
    registry.register(lambda event, value: Continue(value, redacted=True), POINT, name="redacts")
    registry.register(lambda event: seen.append(event.original), POINT, name="later")
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert SECRET not in everything(told) + everything(verdict.records)
    assert seen == [{"text": "***"}]


async def test_a_redaction_holds_where_a_later_hook_blocks(told):
    registry = HookRegistry(told.append)
    registry.register(lambda event, value: Continue({**value}), POINT, name="first")
    redacting(registry)
    registry.register(lambda event: Block("no"), POINT, name="block")
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert (verdict.decision, verdict.value) == ("block", {"text": "***"})
    assert SECRET not in everything(told) + everything(verdict.records)


async def test_where_the_lane_is_cut_off_before_the_redaction_no_value_is_told(told):
    registry, started = HookRegistry(told.append), asyncio.Event()

    async def redacts_slowly(event):
        started.set()
        await asyncio.sleep(10)
        return Continue({"text": "***"}, redacted=True)

    registry.register(lambda event, value: Continue({**value, "n": 1}), POINT, name="first")
    registry.register(redacts_slowly, POINT, name="redacts")
    task = asyncio.create_task(registry.fire(POINT, {"text": SECRET}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(told) == 4
    assert SECRET not in everything(told)


@pytest.mark.parametrize("waiting", ["for a person", "for a gate"])
async def test_where_an_ask_holds_the_lane_and_all_is_cut_off_no_value_is_told(waiting, told):
    started = asyncio.Event()

    async def waits(question_or_event):
        started.set()
        await asyncio.sleep(10)

    registry = HookRegistry(told.append, ask=waits)
    registry.register(lambda event, value: Continue({**value, "n": 1}), POINT, name="first")
    registry.register(lambda event: Ask("may it?"), POINT, name="asks")
    redacting(registry)
    if waiting == "for a gate":
        registry.register(waits, POINT, name="gate", lane="gate")
    task = asyncio.create_task(registry.fire(POINT, {"text": SECRET}))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kinds(told[:4]) == ["hook_start", "hook_complete"] * 2
    assert SECRET not in everything(told)


async def test_while_an_ask_holds_the_lane_no_value_is_told(told):
    seen = []

    async def ask(question):
        await asyncio.sleep(0)
        seen.append(everything(told))
        return Approval(approved=True)

    async def gate(event):
        await asyncio.sleep(0.01)
        seen.append(everything(told))

    registry = HookRegistry(told.append, ask=ask)
    registry.register(lambda event, value: Continue({**value, "n": 1}), POINT, name="first")
    registry.register(lambda event: Ask("may it?"), POINT, name="asks")
    redacting(registry)
    registry.register(gate, POINT, name="gate", lane="gate")
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert verdict.value == {"text": "***"}
    assert len(seen) == 3  # the gate, the person, and the gate again on what was redacted
    assert SECRET not in "".join([*seen, everything(told), everything(verdict.records)])


async def test_a_redaction_needs_its_value():
    registry = HookRegistry()
    registry.register(lambda event: Continue(redacted=True), POINT, name="h")
    verdict = await registry.fire(POINT, {"text": SECRET})
    assert (verdict.decision, verdict.records[1].failure) == ("fail", "invalid")
