"""Hooks that are agents: their runs are ordinary ones, and what they answer decides."""

import asyncio

import pytest

from checkrail import Continue
from checkrail.store import runs

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
        return next((row for row in found if row["parent_run_id"] == run["run_id"]), None)

    return await until(lambda: served.read(find), "the hook's run")


async def test_an_agent_that_goes_on_lets_the_run_go_on(world):
    seen = []

    def look(told):
        seen.append(told)
        return go_on(told)

    served = await opened(world, look)
    ended = await served.run("say", {"text": "hi"})
    assert (ended["error"], ended["status"]) == (None, "success")
    assert ended["output"]["said"] == ["hi"]
    assert seen == [
        {
            "parameters": {"text": "hi"},
            "agent_name": "say",
            "session_id": ended["session_id"],
            "run_id": ended["run_id"],
        }
    ]


async def test_its_run_is_an_ordinary_one_that_knows_whose_hook_it_was(world):
    served = await opened(world, go_on)
    ended = await served.run("say", {"text": "hi"})
    hook_run = await hook_run_of(served, ended)
    assert (hook_run["status"], hook_run["origin"], hook_run["depth"]) == ("success", "hook", 1)
    assert hook_run["user"]["identity"] == "ada"


async def test_what_it_changes_is_kept_beside_what_was_asked(world):
    served = await opened(world, shout)
    ended = await served.row(await served.run("say", {"text": "hi"}))
    assert (ended["input"], ended["parameters"]) == ({"text": "hi"}, {"text": "HI"})
    assert ended["output"]["said"] == ["HI"]


async def test_it_can_refuse_the_run(world):
    served = await opened(world, refuse)
    ended = await served.run("say", {"text": "hi"})
    assert (ended["phase"], ended["block_reason"]) == ("blocked", "not today")


@pytest.mark.parametrize(("on_error", "phase"), [("block", "blocked"), ("continue", "success")])
async def test_one_that_fails_does_as_on_error_says(world, on_error, phase):
    def broken(told):
        raise ValueError("it broke")

    served = await opened(world, broken, on_error=on_error)
    ended = await served.run("say", {"text": "hi"})
    assert ended["phase"] == phase
    assert "it broke" in await failure(served, ended)
    if on_error == "continue":
        assert ended["output"]["said"] == ["hi"]


@pytest.mark.parametrize(("on_error", "phase"), [("block", "blocked"), ("continue", "success")])
async def test_an_answer_that_is_none_is_a_failure(world, on_error, phase):
    served = await opened(world, lambda told: {"verdict": "fine"}, on_error=on_error)
    assert (await served.run("say", {"text": "hi"}))["phase"] == phase


async def test_one_that_is_late_is_stopped(world):
    async def slow(told):
        await asyncio.sleep(60)

    served = await opened(world, slow, timeout_seconds=2)  # by then its run has begun
    ended = await served.run("say", {"text": "hi"})
    assert ended["phase"] == "blocked"
    assert (await served.over(await hook_run_of(served, ended)))["phase"] in (
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
    await served.service.cancel(run["run_id"], "interrupt")
    assert (await served.over(run))["phase"] == "cancelled"
    assert (await served.over(await hook_run_of(served, run)))["phase"] == "cancelled"


async def test_what_the_agent_cannot_be_told_blocks_the_run_whatever_on_error_says(world):
    spec = agent_hook(world.outside, "looker", "on_run_start", on_error="continue")
    strict = {"type": "object", "required": ["password"]}
    agents = [graph_agent("say", hooks=(spec,)), procedural("looker", parameters_schema=strict)]
    served = await world.open({"say": chain(say)}, agents=agents, functions={"looker": go_on})
    ended = await served.run("say", {"text": "hi"})
    assert ended["phase"] == "blocked"
    assert "cannot be asked" in ended["error"]
    assert "password" in ended["error"]


async def test_changed_parameters_that_do_not_fit_are_invalid(world):
    spec = agent_hook(world.outside, "looker", "on_run_start", on_error="block")
    takes = {"type": "object", "properties": {"text": {"maxLength": 3, "type": "string"}}}
    agents = [graph_agent("say", hooks=(spec,), parameters_schema=takes)]

    def lengthen(told):
        return {"action": "continue", "parameters": {"text": "far too long"}}

    served = await world.open({"say": chain(say)}, agents=agents, functions={"looker": lengthen})
    ended = await served.run("say", {"text": "hi"})
    assert ended["phase"] == "blocked"
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
    assert [row["status"] for row in ended] == ["success"] * 5


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
    assert ended["output"]["said"] == ["HI"]


async def test_a_circle_is_stopped_at_run_time(world):
    agents = [
        procedural("one", hooks=(agent_hook(world.outside, "two", "on_result"),)),
        procedural("two", hooks=(agent_hook(world.outside, "one", "on_result"),)),
    ]
    functions = {"one": lambda told: {}, "two": lambda told: {"action": "continue"}}
    served = await world.open({}, agents=agents, functions=functions)
    ended = await served.run("one", {})
    assert ended["phase"] == "blocked"
    [two] = await served.read(lambda reads: runs.search(reads, agent_name="two"))
    assert "one → two → one" in await failure(served, two)
