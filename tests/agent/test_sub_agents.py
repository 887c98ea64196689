"""Agents beneath agents: every hook above holds, and what they do is counted and known above."""

import pytest

from checkrail import (
    AssistantMessage,
    Block,
    Continue,
    HookRegistry,
    ToolCall,
    tool,
)

ASK = ToolCall("1", "inner", {"query": "go"})
USED = {"total_tokens": 10}
LOOP = (
    "before_llm_call",
    "after_llm_call",
    "before_tool_call",
    "after_tool_call",
    "on_tool_error",
    "before_final_response",
    "query_end",
)


def told(response):
    return next(message for message in response.messages if message["role"] == "tool")


@pytest.fixture(params=["tool", "function", "thread"])
def beneath(request):
    """Put an agent beneath another: as a tool, in a function, in a function with a thread."""

    def placed(agent):
        async def inner(query: str) -> str:
            return (await agent.run(query)).content

        def inner_sync(query: str) -> str:
            return agent.run_sync(query).content

        ways = {"tool": agent, "function": inner, "thread": tool(inner_sync, name="inner")}
        return [ways[request.param]]

    return placed


async def test_an_agent_is_a_tool_by_its_name_with_one_parameter(make):
    inner = make("pong", name="inner", description="Plays ping-pong.")
    agent = make(ASK, "hi", tools=[inner])
    assert told(await agent.run("hello"))["content"] == "pong"
    (offered,) = agent.model.requests[0].tools
    assert offered["function"]["name"] == "inner"
    assert offered["function"]["description"] == "Plays ping-pong."
    parameters = offered["function"]["parameters"]
    assert (list(parameters["properties"]), parameters["required"]) == (["query"], ["query"])
    assert inner.model.requests[0].messages == [{"role": "user", "content": "go"}]


@pytest.mark.parametrize("args", [{}, {"query": 1}, {"query": "go", "more": 1}, {"question": "go"}])
async def test_wrong_arguments_are_told_to_the_model(make, args):
    inner = make("pong", name="inner")
    response = await make(ToolCall("1", "inner", args), "hi", tools=[inner]).run("hello")
    assert told(response)["content"] == "inner takes one argument, `query`, which is a text"
    assert inner.model.requests == []


async def test_every_point_of_it_fires_the_hooks_above(make, hooks, witness, beneath, tools):
    inner = make(ToolCall("2", "broken"), "pong", name="inner", tools=tools)
    await make(ASK, "hi", hooks=hooks, tools=beneath(inner)).run("hello")
    fired = {str(event.point) for event in witness.events if event.agent_name == "inner"}
    assert fired == {*LOOP}
    ends = [event.agent_name for event in witness.at("query_end")]
    assert ends == ["inner", "agent"]


async def test_its_events_carry_parent_ids_and_who_is_acting(make, hooks, witness, beneath):
    inner = make("pong", name="inner")
    agent = make(ASK, "hi", hooks=hooks, tools=beneath(inner))
    await agent.run("hello", run_id="r", user="ann", session_id="s", metadata={"tags": ["vip"]})
    events = [event for event in witness.events if event.agent_name == "inner"]
    for event in events:
        assert event.parent_run_id == "r"
        assert event.run_id not in ("r", None)
        assert (event.user.identity, event.session_id) == ("ann", "s")
        assert event.metadata["tags"] == ["vip"]
    assert len({event.run_id for event in events}) == 1


async def test_a_rule_on_a_tool_holds_in_it(make, hooks, beneath):
    ran = []

    async def transfer(amount: int) -> None:
        ran.append(amount)

    hooks.before_tool_call(lambda event: Block("too much"), tools=["transfer"], lane="gate")
    inner = make(
        ToolCall("2", "transfer", {"amount": 5000}), "sorry", name="inner", tools=[transfer]
    )
    response = await make(ASK, "hi", hooks=hooks, tools=beneath(inner)).run("hello")
    assert (ran, told(response)["content"]) == ([], "sorry")


async def test_its_own_hooks_hold_inside_it_only(make, hooks, beneath):
    seen = []
    inner = make("pong", name="inner", hooks=hooks)
    inner.on("before_llm_call").handle(effects=[lambda status: seen.append(status.agent.name)])
    hooks.before_llm_call(lambda event: seen.append(event.agent_name))
    await make(ASK, "hi", tools=beneath(inner)).run("hello")
    assert seen == ["inner", "inner"]


async def test_levels_go_from_the_outermost_to_the_innermost(make, hooks):
    order = []
    inner = make("pong", name="inner")
    inner.on("after_llm_call").handle(effects=[lambda status: order.append("inner")], priority=1)
    outer = make(ASK, "hi", hooks=hooks, tools=[inner])
    outer.on("after_llm_call").handle(effects=[lambda status: order.append("outer")])
    hooks.after_llm_call(lambda event: order.append("hooks"), priority=900)
    await outer.run("hello")
    assert order == ["hooks", "outer", "hooks", "outer", "inner", "hooks", "outer"]


async def test_hooks_that_both_share_are_called_once(make, hooks, witness):
    inner = make("pong", name="inner", hooks=hooks)
    await make(ASK, "hi", hooks=hooks, tools=[inner]).run("hello")
    assert len(witness.at("query_end")) == 2


async def test_the_status_there_is_that_of_the_inner_agent(make):
    seen = []
    inner = make("pong", name="inner")
    outer = make(ASK, "hi", tools=[inner])
    outer.on("after_llm_call").handle(
        effects=[lambda status: seen.append((status.agent, len(status.conversation_history)))]
    )
    await outer.run("hello")
    assert seen == [(outer, 1), (inner, 1), (outer, 3)]


async def test_what_it_used_is_counted_above(make, hooks, witness, beneath):
    inner = make(AssistantMessage("pong", usage=USED), name="inner")
    call = AssistantMessage(tool_calls=[ASK], usage=USED)
    agent = make(call, AssistantMessage("hi", usage=USED), hooks=hooks, tools=beneath(inner))
    response = await agent.run("hello")
    assert response.usage == {"total_tokens": 30}
    assert [event.value.usage for event in witness.at("query_end")] == [USED, {"total_tokens": 30}]


async def test_parallel_agents_keep_their_runs_apart(make, hooks, witness, calls):
    inner = make(lambda request: request.messages[-1]["content"] + "!", name="inner")
    answer = calls(("1", "inner", {"query": "a"}), ("2", "inner", {"query": "b"}))
    response = await make(answer, "hi", hooks=hooks, tools=[inner]).run("hello")
    assert [m["content"] for m in response.messages if m["role"] == "tool"] == ["a!", "b!"]
    runs = [event.run_id for event in witness.at("query_end")]
    assert len({*runs}) == 3


async def test_structured_output_of_it_is_the_tools_result(make):
    inner = make('{"n": 1}', name="inner", output_schema=dict[str, int])
    assert told(await make(ASK, "hi", tools=[inner]).run("hello"))["content"] == '{"n": 1}'


async def test_the_context_of_a_call_is_that_of_the_run_around(make, hooks, witness, tools):
    inner = make(ToolCall("2", "echo"), "pong", name="inner", tools=tools)
    agent = make(ASK, "hi", hooks=hooks, tools=[inner])
    await agent.run("hello", scope=HookRegistry().scope(run_id="job-7"))
    contexts = {event.value.name: event.value.context for event in witness.at("before_tool_call")}
    assert contexts["inner"] == "job-7"
    assert contexts["echo"] != "chat"


async def test_an_agent_run_on_its_own_is_beneath_nobody(make, hooks, witness):
    inner = make("pong", "pong", name="inner", hooks=hooks)
    await make(ASK, "hi", tools=[inner]).run("hello")
    await inner.run("hello")
    first, second = witness.at("query_end")
    assert (first.parent_run_id is not None, second.parent_run_id) == (True, None)


async def test_a_hooks_own_agent_does_not_fire_that_hook_again(make, hooks, witness):
    judge = make("fine", "fine", "fine", name="judge")
    asked = []

    @hooks.after_llm_call(name="judging")
    async def ask_the_judge(event, message):
        asked.append(event.agent_name)
        verdict = await judge.run(f"Is this good? {message.content}")
        return Continue(f"{message.content} ({verdict.content})")

    response = await make("hi", hooks=hooks).run("hello")
    assert (response.content, asked) == ("hi (fine)", ["agent"])
    assert [event.agent_name for event in witness.at("query_end")] == ["judge", "agent"]


async def test_a_hook_that_calls_its_own_agent_comes_to_an_end(make, hooks):
    agent = make(lambda request: "hi", hooks=hooks)
    asked = []

    @hooks.hook("before_llm_call", "query_end")
    async def one(event):
        asked.append("one")
        await agent.run("from one")

    @hooks.before_llm_call
    async def two(event):
        asked.append("two")
        await agent.run("from two")

    assert (await agent.run("hello")).content == "hi"
    assert 2 < len(asked) < 20
