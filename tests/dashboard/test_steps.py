"""The steps of a run, from its records and events."""

from checkrail.dashboard import steps

NOW = 1_000_100.0
RUN = {
    "created_at": "1970-01-12T13:46:40+00:00",  # 1,000,000
    "started_at": "1970-01-12T13:46:41+00:00",
    "ended_at": "1970-01-12T13:46:50+00:00",
    "deliveries": [],
}


def call(name, at, took=0.1, **more):
    """Return the two records of one call of a hook."""
    about = {
        "hook": name,
        "point": "on_run_start",
        "call_id": f"c-{name}-{at}",
        "attempt": 1,
        **more,
    }
    start = {**about, "event_type": "hook_start", "time": at, "record_id": f"s-{name}-{at}"}
    kind = {"block": "hook_blocked"}.get(more.get("decision"), "hook_complete")
    end = {**about, "event_type": kind, "time": at + took, "duration_ms": took * 1000}
    return [start, {**end, "record_id": f"e-{name}-{at}"}]


def labels(*records, fold=None, run=RUN, marks=(), approvals=()):
    told = steps.Told(run, [*records], approvals, marks)
    return [(step.level, step.label) for step in steps.build_steps(told, NOW, fold=fold)]


def test_a_run_without_hooks_has_waited():
    assert labels() == [(1, "queue")]


def test_hooks_of_one_dispatch_stand_below_their_point():
    one = call("a", 1_000_001, dispatch="d1"), call("b", 1_000_002, dispatch="d1")
    found = labels(*one[0], *one[1], *call("c", 1_000_003, dispatch="d2"))
    assert found[1:] == [(1, "on_run_start"), (2, "a"), (2, "b"), (1, "c")]


def test_hooks_that_passed_are_folded_and_decisions_are_not():
    passed = call("a", 1_000_001, dispatch="d"), call("b", 1_000_002, dispatch="d")
    blocked = call("c", 1_000_003, dispatch="d", decision="block")
    found = labels(*passed[0], *passed[1], *blocked, fold=True)
    assert found[1:] == [(1, "on_run_start"), (2, "c")]


def test_many_calls_are_folded_by_themselves():
    records = [each for n in range(301) for each in call(f"h{n}", 1_000_001, dispatch="d")]
    assert len(labels(*records)) == 2
    assert len(labels(*records, fold=False)) == 303


def test_tools_that_run_at_once_are_told_apart():
    first = call("a", 1_000_001, dispatch="d1", tool_call_id="t1", point="before_tool_call")
    other = call("a", 1_000_001.5, dispatch="d2", tool_call_id="t2", point="before_tool_call")
    after = call("b", 1_000_003, dispatch="d3", tool_call_id="t1", point="after_tool_call")
    marks = [
        {"event": f"tool_{what}", "time": at, "data": {"tool_call_id": call_id, "tool_name": name}}
        for what, at, call_id, name in (
            ("started", 1_000_001.2, "t1", "lookup"),
            ("started", 1_000_001.8, "t2", "transfer"),
            ("finished", 1_000_002.5, "t1", "lookup"),
            ("finished", 1_000_004, "t2", "transfer"),
        )
    ]
    found = labels(*first, *other, *after, marks=marks)
    assert found[1:] == [(1, "tool lookup"), (2, "a"), (2, "b"), (1, "tool transfer"), (2, "a")]


def test_a_call_without_an_ending_goes_on():
    start, _ = call("slow", 1_000_005)
    told = steps.Told(RUN | {"ended_at": None}, [start])
    step = steps.build_steps(told, NOW)[-1]
    assert (step.label, step.ended, step.status.word) == ("slow", None, "running")


def test_a_model_that_a_crash_cut_off_ends_with_its_run():
    mark = {"event": "model_started", "time": 1_000_002, "data": {"call": "m", "model": "gpt"}}
    step = steps.build_steps(steps.Told(RUN, [], (), [mark]), NOW)[-1]
    assert (step.label, step.ended) == ("model gpt", 1_000_010)


def test_a_long_wait_is_cut_so_that_the_rest_can_be_seen():
    asked = {
        "approval_id": "a",
        "question": "May I?",
        "created_at": 1_000_002,
        "status": "approved",
    }
    asked["answered_at"] = 1_000_002 + 7200
    run = RUN | {"ended_at": "1970-01-12T15:46:50+00:00"}
    found = steps.build_steps(steps.Told(run, call("a", 1_000_001), [asked]), NOW)
    axis = steps.build_axis(found, run, NOW)
    hook = next(step for step in found if step.label == "a")
    assert axis.cuts == ((1_000_002, 1_007_202.0),)
    assert axis.bar(hook, NOW)[0] > 5


def test_bars_stand_within_the_page():
    records = [each for n in range(50) for each in call(f"h{n}", 1_000_000 + n / 5)]
    told = steps.Told(RUN, records)
    found = steps.build_steps(told, NOW)
    axis = steps.build_axis(found, RUN, NOW)
    for step in found:
        x, width = axis.bar(step, NOW)
        assert 0 <= x < 100
        assert 0 < width <= 100.5


def test_time_is_shared_without_counting_any_twice():
    both = [*call("a", 1_000_002, 4.0), *call("b", 1_000_003, 4.0)]
    shares = steps.share_time(steps.Told(RUN, both), NOW)
    assert (shares.queue, shares.hooks, shares.agent) == (1.0, 5.0, 4.0)
