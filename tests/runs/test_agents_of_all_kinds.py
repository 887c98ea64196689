"""Agents that are no graphs: carried out under the same hooks, with the same ends."""

import asyncio

import pytest

from checkrail import Block, Continue, Retry
from checkrail.config import AgentConfig
from checkrail.config.agent_models import ModelConfig
from checkrail.runs.errors import ConflictError, InvalidError
from checkrail.testing import ScriptedModel

from .support import chain, graph_agent, procedural, say


def autonomous(name, *replies, **more):
    model = ModelConfig(
        "scripted", given=ScriptedModel(*replies if len(replies) == 1 else [replies])
    )
    return AgentConfig(name, "tests", model=model, **more)


COUNTED = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}


async def test_an_autonomous_agent_answers_in_text(world):
    served = await world.open({}, agents=[autonomous("talker", ["Good day."])])
    ended = await served.run("talker", {"prompt": "hello"})
    assert (ended.status, ended.output) == ("success", "Good day.")
    assert ended.usage["scripted"]["total_tokens"] > 0


async def test_it_remembers_what_was_said_on_its_thread(world):
    heard = []

    def reply(request):
        heard.append([message["content"] for message in request.messages])
        return f"answer {len(heard)}"

    served = await world.open({}, agents=[autonomous("talker", reply)])
    thread = await served.thread()
    for text in ("one", "two"):
        await served.run("talker", {"prompt": text}, thread)
    assert heard[1] == ["one", "answer 1", "two"]


async def test_without_a_schema_an_agent_takes_a_prompt_and_nothing_else(world):
    served = await world.open({}, agents=[autonomous("talker", ["x"])])
    with pytest.raises(InvalidError) as refused:
        await served.admit("talker", {"question": "hello"})
    assert refused.value.detail


async def test_an_agent_that_is_switched_off_runs_nobody(world):
    served = await world.open({}, agents=[autonomous("talker", ["x"], enabled=False)])
    with pytest.raises(ConflictError, match="switched off"):
        await served.admit("talker", {"prompt": "hello"})


async def test_hooks_hold_in_the_loop_of_an_agent(world):
    def refuse(event, value):
        return Block("no models today")

    agent = autonomous("talker", ["x"])
    served = await world.open({}, (refuse, "before_llm_call", {"name": "refuse"}), agents=[agent])
    ended = await served.run("talker", {"prompt": "hello"})
    assert (ended.phase, ended.error) == ("blocked", "no models today")
    assert ended.blocked_by == "refuse"


@pytest.mark.parametrize("kind", ["graph", "procedural"])
async def test_an_output_that_was_not_promised_fails_the_run_before_any_hook_sees_it(world, kind):
    seen = []

    def watch(event, value):
        seen.append(value)

    agent = (graph_agent if kind == "graph" else procedural)("odd", output_schema=COUNTED)
    graphs = {"odd": chain(say)} if kind == "graph" else {}
    functions = {"odd": lambda told: {"count": "many"}} if kind != "graph" else {}
    hook = (watch, "on_result", {"name": "watch"})
    served = await world.open(graphs, hook, agents=[agent], functions=functions)
    ended = await served.run("odd", {"text": "x"})
    assert (ended.status, ended.error_type) == ("error", "OutputInvalid")
    assert "does not fit the schema" in ended.error
    assert seen == []


async def test_what_a_hook_makes_of_a_result_has_to_fit_too(world):
    def spoil(event, value):
        return Continue({"count": "many"})

    agent = procedural("counter", output_schema=COUNTED)
    hook = (spoil, "on_result", {"name": "spoil", "on_error": "continue"})
    functions = {"counter": lambda told: {"count": 3}}
    served = await world.open({}, hook, agents=[agent], functions=functions)
    ended = await served.run("counter", {})
    assert (ended.status, ended.output) == ("success", {"count": 3})


async def test_what_a_cancelled_agent_used_is_known(world):
    began = asyncio.Event()

    async def reply(request):
        if len(request.messages) == 1:
            return "calls nothing"
        began.set()
        await asyncio.sleep(60)
        return "too late"

    def again(event, value):
        return Retry("once more")

    agent = autonomous("talker", reply)
    hook = (again, "before_final_response", {"name": "again"})
    served = await world.open({}, hook, agents=[agent])
    run = await served.admit("talker", {"prompt": "hello"}, await served.thread())
    await began.wait()
    await served.service.cancel(run.run_id, "interrupt")
    ended = await served.over(run)
    assert ended.phase == "cancelled"
    assert ended.usage["scripted"]["output_tokens"] > 0


async def test_the_scope_of_a_run_reaches_functions_and_the_runs_beneath(world):
    seen = []

    def look(parameters, context):
        seen.append(dict(context.scope))
        return {}

    served = await world.open({}, functions={"looker": look})
    await served.run("looker", {}, scope={"tenant": "acme"})
    assert seen == [{"tenant": "acme"}]
