"""Records: a start and one ending for every call, and what they tell to whom and when."""

import asyncio
import json
import time
import uuid
from datetime import UTC, datetime

import pytest

from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Replace, Retry, Stop
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunResult, digest
from checkrail.times import iso_time

POINT = "on_result"


def kinds(records):
    return [str(record.kind) for record in records]


async def suspends(event):
    await asyncio.sleep(0)


def fails(event):
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("point", "answer", "kind"),
    [
        ("after_llm_call", None, "hook_complete"),
        ("after_llm_call", Continue(), "hook_complete"),
        ("after_llm_call", Continue("x"), "hook_complete"),
        ("after_llm_call", Retry("x"), "hook_complete"),
        ("after_llm_call", Stop("x"), "hook_complete"),
        ("after_llm_call", Ask("x"), "hook_complete"),
        ("before_llm_call", Replace("x"), "hook_complete"),
        ("after_llm_call", Block("x"), "hook_blocked"),
        ("after_llm_call", Fail("x"), "hook_blocked"),
        ("after_llm_call", 5, "hook_failed"),
    ],
)
async def test_every_call_leaves_a_start_and_one_ending(point, answer, kind, sample, told):
    registry = HookRegistry(told.append)
    registry.register(lambda event: answer, point, name="h")
    verdict = await registry.fire(point, sample(point))
    assert kinds(verdict.records) == kinds(told) == ["hook_start", kind]


@pytest.mark.parametrize("hook", [lambda event: None, suspends, fails, lambda event: Block("x")])
async def test_both_records_of_a_call_say_when_it_started(hook, told):
    registry = HookRegistry(told.append)
    for name in ("first", "second"):
        registry.register(hook, POINT, name=name, lane="gate")
    await registry.fire(POINT, {})
    starts = {record.hook: record.started for record in told if record.kind == "hook_start"}
    assert [record.started for record in told] == [starts[record.hook] for record in told]
    assert starts["first"] < starts["second"]


@pytest.mark.parametrize("behaviour", ["continue", "block"])
async def test_a_failure_is_failed_whatever_on_error_made_of_it(behaviour):
    registry = HookRegistry()
    registry.register(fails, POINT, name="h", on_error=behaviour)
    verdict = await registry.fire(POINT, {})
    assert kinds(verdict.records) == ["hook_start", "hook_failed"]


async def test_records_are_in_the_order_of_the_calls(told):
    registry = HookRegistry(told.append)
    registry.register(suspends, POINT, name="o", lane="observe")
    registry.register(lambda event: Continue(1), POINT, name="t")
    registry.register(fails, POINT, name="g", lane="gate", on_error="continue")
    registry.register(suspends, POINT, name="t2")
    verdict = await registry.fire(POINT, {})
    order = [(record.hook, record.kind == "hook_start") for record in verdict.records]
    assert order == [(name, start) for name in ("t", "t2", "g", "o") for start in (True, False)]
    assert [record.record_id for record in told] == [record.record_id for record in verdict.records]
    times = [record.time for record in verdict.records]
    assert times == pytest.approx(sorted(times), abs=1e-3)


async def test_what_a_record_holds():
    registry = HookRegistry()

    def limit(event):
        return Block("too much")

    registry.register(limit, "before_run", lane="gate")
    before = time.time()
    verdict = await registry.fire(
        "before_run", {}, run_id="r", session_id="s", agent_name="a", attempt=3
    )
    start, ending = verdict.records
    for record in (start, ending):
        assert (record.point, record.hook, record.lane) == ("before_run", "limit", "gate")
        assert (record.mode, record.shadow, record.attempt) == ("enforce", False, 3)
        assert record.ids == {"run_id": "r", "session_id": "s", "agent_name": "a"}
        assert record.source.startswith(__file__)
        assert before - 1 < record.time < time.time() + 1
        assert (record.failure, record.error, record.changed) == (None, None, False)
    assert (start.decision, start.reason, start.duration_ms) == (None, "", None)
    assert (ending.decision, ending.reason) == ("block", "too much")
    assert 0 <= ending.duration_ms < 1000
    assert "limit" in repr(ending)


async def test_a_failure_tells_its_kind_and_error():
    registry = HookRegistry()
    registry.register(fails, POINT, name="h")
    ending = (await registry.fire(POINT, {})).records[1]
    assert (ending.failure, ending.error, ending.decision) == ("error", "ValueError: boom", None)
    assert "boom" in repr(ending)


@pytest.mark.parametrize("sink", [False, True])
async def test_record_ids_are_unique_uuid7_and_the_same_everywhere(sink, told):
    registry = HookRegistry(told.append if sink else None)
    for number in range(5):
        registry.register(suspends, POINT, name=f"h{number}")
    verdicts = [await registry.fire(POINT, {}) for _ in range(3)]
    ids = [record.record_id for verdict in verdicts for record in verdict.records]
    assert len(set(ids)) == 30
    assert {uuid.UUID(found).version for found in ids} == {7}
    assert {uuid.UUID(found).variant for found in ids} == {uuid.RFC_4122}
    again = [record.record_id for verdict in verdicts for record in verdict.records]
    assert again == ids
    assert [record.record_id for record in told] == (ids if sink else [])
    stamps = [uuid.UUID(found).int >> 80 for found in ids]
    assert abs(stamps[0] / 1000 - time.time()) < 60


@pytest.mark.parametrize("sink", [False, True])
async def test_what_an_observer_read_in_the_verdict_is_what_is_there_in_the_end(sink, told):
    registry, seen = HookRegistry(told.append if sink else None), []
    registry.register(lambda event: None, POINT, name="t")

    def observer(event):
        seen.append([record.record_id for record in event.verdict.records])

    registry.register(observer, POINT, name="o1", lane="observe")
    registry.register(observer, POINT, name="o2", lane="observe")
    verdict = await registry.fire(POINT, {})
    ids = [record.record_id for record in verdict.records]
    assert seen[0] == ids[:2]
    assert seen[1][:2] == ids[:2]


async def test_the_time_of_a_record_is_the_same_whenever_it_is_read():
    registry = HookRegistry()
    registry.register(lambda event: None, POINT, name="h")
    verdict = await registry.fire(POINT, {})
    for record in verdict.records:
        assert len({record.time for _ in range(50)}) == 1
        assert record.wire() == record.wire()


async def test_on_the_wire(sample):
    registry = HookRegistry()
    registry.register(
        lambda event: Continue('{"q": "y"}'),
        "on_tool_call",
        name="t",
        target_type="http",
        target_name="https://example.org",
        source="checkrail.yaml:7",
        on_error="block",
    )
    registry.register(lambda event: Block("no"), "before_tool_call", name="b")
    verdict = await registry.fire("before_tool_call", sample("before_tool_call"), run_id="r")
    start, changed, _, blocked = [record.wire() for record in verdict.records]
    assert json.loads(json.dumps([start, changed, blocked])) == [start, changed, blocked]
    common = {
        "point": "before_tool_call",
        "hook": "t",
        "source": "checkrail.yaml:7",
        "lane": "transform",
        "mode": "enforce",
        "shadow": False,
        "hook_type": "on_tool_call",
        "target_type": "http",
        "target_name": "https://example.org",
        "on_error_behavior": "block",
        "attempt": 1,
        "run_id": "r",
    }
    assert common.items() <= start.items()
    assert common.items() <= changed.items()
    assert (start["event_type"], changed["event_type"]) == ("hook_start", "hook_complete")
    assert start["record_id"] == verdict.records[0].record_id
    assert {"record_id", "time"} <= start.keys()
    when = datetime.fromisoformat(start["timestamp"])
    assert (when.tzinfo, start["timestamp"][-1]) == (UTC, "Z")
    assert when.timestamp() == pytest.approx(start["time"], abs=0.001)
    assert (changed["decision"], changed["action"]) == ("continue", "continue")
    assert changed["before"]["args"] == {"q": "x"}
    assert changed["after"]["args"] == {"q": "y"}
    assert changed["duration_ms"] >= 0
    assert blocked["event_type"] == "hook_blocked"
    assert (blocked["reason"], blocked["block_reason"]) == ("no", "no")
    assert blocked["action"] == "block"


async def test_failures_shadows_and_overruns_on_the_wire():
    registry = HookRegistry()
    registry.register(fails, POINT, name="f", mode="shadow", on_error={"error": "block"})
    registry.register(lambda event: time.sleep(0.01), POINT, name="o", timeout=0.005)
    verdict = await registry.fire(POINT, {})
    failed, overran = verdict.records[1].wire(), verdict.records[3].wire()
    assert (failed["failure"], failed["error"]) == ("error", "ValueError: boom")
    assert (failed["mode"], failed["shadow"]) == ("shadow", True)
    assert failed["on_error_behavior"] == "block"
    assert "decision" not in failed
    assert overran["overran"] is True


@pytest.mark.parametrize(
    ("said", "shown"),
    [("block", "block"), ("continue", "continue"), ({"timeout": "block"}, "continue")],
)
async def test_what_a_finish_hook_says_of_failures_is_shown_as_it_says_it(said, shown, caplog):
    registry = HookRegistry()
    registry.register(fails, "on_run_finish", name="f", on_error=said)
    verdict = await registry.fire("after_run", RunResult())
    assert verdict.decision == "continue"
    assert verdict.records[1].wire()["on_error_behavior"] == shown
    assert f"(on_error: {shown})" in caplog.text
    level = "ERROR" if shown == "block" else "WARNING"
    assert [record.levelname for record in caplog.records] == [level]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1737282600.25, "2025-01-19T10:30:00.250Z"),
        (1737282600.9999, "2025-01-19T10:30:01.000Z"),
    ],
)
def test_times_are_iso_8601_in_utc(seconds, text):
    assert iso_time(seconds) == text


async def test_how_many_messages_were_injected(sample):
    registry = HookRegistry()
    registry.register(lambda event: Continue(inject=[{}, {}]), "after_llm_call", name="two")
    registry.register(lambda event: None, "after_llm_call", name="none")
    verdict = await registry.fire("after_llm_call", sample("after_llm_call"))
    assert [record.injected for record in verdict.records] == [0, 2, 0, 0]
    assert verdict.records[1].wire()["injected"] == 2


async def test_history_full_keeps_values_whole():
    registry = HookRegistry()
    registry.register(lambda event: Continue({"a": 2}), POINT, name="h")
    start, ending = (await registry.fire(POINT, {"a": 1})).records
    assert ending.changed
    assert (ending.before, ending.after) == ({"a": 1}, {"a": 2})
    assert (start.before, start.after, start.changed) == (None, None, False)
    assert (ending.wire()["before"], ending.wire()["after"]) == ({"a": 1}, {"a": 2})


async def test_history_digest_keeps_names_of_values():
    registry = HookRegistry(history="digest")
    registry.register(lambda event: Continue({"a": 2}), POINT, name="h")
    ending = (await registry.fire(POINT, {"a": 1})).records[1]
    assert (ending.before, ending.after) == (digest({"a": 1}), digest({"a": 2}))
    assert ending.wire()["after"] == digest({"a": 2})


async def test_history_off_keeps_no_values():
    registry = HookRegistry(history="off")
    registry.register(lambda event: Continue({"a": 2}), POINT, name="h")
    ending = (await registry.fire(POINT, {"a": 1})).records[1]
    assert ending.changed
    assert (ending.before, ending.after) == (None, None)
    assert {"before", "after"}.isdisjoint(ending.wire())


async def test_where_nothing_changed_no_values_are_kept():
    registry = HookRegistry()
    registry.register(lambda event: None, POINT, name="h")
    registry.register(lambda event: Continue(), POINT, name="i")
    registry.register(lambda event, value: Continue(value), POINT, name="j")
    for record in (await registry.fire(POINT, {"a": 1})).records:
        assert (record.changed, record.before, record.after) == (False, None, None)


async def test_no_hook_no_record(told):
    registry = HookRegistry(told.append)
    verdict = await registry.fire(POINT, {"a": 1})
    assert (verdict.decision, verdict.value, verdict.hook) == ("continue", {"a": 1}, None)
    assert (verdict.records, verdict.inject, told) == ((), (), [])
    assert (verdict.reason, verdict.status, verdict.code) == ("", None, None)
    assert "continue" in repr(verdict)


async def test_a_record_says_who_was_acting():
    registry = HookRegistry()
    registry.register(lambda event: None, POINT, name="h")
    verdict = await registry.fire(POINT, {}, user="ann")
    assert verdict.records[1].wire()["user_id"] == "ann"


@pytest.mark.parametrize("sink", ["audit.jsonl", [5]])
def test_what_cannot_take_records_is_refused(sink):
    with pytest.raises(TypeError, match="JsonLinesSink"):
        HookRegistry(sink)


async def test_a_record_says_in_which_round_of_the_loop_it_was(sample, told):
    registry = HookRegistry(told.append)
    registry.register(lambda event: None, POINT, name="h")
    await registry.scope(iteration=3).fire(POINT, sample(POINT))
    await registry.fire(POINT, sample(POINT))
    assert [record.wire().get("iteration") for record in told] == [3, 3, None, None]
