"""Agents with the tools of MCP servers: every rule holds for them."""

import asyncio

from checkrail import Agent, AssistantMessage, Continue, Hooks, ToolCall
from checkrail.agent.tools import mcp_http
from checkrail.builtin import tool_policy
from checkrail.testing import ScriptedModel


def script(*calls):
    asked = AssistantMessage(
        tool_calls=[ToolCall(str(number), name, args) for number, (name, args) in enumerate(calls)]
    )
    return ScriptedModel([asked, "Done."])


def results(response):
    told = [message for message in response.messages if message["role"] == "tool"]
    return [(message["content"], message.get("is_error", False)) for message in told]


async def test_a_rule_on_a_tool_of_a_server_holds(source):
    model = script(("s_add", {"a": 1, "b": 2}), ("s_about", {}), ("s_refuse", {"why": "closed"}))
    async with Agent(model, tools=[source(prefix="s_")]) as agent:
        agent.registry.register(tool_policy, config={"deny": ["s_about"]})
        found = results(await agent.run("?"))
    assert found[0] == ("3", False)
    assert found[1][1]
    assert "the tool 's_about' is denied" in found[1][0]
    assert found[2] == ("Error executing tool refuse: closed", True)


async def test_arguments_that_a_hook_changed_are_what_the_server_gets(source):
    hooks = Hooks()

    @hooks.before_tool_call(tools=["add"])
    def more(event, call):
        return Continue(ToolCall(call.id, call.name, {**call.args, "b": 40}))

    async with Agent(script(("add", {"a": 2})), tools=[source()], hooks=hooks) as agent:
        assert results(await agent.run("?")) == [("42", False)]


async def test_a_call_that_takes_too_long_is_cancelled_and_the_next_one_works(source):
    model = script(("wait", {}), ("add", {"a": 1}))
    made = source()
    made.timeout = 0.5  # of calls: the server may take its time to start
    async with Agent(model, tools=[made]) as agent:
        (waited, failed), added = results(await agent.run("?"))
    assert failed
    assert waited
    assert added == ("2", False)


def test_an_agent_that_runs_without_a_loop_connects_anew_each_time(url):
    agent = Agent(ScriptedModel(replies), tools=[mcp_http(url)])
    for _ in range(2):
        assert results(agent.run_sync("?")) == [("2", False)]
    asyncio.run(agent.aclose())


def replies(request):
    if request.messages[-1]["role"] == "tool":
        return "Done."
    return AssistantMessage(tool_calls=[ToolCall("1", "add", {"a": 1})])
