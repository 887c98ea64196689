"""Records as a server tells them: how the time of a run is split, and what of it is printed."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from checkrail import Block, Continue, HookRegistry
from checkrail.cli.records import Recorded, TimeSplit, finished_calls, split_time, unfinished_calls
from checkrail.cli.run_page import format_duration, print_run

BEGAN = 1_700_000_000.0
SHOWN = ["kind", "point", "hook", "lane", "shadow", "decision", "reason", "failure", "error"]
SHOWN += ["changed", "redacted", "before", "after", "injected", "answer", "overran"]


def at(seconds):
    return None if seconds is None else datetime.fromtimestamp(BEGAN + seconds, UTC).isoformat()


def run(started=1.0, ended=9.0, **more):
    nothing = dict.fromkeys(("blocked_by", "block_reason", "error", "error_type", "usage"))
    return {
        **nothing,
        "run_id": "run-1",
        "thread_id": "thread-1",
        "agent_name": "support",
        "created_at": at(0),
        "started_at": at(started),
        "ended_at": at(ended),
        "status": "success" if ended else "running",
        "phase": "success" if ended else "running",
        "attempt": 1,
        "cancel_reason": None,
        "origin": "api",
        **more,
    }


def call(hook, ends, took, point="before_tool_call", **more):
    told = {"hook": hook, "point": point, "lane": "gate", "event_type": "hook_complete"}
    told |= {"decision": "continue", "time": BEGAN + ends, "duration_ms": took * 1000}
    told["call_id"] = f"{hook} {float(ends - took)}"
    return Recorded(told | more)


def start(hook, begins, point="before_tool_call"):
    told = {"hook": hook, "point": point, "lane": "gate", "event_type": "hook_start"}
    told["call_id"] = f"{hook} {float(begins)}"
    return Recorded(told | {"time": BEGAN + begins})


def page(run, records, now=BEGAN + 10):
    out = Console(file=StringIO(), width=1000, highlight=False, soft_wrap=True)
    print_run(out, run, records, now)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_time_is_split_between_waiting_hooks_and_agent():
    calls = [call("admit", 0.5, 0.5, "before_run"), call("limit", 4, 2), call("report", 9.5, 0.5)]
    assert split_time(run(), calls, BEGAN + 99) == TimeSplit(waiting=0.5, hooks=3.0, agent=6.0)


def test_hooks_at_once_leave_the_agent_the_rest():
    calls = [call("a", 5, 4), call("b", 4, 2), call("c", 6, 2)]
    assert split_time(run(), calls, BEGAN + 99) == TimeSplit(waiting=1.0, hooks=8.0, agent=3.0)


def test_the_time_of_a_run_that_goes_on_is_counted_until_now():
    assert split_time(run(ended=None), [], BEGAN + 4) == TimeSplit(
        waiting=1.0, hooks=0.0, agent=3.0
    )
    waiting = split_time(run(started=None, ended=None), [], BEGAN + 4)
    assert waiting == TimeSplit(waiting=4.0, hooks=0.0, agent=0.0)


def test_a_call_without_an_ending_is_unfinished():
    story = [start("a", 1), call("a", 2, 1), start("a", 3), start("b", 3), call("b", 4, 1)]
    assert [record.time - BEGAN for record in unfinished_calls(story)] == [3]
    assert [record.hook for record in finished_calls(story)] == ["a", "b"]


async def test_a_record_has_on_the_wire_all_that_a_timeline_shows():
    kept = []
    registry = HookRegistry(kept.append)
    registry.register(lambda event: None, "before_run", name="look")
    registry.register(lambda event: Continue({"a": 2}), "before_run", name="change")
    registry.register(lambda event: Continue({"a": 3}, redacted=True), "before_run", name="hide")
    registry.register(lambda event: 1 / 0, "before_run", name="fail", on_error="continue")
    registry.register(lambda event: Block("no"), "before_run", name="try", mode="shadow")
    registry.register(lambda event: Block("no"), "before_run", name="stop", lane="gate")
    await registry.fire("before_run", {"a": 1}, run_id="run-1")
    assert len(kept) == 12
    for record in kept:
        read = Recorded(record.wire())
        for name in SHOWN:
            assert getattr(read, name) == getattr(record, name), (record, name)


def test_a_page_has_the_agent_between_the_hooks():
    calls = [call("admit", 0.25, 0.25, "before_run"), call("limit", 4, 2), call("look", 9, 1)]
    usage = {"gpt-5": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
    lines = page(run(usage=usage, attempt=2), calls)
    assert "  time       agent 5.00 s, hooks 3.25 s in 3 calls, waited 750 ms" in lines
    assert "  usage      gpt-5: 3 in, 2 out, 5 in all" in lines
    assert "  attempts   2" in lines
    assert [line for line in lines if not line.startswith("  ")] == [
        "run run-1 of support",
        "before_run  +0 ms",
        "… waiting 750 ms",
        "… agent 1.00 s",
        "before_tool_call  +2.00 s",
        "… agent 4.00 s",
        "before_tool_call  +8.00 s",
    ]


def test_calls_right_after_each_other_stand_together():
    calls = [call("a", 4, 2), call("b", 5, 1), call("c", 5.5, 0.5, "on_result")]
    lines = page(run(started=0, ended=5.5), calls)
    assert [line.split()[0] for line in lines[-6:]] == [
        "…",
        "before_tool_call",
        "gate",
        "gate",
        "on_result",
        "gate",
    ]


def test_a_hook_that_hangs_and_one_that_was_cut_off_are_told():
    cut = call("cut", 3, 1, event_type="hook_failed", failure="lost", error="it went away")
    del cut.told["decision"], cut.told["duration_ms"]
    lines = page(run(ended=None), [start("cut", 2), cut, start("slow", 4)], BEGAN + 7)
    assert lines[-1] == "slow at before_tool_call has been running for 3.00 s"
    assert any("failed (lost)" in line and "it went away" in line for line in lines)


def test_deliveries_say_how_they_went():
    done = {"kind": "after_run", "status": "done", "attempts": 1, "last_error": None}
    dead = {"kind": "webhook", "status": "dead", "attempts": 8, "last_error": "it answered 500"}
    lines = page(run(deliveries=[done, dead]), [])
    assert "  delivery   after_run done" in lines
    assert "  delivery   webhook dead after 8 attempts: it answered 500" in lines


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 ms"), (0.5, "500 ms"), (1, "1.00 s"), (119, "119.00 s"), (125, "2 min 5 s")],
)
def test_times_are_written_for_people(seconds, told):
    assert format_duration(seconds) == told


def test_long_times_are_written_in_hours():
    assert format_duration(2 * 3600 + 61) == "2 h 1 min"
