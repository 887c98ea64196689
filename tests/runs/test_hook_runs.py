"""Hooks that are agents: their runs are ordinary ones, and what they answer decides."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from checkrail import Ask, Continue
from checkrail.hooks import RunHooks
from checkrail.runs.approvals import Answer
from checkrail.runs.errors import InvalidError
from checkrail.store import approvals, records, runs

from .support import agent_hook, chain, graph_agent, procedural, say, until

START = {
    "type": "object",
    "required": ["parameters", "agent_name"],
    "properties": {"parameters": {"type": "object"}},
}


def go_on(told):
    return {"action": "continue", "parameters": told["parameters"]}


def shout(told):
    changed = {**told["parameters"], "text": told["parameters"]["text"].upper()}
    return {"action": "continue", "parameters": changed}


def refuse(told):
    return {"action": "block", "block_reason": "not today"}


async def opened(world, hook_agent, point="on_run_start", functions=None, **more):
    """A graph with a hook that is the agent `looker`."""
    spec = agent_hook(world.outside, "looker", point, **more)
    agents = [
        graph_agent("say", hooks=(spec,)),
        procedural("looker", parameters_schema=START if point == "on_run_start" else {}),
    ]
    functions = {"looker": hook_agent, **(functions or {})}
    return await world.open({"say": chain(say)}, agents=agents, functions=functions)


async def failure(served, run):
    """What the one hook that failed in a run has to say."""
    [failed] = [each for each in await served.records(run) if each["event_type"] == "hook_failed"]
    return failed["error"]


async def hook_run_of(served, run):
    def find(reads):
        found = runs.search(reads, agent_name="looker", limit=10)
        return next((row for row in found if row.parent_run_id == run.run_id), None)

    return await until(lambda: served.read(find), "the hook's run")


async def test_an_agent_that_goes_on_lets_the_run_go_on(world):
    seen = []

    def look(told):
        seen.append(told)
        return go_on(told)

    served = await opened(world, look)
    ended = await served.run("say", {"text": "hi"})
    assert (ended.error, ended.status) == (None, "success")
    assert ended.output["said"] == ["hi"]
    assert seen == [
        {
            "parameters": {"text": "hi"},
            "agent_name": "say",
            "session_id": ended.session_id,
            "run_id": ended.run_id,
        }
    ]


async def test_its_run_is_an_ordinary_one_that_knows_whose_hook_it_was(world):
    served = await opened(world, go_on)
    ended = await served.run("say", {"text": "hi"})
    hook_run = await hook_run_of(served, ended)
    assert (hook_run.status, hook_run.origin, hook_run.depth) == ("success", "hook", 1)
    assert hook_run.user["identity"] == "ada"


async def test_what_it_changes_is_kept_beside_what_was_asked(world):
    served = await opened(world, shout)
    ended = await served.row(await served.run("say", {"text": "hi"}))
    assert (ended.input, ended.parameters) == ({"text": "hi"}, {"text": "HI"})
    assert ended.output["said"] == ["HI"]


async def test_it_can_refuse_the_run(world):
    served = await opened(world, refuse)
    ended = await served.run("say", {"text": "hi"})
    assert (ended.phase, ended.block_reason) == ("blocked", "not today")


@pytest.mark.parametrize(("on_error", "phase"), [("block", "blocked"), ("continue", "success")])
async def test_one_that_fails_does_as_on_error_says(world, on_error, phase):
    def broken(told):
        raise ValueError("it broke")

    served = await opened(world, broken, on_error=on_error)
    ended = await served.run("say", {"text": "hi"})
    assert ended.phase == phase
    assert "it broke" in await failure(served, ended)
    if on_error == "continue":
        assert ended.output["said"] == ["hi"]


@pytest.mark.parametrize(("on_error", "phase"), [("block", "blocked"), ("continue", "success")])
async def test_an_answer_that_is_none_is_a_failure(world, on_error, phase):
    served = await opened(world, lambda told: {"verdict": "fine"}, on_error=on_error)
    assert (await served.run("say", {"text": "hi"})).phase == phase


async def test_one_that_is_late_is_stopped(world):
    async def slow(told):
        await asyncio.sleep(60)

    served = await opened(world, slow, timeout_seconds=2)  # by then its run has begun
    ended = await served.run("say", {"text": "hi"})
    assert ended.phase == "blocked"
    assert (await served.over(await hook_run_of(served, ended))).phase in (
        "cancelled",
        "timeout",
    )


async def test_stopping_the_run_stops_its_hook(world):
    began = asyncio.Event()

    async def slow(told):
        began.set()
        await asyncio.sleep(60)

    served = await opened(world, slow)
    run = await served.admit("say", {"text": "hi"}, await served.thread())
    await began.wait()
    await served.service.cancel(run.run_id, "interrupt")
    assert (await served.over(run)).phase == "cancelled"
    assert (await served.over(await hook_run_of(served, run))).phase == "cancelled"


async def test_what_the_agent_cannot_be_told_blocks_the_run_whatever_on_error_says(world):
    spec = agent_hook(world.outside, "looker", "on_run_start", on_error="continue")
    strict = {"type": "object", "required": ["password"]}
    agents = [graph_agent("say", hooks=(spec,)), procedural("looker", parameters_schema=strict)]
    served = await world.open({"say": chain(say)}, agents=agents, functions={"looker": go_on})
    ended = await served.run("say", {"text": "hi"})
    assert ended.phase == "blocked"
    assert "cannot be asked" in ended.error
    assert "password" in ended.error


async def test_changed_parameters_that_do_not_fit_are_invalid(world):
    spec = agent_hook(world.outside, "looker", "on_run_start", on_error="block")
    takes = {"type": "object", "properties": {"text": {"maxLength": 3, "type": "string"}}}
    agents = [graph_agent("say", hooks=(spec,), parameters_schema=takes)]

    def lengthen(told):
        return {"action": "continue", "parameters": {"text": "far too long"}}

    served = await world.open({"say": chain(say)}, agents=agents, functions={"looker": lengthen})
    ended = await served.run("say", {"text": "hi"})
    assert ended.phase == "blocked"
    assert "do not fit the schema" in await failure(served, ended)


async def test_with_room_for_one_run_a_hook_still_runs(world):
    spec = agent_hook(world.outside, "looker", "on_run_start")
    served = await world.open(
        {"say": chain(say)},
        agents=[graph_agent("say", hooks=(spec,))],
        functions={"looker": go_on},
        capacity=1,
    )
    ended = await asyncio.gather(*(served.run("say", {"text": str(n)}) for n in range(5)))
    assert [row.status for row in ended] == ["success"] * 5


async def test_runs_of_hooks_leave_the_capacity_to_those_that_wait_for_them(world):
    """With room for two runs, two are under way at once, whatever their hooks do meanwhile."""
    looking, release = [], asyncio.Event()

    async def look(told):
        looking.append(told["run_id"])
        await release.wait()
        return go_on(told)

    spec = agent_hook(world.outside, "looker", "on_run_start")
    agents = [graph_agent("say", hooks=(spec,)), procedural("looker", parameters_schema=START)]
    served = await world.open(
        {"say": chain(say)}, agents=agents, functions={"looker": look}, capacity=2
    )
    rows = []
    for number in (1, 2):
        rows.append(await served.admit("say", {"text": "x"}))

        async def looked(number=number):
            return len(looking) == number

        await until(looked, f"the hooks of {number} runs")
    rows.append(await served.admit("say", {"text": "x"}))
    assert served.service.worker.room == 0
    assert (await served.row(rows[2])).status == "pending"
    release.set()
    assert [(await served.over(row)).status for row in rows] == ["success"] * 3


async def test_hooks_within_hooks_need_no_capacity(world):
    names = [f"a{number}" for number in range(6)]
    agents = [
        procedural(name, hooks=(agent_hook(world.outside, following, "on_result"),))
        for name, following in itertools.pairwise(names)
    ]
    functions = dict.fromkeys(names, lambda _told: {"action": "continue"})
    served = await world.open({}, agents=agents, functions=functions, capacity=1)
    rows = [await served.admit("a0", {}) for _ in range(3)]
    assert [(await served.over(row)).status for row in rows] == ["success"] * 3
    found = await served.read(lambda reads: runs.search(reads, limit=100))
    assert len(found) == 18


async def test_a_hooks_run_that_waited_for_a_person_goes_on_though_there_is_no_room(world):
    async def ask_first(event, value):
        return Ask("May it look?") if event.agent_name == "looker" else None

    spec = agent_hook(world.outside, "looker", "on_result")
    served = await world.open(
        {"say": chain(say)},
        (ask_first, "on_run_start"),
        agents=[graph_agent("say", hooks=(spec,))],
        functions={"looker": lambda _told: {"action": "continue"}},
        capacity=1,
    )
    row = await served.admit("say", {"text": "x"})
    looking = await hook_run_of(served, row)

    async def asked():
        found = await served.read(lambda reads: approvals.of_run(reads, looking.run_id))
        waits = (await served.row(looking)).phase == "waiting"
        return found if waits else None

    [question] = await until(asked, "the question")
    await served.service.approver.answer(question.approval_id, Answer(approved=True))
    assert (await served.over(row)).status == "success"


async def test_hooks_of_the_server_hold_in_hook_runs_and_the_parents_own_do_not(world):
    seen = []

    def watch(event, value):
        seen.append(event.agent_name)
        return Continue()

    spec = agent_hook(world.outside, "looker", "on_run_start")
    served = await world.open(
        {"say": chain(say)},
        (watch, "on_run_start", {"name": "watch"}),
        agents=[graph_agent("say", hooks=(spec,))],
        functions={"looker": go_on},
    )
    await served.run("say", {"text": "hi"})
    assert seen == ["say", "looker"]


async def test_a_hook_of_the_server_does_not_fire_in_the_run_that_it_starts(world):
    served = await world.open({"say": chain(say)}, functions={"looker": shout})
    served.parts.registry.register(agent_hook(world.outside, "looker", "on_run_start"))
    ended = await served.run("say", {"text": "hi"})
    assert ended.output["said"] == ["HI"]


async def test_a_circle_is_stopped_at_run_time(world):
    agents = [
        procedural("one", hooks=(agent_hook(world.outside, "two", "on_result"),)),
        procedural("two", hooks=(agent_hook(world.outside, "one", "on_result"),)),
    ]
    functions = {"one": lambda told: {}, "two": lambda told: {"action": "continue"}}
    served = await world.open({}, agents=agents, functions=functions)
    ended = await served.run("one", {})
    assert ended.phase == "blocked"
    [two] = await served.read(lambda reads: runs.search(reads, agent_name="two"))
    assert "one → two → one" in await failure(served, two)


async def reason_of(served, **given):
    ended = await served.run("say", {"text": "hi", **given})
    assert ended.phase == "blocked"
    return ended.block_reason


async def test_a_caller_is_told_which_agent_failed_and_where_to_look(world):
    def broken(told):
        raise ValueError("the password is 1234")

    served = await opened(world, broken)
    ended = await served.run("say", {"text": "hi"})
    child = await hook_run_of(served, ended)
    where = "hook 'any.on_run_start' at on_run_start"
    told = f"the agent 'looker' failed, see its run {child.run_id}"
    assert ended.block_reason == f"{where} failed: {told}"


async def test_a_hook_whose_agent_was_removed_names_it(lite_world):
    spec = agent_hook(lite_world.outside, "looker", "on_run_start")
    served = await lite_world.open({"say": chain(say)}, agents=[graph_agent("say", hooks=(spec,))])
    assert (await reason_of(served)).endswith("failed: there is no agent 'looker'")


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
async def test_a_procedural_agent_without_a_schema_takes_what_hooks_are_sent(lite_world, schema):
    spec = agent_hook(lite_world.outside, "looker", "on_run_start")
    agents = [
        graph_agent("say", hooks=(spec,)),
        procedural("looker", parameters_schema=schema),
        procedural("free", parameters_schema=schema),
    ]
    functions = {"looker": go_on, "free": lambda told: told}
    served = await lite_world.open({"say": chain(say)}, agents=agents, functions=functions)
    assert (await served.run("say", {"text": "hi"})).output["said"] == ["hi"]
    assert (await served.run("free", {"any": {"thing": 1}})).output == {"any": {"thing": 1}}
    assert (await served.run("free")).output == {}
    for wrong in ([1], "text", 5):
        with pytest.raises(InvalidError, match="object"):
            await served.admit("free", wrong)


async def test_an_observer_that_cannot_be_asked_says_why(lite_world):
    spec = agent_hook(lite_world.outside, "looker", "on_run_finish", on_error="continue")
    strict = {"type": "object", "required": ["password"]}
    agents = [graph_agent("say", hooks=(spec,)), procedural("looker", parameters_schema=strict)]
    served = await lite_world.open({"say": chain(say)}, agents=agents, functions={"looker": go_on})
    ended = await served.run("say", {"text": "hi"})
    await served.settled(ended)
    [_, failed] = await served.records(ended)
    assert failed["failure"] == "error"
    assert "the hook agent 'looker' cannot be asked" in failed["error"]


async def test_what_a_start_hook_redacts_is_in_no_form_of_the_input_that_is_kept(world):
    seen = []

    async def hide(event):
        return Continue({"text": "***"}, redacted=True)

    async def shout(event):
        return Continue({"text": event.value["text"].upper()})

    async def heard(event):
        seen.append((event.value.input, event.metadata["original_parameters"]))

    hooks = [
        (shout, "before_run", {"name": "shout"}),
        (hide, "on_run_start", {"name": "hide"}),
        (heard, "after_run", {"name": "heard"}),
    ]
    served = await world.open({"say": chain(say)}, *hooks)
    ended = await served.run("say", {"text": "sk-1"}, await served.thread())
    await served.settled(ended)
    assert seen == [({"text": "***"}, {"text": "***"})]
    kept = [await served.row(ended), await served.events(ended)]
    assert "sk-1" not in repr(kept).lower()


async def test_finish_hooks_see_what_was_asked_for_and_what_became_of_it(world):
    seen = []

    async def shout(event):
        return Continue({"text": event.value["text"].upper()})

    run_hooks = RunHooks()
    run_hooks.after_run(lambda ctx: seen.append((ctx.input, ctx.extras["original_parameters"])))
    [spec] = run_hooks.specs()
    served = await world.open(
        {"say": chain(say)}, (shout, "on_run_start", {"name": "shout"}), (spec.fn, "after_run")
    )
    await served.settled(await served.run("say", {"text": "hi"}, await served.thread()))
    assert seen == [({"text": "HI"}, {"text": "hi"})]


async def test_a_hook_that_started_is_told_before_the_run_that_it_starts(world):
    served = await opened(world, go_on)
    ended = await served.run("say", {"text": "hi"})
    child = await hook_run_of(served, ended)
    await served.parts.log.flush()
    found = await served.read(lambda reads: records.load_after(reads, 0, (), 100))
    names = {ended.run_id: "run", child.run_id: "hook"}
    told = [(names[row.run_id], row.event_type) for row in found]
    assert told.index(("run", "hook_start")) < told.index(("hook", "run_created"))
    assert told.index(("hook", "run_ended")) < told.index(("run", "hook_complete"))
    assert told[-1] == ("run", "run_ended")


async def test_what_hooks_said_at_admission_is_told_before_the_run(world):
    async def look(event):
        await asyncio.sleep(0)

    served = await world.open({"say": chain(say)}, (look, "before_run", {"name": "look"}))
    ended = await served.run("say", {"text": "hi"})
    found = await served.read(lambda reads: records.load_after(reads, 0, (), 100))
    assert [row.event_type for row in found if row.run_id == ended.run_id] == [
        "hook_start",
        "hook_complete",
        "run_created",
        "run_started",
        "run_ended",
    ]


async def test_runs_are_counted_while_others_begin_and_end(lite_world):
    """The writer's thread counts them, and the event loop goes on meanwhile."""
    served = await lite_world.open({"say": chain(say)})
    live, worker = served.service.parts.live, served.service.worker

    class Passing:
        @property
        def row(self):
            live[f"later {len(live)}"] = live["first"]
            return SimpleNamespace(origin="hook")

    live["first"] = Passing()
    try:
        assert worker.hook_room == served.service.parts.settings.capacity - 1
    finally:
        live.clear()
