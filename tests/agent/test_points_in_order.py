"""Which points a run passes, in which order, and what their events say of where they belong."""

import dataclasses
from uuid import UUID

import pytest

from checkrail import (
    Agent,
    AssistantMessage,
    Block,
    Continue,
    Fail,
    Replace,
    Retry,
    Stop,
    ToolCall,
    ToolResult,
)
from checkrail.agent import RunFailed
from checkrail.testing import ScriptedModel

LETTERS = {
    "before_llm_call": "B",
    "after_llm_call": "A",
    "before_tool_call": "b",
    "after_tool_call": "a",
    "on_tool_error": "e",
    "before_final_response": "F",
    "query_end": "Q",
}


def path(witness):
    return "".join(LETTERS[point] for point in witness.points)


@pytest.mark.parametrize(
    ("script", "passed"),
    [
        (["hi"], "BAFQ"),
        ([ToolCall("1", "echo"), "hi"], "BAbaBAFQ"),
        ([ToolCall("1", "echo"), ToolCall("2", "echo"), "hi"], "BAbaBAbaBAFQ"),
        ([ToolCall("1", "broken"), "hi"], "BAbaeBAFQ"),
        ([ToolCall("1", "unknown"), "hi"], "BAbaeBAFQ"),
        ([ToolCall("1", "echo", {"wrong": 1}), "hi"], "BAbaeBAFQ"),
        ([ToolCall("1", "echo")] * 15, "BAba" * 15 + "Q"),
    ],
    ids=["answer", "tool", "two tools", "error", "unknown tool", "wrong arguments", "limit"],
)
async def test_a_run_passes_the_points_in_their_order(
    *, make, hooks, witness, tools, script, passed
):
    script = [
        ToolCall(f"{turn}", reply.name, reply.args) if isinstance(reply, ToolCall) else reply
        for turn, reply in enumerate(script)
    ]
    await make(*script, hooks=hooks, tools=tools).run("hello")
    assert path(witness) == passed


async def test_arguments_that_are_no_json_are_an_error_that_never_came_to_a_call(
    make, hooks, witness, tools
):
    answer = AssistantMessage(
        tool_calls=[ToolCall("1", "echo")], metadata={"unparsed_arguments": {"1": '{"text": '}}
    )
    await make(answer, "hi", hooks=hooks, tools=tools).run("hello")
    assert path(witness) == "BAaeBAFQ"


@pytest.mark.parametrize(
    ("point", "outcome", "passed", "ended"),
    [
        ("before_llm_call", Stop("said"), "BFQ", "stop"),
        ("before_llm_call", Replace("said"), "BAFQ", "answer"),
        ("before_llm_call", Block("no"), "BQ", "block"),
        ("before_llm_call", Fail("no"), "BQ", "fail"),
        ("after_llm_call", Stop("said"), "BAFQ", "stop"),
        ("after_llm_call", Retry("again"), "BABAFQ", "answer"),
        ("after_llm_call", Block("no"), "BAQ", "block"),
        ("after_llm_call", Fail("no"), "BAQ", "fail"),
        ("before_tool_call", Replace("said"), "BAbaBAFQ", "answer"),
        ("before_tool_call", Replace(ToolResult(is_error=True)), "BAbaeBAFQ", "answer"),
        ("before_tool_call", Block("no"), "BAbaeBAFQ", "answer"),
        ("before_tool_call", Fail("no"), "BAbQ", "fail"),
        ("after_tool_call", Block("no"), "BAbaeBAFQ", "answer"),
        ("after_tool_call", Fail("no"), "BAbaQ", "fail"),
        ("on_tool_error", Block("no"), "BAbaeBAFQ", "answer"),
        ("on_tool_error", Fail("no"), "BAbaeQ", "fail"),
        ("before_final_response", Stop("said"), "BAbaBAFQ", "stop"),
        ("before_final_response", Retry("again"), "BAbaBAFBAFQ", "answer"),
        ("before_final_response", Block("no"), "BAbaBAFQ", "block"),
        ("before_final_response", Fail("no"), "BAbaBAFQ", "fail"),
    ],
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_a_decision_leads_on_or_out_and_query_end_comes_once(
    *, make, hooks, witness, tools, point, outcome, passed, ended, lane
):
    said = []

    @hooks.hook(point, lane=lane)
    def decide(event):
        said.append(event)
        return outcome if len(said) == 1 else None

    tool = "broken" if point == "on_tool_error" else "echo"
    agent = make(ToolCall("1", tool), "hi", "hi", hooks=hooks, tools=tools)
    if ended == "fail":
        with pytest.raises(RunFailed, match="no"):
            await agent.run("hello")
    else:
        assert (await agent.run("hello")).stop_reason == ended
    assert path(witness) == passed
    assert witness.end.stop_reason == ended


async def test_every_event_says_to_which_run_agent_turn_and_call_it_belongs(
    make, hooks, witness, tools
):
    agent = make(ToolCall("c1", "broken"), "hi", hooks=hooks, tools=tools, name="clerk")
    given = {"session_id": "s", "thread_id": "t", "request_id": "q", "assistant_id": "a"}
    await agent.run("hello", user={"identity": "ann", "org_id": "o"}, **given)
    events = witness.events
    (run_id,) = {event.run_id for event in events}
    assert UUID(run_id)
    for event in events:
        assert {name: getattr(event, name) for name in given} == given
        assert (event.agent_name, event.user.identity, event.user.org_id) == ("clerk", "ann", "o")
        assert (event.model, event.provider, event.parent_run_id) == ("scripted", "scripted", None)
        assert event.attempt == 1
    assert [event.iteration for event in events] == [1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert [event.tool_call_id for event in events] == [None] * 2 + ["c1"] * 3 + [None] * 4


async def test_a_run_takes_the_id_that_it_is_given_or_a_new_one(make, hooks, witness):
    agent = make("a", "b", "c", hooks=hooks)
    await agent.run("hello", run_id="mine", metadata={"tags": ["vip"]})
    await agent.run("hello")
    await agent.run("hello")
    ends = witness.at("query_end")
    assert ends[0].run_id == "mine"
    assert ends[0].metadata["tags"] == ["vip"]
    assert len({event.run_id for event in ends}) == 3


async def test_a_mistake_in_the_ids_is_told_before_anything_happens(make, hooks, witness):
    agent = make("hi", hooks=hooks)
    with pytest.raises(TypeError, match=r"no field 'sesion_id'.*did you mean 'session_id'"):
        await agent.run("hello", sesion_id="s")
    assert (witness.events, agent.model.requests) == ([], [])


async def test_what_is_asked_of_the_model_is_what_the_event_shows(make, hooks, witness, tools):
    agent = make("hi", hooks=hooks, tools=tools, system_prompt="Be kind.")
    await agent.run("hello")
    (event,) = witness.at("before_llm_call")
    assert event.value == agent.model.requests[0]
    assert event.value.messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
    ]
    assert [tool["function"]["name"] for tool in event.value.tools] == ["echo", "broken"]
    assert (event.value.model, event.value.stream, event.value.raw) == ("scripted", False, None)


async def test_a_hook_that_comes_during_a_run_is_there_at_the_next_point(make, hooks, tools):
    seen = []

    @hooks.before_llm_call
    def more(event):
        if event.iteration == 1:
            hooks.after_llm_call(lambda event: seen.append(event.iteration))

    await make(ToolCall("1", "echo"), "hi", hooks=hooks, tools=tools).run("hello")
    assert seen == [1, 2]


async def test_without_hooks_it_runs_all_the_same(make, tools):
    response = await make(ToolCall("1", "echo", {"text": "x"}), "hi", tools=tools).run("hello")
    assert (response.content, response.stop_reason, response.error) == ("hi", "answer", None)
    assert [message["role"] for message in response.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.parametrize("level", ["hooks", "registry", "both", "own"])
async def test_hooks_are_given_in_any_of_their_forms(make, hooks, level):
    seen = []
    hooks.before_llm_call(lambda event: seen.append(1))
    given = {"hooks": hooks, "registry": hooks.registry, "both": [hooks, hooks.registry]}
    agent = make("hi", hooks=given.get(level))
    if level == "own":
        agent.on("before_llm_call").handle(effects=[lambda status: seen.append(1)])
    await agent.run("hello")
    assert seen == [1]


async def test_outer_levels_come_first_and_what_the_agent_says_itself_comes_last(make, hooks):
    order = []
    inner = type(hooks)()
    agent = make("hi", hooks=[hooks, inner])
    agent.on("after_llm_call").handle(effects=[lambda status: order.append("own")], priority=1)
    inner.after_llm_call(lambda event: order.append("inner"))
    hooks.after_llm_call(lambda event: order.append("outer"))
    await agent.run("hello")
    assert order == ["outer", "inner", "own"]


@pytest.mark.parametrize("wrong", [print, [print], "hooks", 42])
def test_what_are_no_hooks_is_refused_with_the_remedy(make, wrong):
    with pytest.raises(TypeError, match="hooks of an agent are Hooks or a HookRegistry"):
        make("hi", hooks=wrong)


@pytest.mark.parametrize("wrong", [42, None, ScriptedModel])
def test_what_is_no_model_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="is no model"):
        Agent(wrong)


async def test_an_answer_is_of_the_model_that_hooks_chose_and_of_the_agents_own():
    seen = []

    def choose(event, request):
        return Continue(dataclasses.replace(request, model="chosen"))

    agent = Agent(ScriptedModel([AssistantMessage("hi", model="chosen-2026")], name="own"))
    agent.registry.register(choose, "before_llm_call")
    for pattern in ("own", "chosen", "chosen-2026", "other"):
        agent.registry.register(
            lambda event, _, pattern=pattern: seen.append((pattern, event.model)),
            "after_llm_call",
            models=[pattern],
            lane="observe",
            name=pattern,
        )
    await agent.run("hello")
    assert seen == [("own", "chosen"), ("chosen", "chosen"), ("chosen-2026", "chosen")]


@pytest.mark.parametrize("pattern", ["own", "chosen", "chosen-2026"])
async def test_tool_calls_are_of_the_model_under_all_its_names(pattern, tools):
    def choose(event, request):
        return Continue(dataclasses.replace(request, model="chosen"))

    call = AssistantMessage("", [ToolCall("1", "echo", {"text": "x"})], model="chosen-2026")
    agent = Agent(ScriptedModel([call, "done"], name="own"), tools=tools)
    agent.registry.register(choose, "before_llm_call")
    agent.registry.register(
        lambda event: Block("not with this model"), "before_tool_call", models=[pattern]
    )
    response = await agent.run("hello")
    assert response.messages[-2]["content"] == "not with this model"


async def test_an_agent_beneath_does_not_go_by_the_names_of_the_model_above(hooks):
    seen = []
    inner = Agent(ScriptedModel(["hi"], name="inner"), name="inner")
    call = AssistantMessage("", [ToolCall("1", "inner", {"query": "x"})], model="chosen-2026")
    agent = Agent(ScriptedModel([call, "done"], name="own"), tools=[inner], hooks=hooks)
    agent.registry.register(
        lambda event, request: Continue(dataclasses.replace(request, model="chosen")),
        "before_llm_call",
        agents=["agent"],
    )
    for pattern in ("own", "chosen", "chosen-2026"):
        agent.registry.register(
            lambda event: seen.append(event.agent_name),
            "before_llm_call",
            models=[pattern],
            lane="observe",
            name=pattern,
        )
    await agent.run("hello")
    assert "inner" not in seen
