"""Hooks at run level: at admission, at the start, on the result, and at the end."""

import asyncio
import contextlib
from typing import Any

import pytest

from checkrail.engine.outcomes import Block, Continue, Fail, RejectRun, Replace
from checkrail.runs.admit.requests import RunRequest
from checkrail.runs.errors import RefusedError
from checkrail.store import runs

from .support import ADA, USED, Gate, ask, chain, fail, say, talk, until

SECRET = "sk-12345"


def continuing(value, **more):
    async def hook(event):
        return Continue(value(event.value), **more)

    return hook


def saying(outcome):
    async def hook(event):
        return outcome

    return hook


def raising(error):
    async def hook(event):
        raise error

    return hook


async def hanging(event):
    await asyncio.sleep(60)


async def stubborn(event):
    """Swallow what it is cancelled by, until nobody waits for it any more."""
    for _ in range(2):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
    await asyncio.sleep(60)


class Told:
    """What finish hooks were told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def hear(self, event):
        self.events.append(event)

    @property
    def hooks(self):
        return (self.hear, "after_run", {"name": "after"}), (
            self.hear,
            "on_run_error",
            {"name": "error"},
        )

    async def of(self, served, run):
        await served.settled(run)
        return [(e.point, e.value) for e in self.events if e.run_id == run.run_id]


REFUSALS = {
    "a block": (saying(Block("no more", 402, "quota")), 402, "no more"),
    "a rejection": (raising(RejectRun("Active subscription required", 402)), 402, "subscription"),
    "a rejection without words": (raising(RejectRun()), 429, "Run rejected by hook"),
    "a failure": (saying(Fail("broken", status=503)), 503, "broken"),
    "a crash": (raising(KeyError("x")), 500, "failed"),
    "a late answer": (hanging, 504, "did not answer|timed out|within"),
    "a hook that will not end": (stubborn, 504, "timed out"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_run_is_refused_at_admission_with_a_status_and_a_reason(world, refusal):
    hook, status, reason = REFUSALS[refusal]
    served = await world.open({"say": chain(say)}, (hook, "before_run", {"timeout": 0.1}))
    thread = await served.thread()
    with pytest.raises(RefusedError, match=reason) as refused:
        await served.admit("say", {"text": "x"}, thread)
    assert refused.value.status == status
    assert (await served.thread_row(thread)).status == "idle"


async def test_a_refused_run_is_kept_for_the_audit_and_fires_no_finish_hook(world):
    told = Told()
    reject = raising(RejectRun("not today", 402))
    served = await world.open(
        {"say": chain(say)}, (reject, "before_run", {"name": "gate"}), *told.hooks
    )
    with pytest.raises(RefusedError) as refused:
        await served.admit("say", {"text": "x"}, await served.thread(), after_seconds=5)
    row = await served.row(refused.value.run_id)
    assert (row.status, row.phase, row.blocked_by) == ("error", "refused", "gate")
    assert (row.block_reason, row.input) == ("not today", {"text": "x"})
    assert row.ended_at is not None
    assert await served.owed(row) == []
    kinds = [record["event_type"] for record in await served.records(row.run_id)]
    assert kinds == ["hook_start", "hook_blocked"]
    assert told.events == []


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 a pair"], ids=["nul", "surrogate"])
async def test_a_reason_that_no_database_can_keep_as_it_is_refuses_all_the_same(world, text):
    served = await world.open({"say": chain(say)}, (saying(Block(text, 402)), "before_run"))
    with pytest.raises(RefusedError) as refused:
        await served.admit("say", {"text": text}, await served.thread())
    assert refused.value.status == 402
    assert (await served.row(refused.value.run_id)).phase == "refused"


async def test_a_gate_that_crashes_keeps_refusing(world):
    served = await world.open({"say": chain(say)}, (raising(KeyError("x")), "before_run"))
    for _ in range(3):
        with pytest.raises(RefusedError):
            await served.admit("say", {})


async def test_of_a_batch_with_one_that_is_refused_none_runs(world):
    async def pick(event):
        if event.value["text"] == "bad":
            raise RejectRun("bad", 402)

    served = await world.open({"say": chain(say)}, (pick, "before_run"))
    wanted = [RunRequest(assistant_id="say", input={"text": text}) for text in ("a", "bad", "c")]
    with pytest.raises(RefusedError):
        await served.service.admit(wanted, ADA)
    kept = await served.read(lambda reads: runs.search(reads, limit=10))
    assert [(row.phase, row.input["text"]) for row in kept] == [("refused", "bad")]


async def test_what_before_run_changes_is_what_runs_and_both_forms_are_kept(world):
    shout = continuing(lambda value: {"text": value["text"].upper()})
    served = await world.open({"say": chain(say)}, (shout, "before_run"))
    row = await served.run("say", {"text": "x"}, await served.thread())
    assert row.output["said"] == ["X"]
    kept = await served.row(row)
    assert (kept.input, kept.parameters) == ({"text": "x"}, {"text": "X"})


async def test_what_before_run_redacts_is_kept_nowhere(world):
    hide = continuing(lambda value: {"text": "***"}, redacted=True)
    served = await world.open({"say": chain(say)}, (hide, "before_run"))
    row = await served.run("say", {"text": SECRET}, await served.thread())
    assert row.output["said"] == ["***"]
    kept = [await served.row(row), await served.records(row), await served.events(row)]
    assert SECRET not in repr(kept)


async def test_before_run_rules_on_the_answer_of_a_resume(world):
    async def check(event):
        if event.value == {"resume": "no"}:
            raise RejectRun("say yes", 403)
        if "resume" in event.value:
            return Continue({"resume": "YES"})
        return None

    served = await world.open({"ask": chain(ask)}, (check, "before_run"))
    thread = await served.thread()
    await served.run("ask", {"text": "x"}, thread)
    with pytest.raises(RefusedError, match="say yes"):
        await served.admit("ask", None, thread, command={"resume": "no"})
    assert (await served.thread_row(thread)).status == "interrupted"
    row = await served.run("ask", None, thread, command={"resume": "yes"})
    assert row.output["said"] == ["YES"]


async def test_start_hooks_see_and_change_what_before_run_has_made_of_the_input(world):
    seen = []

    async def more(event):
        seen.append(event.value)
        return Continue({"text": event.value["text"] + "!"})

    shout = continuing(lambda value: {"text": value["text"].upper()})
    served = await world.open(
        {"say": chain(say)}, (shout, "before_run"), (more, "on_run_start", {"name": "more"})
    )
    row = await served.run("say", {"text": "x"}, await served.thread())
    assert seen == [{"text": "X"}]
    assert row.output["said"] == ["X!"]
    kept = await served.row(row)
    assert (kept.input, kept.parameters) == ({"text": "x"}, {"text": "X!"})


async def test_start_hooks_see_and_change_the_answer_of_a_resume(world):
    seen = []

    async def watch(event):
        seen.append(event.value)
        return Continue({"resume": "changed"}) if "resume" in event.value else None

    served = await world.open({"ask": chain(ask)}, (watch, "on_run_start"))
    thread = await served.thread()
    await served.run("ask", {"text": "x"}, thread)
    row = await served.run("ask", None, thread, command={"resume": "yes"})
    assert seen == [{"text": "x"}, {"resume": "yes"}]
    assert row.output["said"] == ["changed"]


async def test_a_block_at_the_start_ends_the_run_as_blocked_and_the_thread_is_idle(world):
    gate, told = Gate(), Told()
    stop = saying(Block("not now", 409))
    served = await world.open(
        {"slow": gate.graph()}, (stop, "on_run_start", {"name": "stop"}), *told.hooks
    )
    thread = await served.thread()
    row = await served.run("slow", {"text": "x"}, thread)
    assert (row.status, row.phase, row.blocked_by) == ("error", "blocked", "stop")
    assert (row.block_reason, gate.count) == ("not now", 0)
    assert (await served.thread_row(thread)).status == "idle"
    [(point, value)] = await told.of(served, row)
    assert (point, value.error, value.error_type) == ("on_run_error", "not now", "Blocked")


async def test_a_fail_at_the_start_ends_the_run_as_an_error(world):
    served = await world.open({"say": chain(say)}, (saying(Fail("broken")), "on_run_start"))
    row = await served.run("say", {})
    assert (row.status, row.phase, row.error_type) == ("error", "error", "HookFailed")


async def test_what_a_start_hook_gives_stands_for_the_result(world):
    gate = Gate()
    served = await world.open(
        {"slow": gate.graph()}, (saying(Replace({"said": ["cached"]})), "on_run_start")
    )
    thread = await served.thread()
    row = await served.run("slow", {"text": "x"}, thread)
    assert (row.status, row.output, gate.count) == ("success", {"said": ["cached"]}, 0)
    assert (await served.thread_row(thread)).status == "idle"
    told = [(event.event, event.data) for event in await served.events(row)]
    assert ("values", {"said": ["cached"]}) in told


async def test_what_a_start_hook_gives_still_passes_the_hooks_on_results(world):
    cached = saying(Replace({"said": [SECRET]}))
    hide = continuing(lambda value: {"said": ["***"]}, redacted=True)
    served = await world.open({"say": chain(say)}, (cached, "on_run_start"), (hide, "on_result"))
    row = await served.run("say", {}, await served.thread())
    assert row.output == {"said": ["***"]}
    assert SECRET not in repr([await served.row(row), await served.events(row)])


@pytest.mark.parametrize(
    ("hook", "kind"), [(raising(KeyError("x")), "error"), (hanging, "timeout")]
)
async def test_a_start_hook_that_fails_is_recorded_and_the_run_goes_on(world, hook, kind):
    served = await world.open({"say": chain(say)}, (hook, "on_run_start", {"timeout": 0.1}))
    row = await served.run("say", {"text": "x"})
    assert row.status == "success"
    last = (await served.records(row))[-1]
    assert (last["event_type"], last["failure"]) == ("hook_failed", kind)


async def test_a_start_hook_that_fails_and_has_to_hold_ends_the_run_as_blocked(world):
    served = await world.open(
        {"say": chain(say)}, (raising(KeyError("x")), "on_run_start", {"on_error": "block"})
    )
    row = await served.run("say", {"text": "x"})
    assert (row.status, row.phase) == ("error", "blocked")


async def reveal(state):
    return {"said": [SECRET]}


async def test_a_block_of_the_result_ends_the_run_as_blocked_and_shows_nothing(world):
    served = await world.open({"reveal": chain(reveal)}, (saying(Block("hidden")), "on_result"))
    thread = await served.thread()
    row = await served.run("reveal", {"text": "x"}, thread)
    assert (row.status, row.phase, row.output) == ("error", "blocked", None)
    kept = [await served.row(row), await served.thread_row(thread), await served.events(row)]
    assert SECRET not in repr(kept)


async def test_a_result_that_a_hook_changes_is_the_output_the_values_and_the_state(world):
    hide = continuing(lambda value: {**value, "said": ["***"]}, redacted=True)
    served = await world.open({"say": chain(say)}, (hide, "on_result"))
    thread = await served.thread()
    row = await served.run("say", {"text": "x"}, thread)
    assert row.output["said"] == ["***"]
    assert (await served.thread_row(thread)).values["said"] == ["***"]
    assert (await served.state("say", thread))["said"] == ["***"]
    values = [event.data for event in await served.events(row) if event.event == "values"]
    assert values[-1]["said"] == ["***"]


async def test_after_run_is_told_of_a_success_with_all_that_belongs_to_it(world):
    told = Told()
    served = await world.open({"talk": talk()}, *told.hooks)
    given = {"messages": [{"role": "user", "content": "hi"}]}
    row = await served.run("talk", given, await served.thread(), config={"tags": ["t"]})
    [(point, value)] = await told.of(served, row)
    [event] = told.events
    assert (point, value.status, value.input) == ("after_run", "success", given)
    assert value.output["messages"][-1]["content"] == "heard hi"
    assert (value.usage, value.attempt) == (USED, 1)
    assert (event.user.identity, event.metadata["config"]) == ("ada", {"tags": ["t"]})


async def test_after_run_is_told_of_an_interrupt_too(world):
    told = Told()
    served = await world.open({"ask": chain(ask)}, *told.hooks)
    row = await served.run("ask", {"text": "x"}, await served.thread())
    [(point, value)] = await told.of(served, row)
    assert (point, value.status) == ("after_run", "interrupted")


async def test_on_run_error_is_told_of_an_error_a_timeout_and_a_cancel(world):
    told, gate = Told(), Gate()
    served = await world.open({"fail": chain(fail), "slow": gate.graph()}, *told.hooks)
    failed = await served.run("fail", {"text": "broke"})
    late = await served.run("slow", {"text": "x"}, timeout_seconds=0.1)
    gate.entered.clear()
    stopped = await served.admit("slow", {"text": "y"})
    await gate.entered.wait()
    await served.service.cancel(stopped.run_id, "interrupt")
    found = []
    for row in (failed, late, await served.over(stopped)):
        [(point, value)] = await told.of(served, row)
        assert point == "on_run_error"
        found.append((value.status, value.error_type, value.input["text"]))
    assert found == [
        ("error", "ValueError", "broke"),
        ("timeout", "TimeoutError", "x"),
        ("interrupted", "CancelledError", "y"),
    ]


async def test_partial_usage_reaches_the_hooks_on_errors(world):
    told = Told()
    served = await world.open({"talk": talk(fail)}, *told.hooks)
    row = await served.run("talk", {"messages": [{"role": "user", "content": "hi"}]})
    [(_, value)] = await told.of(served, row)
    assert (value.error_type, value.usage) == ("ValueError", USED)


async def test_every_call_of_a_hook_leaves_a_start_and_one_ending(world):
    told = Told()
    quiet = saying(None)
    hooks = [
        (quiet, point, {"name": point}) for point in ("before_run", "on_run_start", "on_result")
    ]
    served = await world.open({"say": chain(say)}, *hooks, *told.hooks)
    row = await served.run("say", {"text": "x"}, await served.thread())
    await served.settled(row)

    async def all_there():
        found = [(each["event_type"], each["point"]) for each in await served.records(row)]
        return found if len(found) >= 8 else None

    found = await until(all_there)
    points = ["before_run", "on_run_start", "on_result", "after_run"]
    assert found == [(kind, point) for point in points for kind in ("hook_start", "hook_complete")]
