"""Agents that follow on others: started once by the end of a run, as sessions of their own."""

import asyncio

import pytest
from sqlalchemy import update

from checkrail.agent.tools.tool import ToolError
from checkrail.config import AgentConfig
from checkrail.config.agent_models import ModelConfig
from checkrail.config.agent_tools import ToolConfig
from checkrail.engine.values import ToolCall, User
from checkrail.runs.admit.requests import Principal
from checkrail.runs.errors import NotFoundError
from checkrail.runs.tools import resume_session
from checkrail.store import runs, sessions
from checkrail.store.tables import deliveries
from checkrail.testing import ScriptedModel

from .support import agent_hook, chain, fail, graph_agent, procedural, say, until


class Heard:
    """An agent that remembers what it was told."""

    def __init__(self):
        self.told = []

    async def __call__(self, parameters):
        self.told.append(parameters)
        return {}


async def opened(world, heard, node=say, **more):
    spec = agent_hook(world.outside, "next", "on_run_finish", on_error="continue", **more)
    return await world.open(
        {"first": chain(node)},
        agents=[graph_agent("first", hooks=(spec,))],
        functions={"next": heard},
    )


async def followers(served):
    return await served.read(lambda reads: runs.search(reads, agent_name="next", limit=10))


async def follower(served):
    async def ended():
        return [row for row in await followers(served) if row.ended_at is not None]

    [row] = await until(ended, "the run that follows")
    return row


async def test_the_next_agent_is_told_how_the_first_ended(world):
    heard = Heard()
    served = await opened(world, heard)
    ended = await served.run("first", {"text": "hi"})
    row = await follower(served)
    assert heard.told == [
        {
            "parameters": {"text": "hi"},
            "result_text": None,
            "result_data": {"text": "hi", "said": ["hi"]},
            "status": "completed",
            "error": None,
            "session_id": ended.session_id,
            "run_id": ended.run_id,
            "agent_name": "first",
        }
    ]
    assert (row.origin, row.parent_run_id) == ("hook", ended.run_id)


async def test_it_is_a_session_of_its_own_beneath_the_first(world):
    served = await opened(world, Heard())
    ended = await served.run("first", {"text": "hi"})
    row = await follower(served)
    session = await served.read(lambda reads: sessions.get(reads, row.session_id))
    assert row.session_id != ended.session_id
    assert session.parent_session_id == ended.session_id


async def test_a_run_that_failed_is_told_too(world):
    heard = Heard()
    served = await opened(world, heard, node=fail)
    await served.run("first", {"text": "it broke"})
    await follower(served)
    assert (heard.told[0]["status"], heard.told[0]["error"]) == ("failed", "it broke")


async def test_a_run_that_was_stopped_is_told_too(world):
    heard, began = Heard(), asyncio.Event()

    async def wait(state):
        began.set()
        await asyncio.sleep(60)

    served = await opened(world, heard, node=wait)
    run = await served.admit("first", {"text": "hi"}, await served.thread())
    await began.wait()
    await served.service.cancel(run.run_id, "interrupt")
    await follower(served)
    assert heard.told[0]["status"] == "stopped"


async def test_a_delivery_that_is_repeated_starts_no_second_run(world):
    served = await opened(world, Heard())
    ended = await served.run("first", {"text": "hi"})
    await follower(served)
    [owed] = await served.settled(ended)

    def again(tx):
        tx.execute(update(deliveries).values(status="owed", ended_at=None))
        tx.publish("work", "")

    await served.write(again)
    [owed] = await served.settled(ended)
    assert owed.attempts == 2
    assert len(await followers(served)) == 1


async def test_the_delivery_does_not_wait_for_the_run_that_follows(world):
    go = asyncio.Event()

    async def slow(told):
        await go.wait()
        return {}

    served = await opened(world, slow)
    ended = await served.run("first", {"text": "hi"})
    [owed] = await served.settled(ended)
    [row] = await followers(served)
    assert (owed.status, row.ended_at) == ("done", None)
    kinds = [each["event_type"] for each in await served.records(ended)]
    assert kinds == ["hook_start"]
    go.set()

    async def recorded():
        found = [each["event_type"] for each in await served.records(ended)]
        return found if len(found) > 1 else None

    assert await until(recorded) == ["hook_start", "hook_complete"]


async def test_timeout_seconds_is_the_time_of_the_run_that_follows(world):
    async def slow(told):
        await asyncio.sleep(60)

    served = await opened(world, slow, timeout_seconds=0.2)
    ended = await served.run("first", {"text": "hi"})
    assert (await follower(served)).status == "timeout"

    async def recorded():
        found = await served.records(ended)
        return found[1] if len(found) > 1 else None

    failed = await until(recorded, "the hook's end")
    assert (failed["event_type"], failed["failure"]) == ("hook_failed", "timeout")
    assert "took longer than 0.2 s" in failed["error"]


async def test_agents_are_chained_one_after_the_other(world):
    last = Heard()
    hooks = {
        name: (agent_hook(world.outside, to, "on_run_finish", on_error="continue"),)
        for name, to in (("first", "second"), ("second", "next"))
    }
    agents = [procedural(name, hooks=found) for name, found in hooks.items()]
    functions = {"first": lambda told: {"n": 1}, "second": lambda told: {"n": 2}, "next": last}
    served = await world.open({}, agents=agents, functions=functions)
    await served.run("first", {})
    row = await follower(served)
    assert (last.told[0]["agent_name"], last.told[0]["result_data"]) == ("second", {"n": 2})
    assert row.depth == 2


@pytest.mark.parametrize("status", ["completed", "failed", "was stopped"])
async def test_a_session_that_waits_is_resumed_with_the_result(world, status):
    began = asyncio.Event()
    prompts = []

    def parent(told):
        prompts.append(told.get("prompt"))
        return {}

    async def child(told):
        began.set()
        if status == "failed":
            raise ValueError("it broke")
        if status == "was stopped":
            await asyncio.sleep(60)
        return {"sum": 3}

    served = await world.open({}, functions={"parent": parent, "child": child})
    first = await served.run("parent", {"prompt": "add"}, keep_thread=True)
    told = {"session_id": first.session_id}
    run = await served.admit("child", {}, keep_thread=True, notify_on_end=told)
    await began.wait()
    if status == "was stopped":
        await served.service.cancel(run.run_id, "interrupt")

    async def resumed():
        return prompts[1:]

    [prompt] = await until(resumed, "the parent")
    assert f"The agent 'child' {status}" in prompt
    if status == "completed":
        assert '{"sum":3}' in prompt


async def test_nobody_resumes_the_session_of_somebody_else(world):
    served = await world.open({}, functions={"parent": lambda told: {}})
    first = await served.run("parent", {}, keep_thread=True)
    stranger = Principal(User("eve"), owner="eve")
    with pytest.raises(NotFoundError):
        await served.service.resume(first.session_id, "tell me", stranger)


async def test_an_agent_can_resume_another_session_by_a_tool(world):
    prompts = []

    def parent(told):
        prompts.append(told.get("prompt"))
        return {}

    def reply(request):
        if request.messages[-1]["role"] == "tool":
            return "told them"
        session = request.messages[-1]["content"]
        args = {"session_id": session, "prompt": "all is done"}
        return ToolCall(id="c1", name="resume_session", args=args)

    tool = ToolConfig("resume", (), ("resume_session",), (resume_session,))
    model = ModelConfig("scripted", given=ScriptedModel(reply))
    talker = AgentConfig("talker", "tests", model=model, tools=(tool,))
    served = await world.open({}, agents=[talker], functions={"parent": parent})
    first = await served.run("parent", {"prompt": "go"}, keep_thread=True)
    ended = await served.run("talker", {"prompt": first.session_id})
    assert ended.output == "told them"

    async def resumed():
        return prompts[1:]

    assert await until(resumed, "the parent") == ["all is done"]


async def test_outside_of_a_server_the_tool_says_that_it_cannot(world):
    with pytest.raises(ToolError, match="run server"):
        await resume_session("s", "x")
