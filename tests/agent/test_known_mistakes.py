"""Mistakes that loops are known for: run and streamed, one hook and several, one tool and more."""

import asyncio
import dataclasses
import itertools
import json

import pytest

from checkrail import (
    Agent,
    AssistantMessage,
    Block,
    CheckrailError,
    Continue,
    Fail,
    Reject,
    Retry,
    ToolCall,
    tool,
)
from checkrail.agent import Conversation, RunFailed, Tool

TOOL_POINTS = ("before_tool_call", "after_tool_call")


@pytest.fixture(autouse=True, params=["run", "stream"])
def _way(request, monkeypatch):
    """Have every run of these tests go the one way, and then the other."""
    if request.param == "run":
        return

    async def streamed(self, query, **ids):
        async with self.stream(query, **ids) as stream:
            async for _ in stream:
                pass
        return stream.response

    monkeypatch.setattr(Agent, "run", streamed)
    monkeypatch.setattr(Conversation, "run", streamed)


@pytest.fixture(params=[1, 3], ids=["one tool", "three tools"])
def number(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["one hook", "several hooks"])
def several(request, hooks):
    """Stand other hooks around those of the test, which do nothing, at once or after a while."""
    if request.param:
        points = ("before_llm_call", "after_llm_call", *TOOL_POINTS, "before_final_response")
        for lane in ("transform", "gate", "observe"):
            hooks.hook(*points, lane=lane, priority=1)(lambda event: None)
            hooks.hook(*points, lane=lane, priority=900)(lambda event: asyncio.sleep(0))
    return request.param


@pytest.fixture
def acting(make, hooks, calls, number):
    """An agent whose first two answers call `act` so many times, and what was done."""
    done = []

    async def act(text: str = "x") -> str:
        await asyncio.sleep(0)
        done.append(text)
        return f"did {text}"

    turns = [calls(*((f"{turn}{n}", "act") for n in range(number))) for turn in (1, 2)]
    return make(*turns, "hi", hooks=hooks, tools=[act]), done


def results(response):
    return [message["content"] for message in response.messages if message["role"] == "tool"]


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("way", ["raises", "hangs", "cancels itself", "raises a group"])
@pytest.mark.parametrize("point", TOOL_POINTS)
async def test_a_gate_that_crashed_once_is_still_there_and_still_closed(
    acting, hooks, number, point, way
):
    asked = []

    @hooks.hook(point, lane="gate", timeout=0.05, name="gate")
    async def crash(event):
        asked.append(event.tool_call_id)
        if way == "hangs":
            await asyncio.sleep(10)
        if way == "cancels itself":
            raise asyncio.CancelledError
        if way == "raises a group":
            raise ExceptionGroup("several", [RuntimeError("boom")])
        raise RuntimeError("boom")

    agent, done = acting
    response = await agent.run("hello")
    assert len(asked) == 2 * number
    assert done == [] if point == "before_tool_call" else len(done) == 2 * number
    assert all("hook 'gate' at" in told for told in results(response))
    assert not any("did" in told for told in results(response))


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
async def test_a_gate_at_the_model_that_crashes_ends_every_run_as_blocked(make, hooks, point):
    @hooks.hook(point, lane="gate", name="gate")
    def crash(event):
        raise RuntimeError("boom: tok-1234")

    agent = make("hi", "hi", hooks=hooks)
    for _ in range(2):
        response = await agent.run("hello")
        assert (response.stop_reason, response.content) == ("block", "")
        assert response.error == f"hook 'gate' at {point} failed with RuntimeError"


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(
    "output", ["ok", {"action": "continue"}, 42, True, Continue, [Block("no")]]
)
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_what_a_hook_says_and_nobody_understands_lets_nothing_through(
    acting, hooks, output, lane
):
    hooks.before_tool_call(lambda event: output, lane=lane, name="mumbling")
    agent, done = acting
    with pytest.raises(RunFailed, match="hook 'mumbling' at before_tool_call broke its contract"):
        await agent.run("hello")
    assert done == []


class Handmade(Tool):
    name, description, parameters = "act", "", {"type": "object"}

    async def call(self, args, context):
        raise AssertionError("it was called")


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("kind", ["function", "tool", "source", "agent"])
@pytest.mark.parametrize("way", ["run", "conversation", "thread", "beneath"])
async def test_there_is_no_way_around_a_rule(*, make, hooks, source, calls, number, kind, way):
    kinds = {
        "function": tool(lambda: Handmade().call({}, None), name="act"),
        "tool": Handmade(),
        "source": source(Handmade()),
        "agent": make(lambda request: AssertionError("it was called"), name="act"),
    }
    hooks.before_tool_call(lambda event: Block("no"), tools=["act"], lane="gate")
    answer = calls(*((f"{n}", "act", {"query": "go"}) for n in range(number)))
    agent = make(answer, "hi", hooks=hooks, tools=[kinds[kind]])
    if way == "beneath":
        agent = make(answer, "hi", name="inner", tools=[kinds[kind]])
        call = ToolCall("9", "inner", {"query": "go"})
        await make(call, "hi", hooks=hooks, tools=[agent]).run("hello")
    elif way == "thread":
        await asyncio.to_thread(agent.run_sync, "hello")
    else:
        await (agent if way == "run" else agent.conversation()).run("hello")
    told = [m["content"] for m in agent.model.requests[1].messages if m["role"] == "tool"]
    assert told == ["no"] * number


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("point", TOOL_POINTS)
@pytest.mark.parametrize("way", ["raise", "group", "return"])
async def test_a_reject_in_a_parallel_call_is_not_swallowed(acting, hooks, number, point, way):
    @hooks.hook(point)
    async def refuse(event):
        await asyncio.sleep(0)
        if way == "return":
            return Block("no")
        raise ExceptionGroup("several", [Reject("no")]) if way == "group" else Reject("no")

    agent, _ = acting
    assert results(await agent.run("hello")) == ["no"] * 2 * number


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("point", TOOL_POINTS)
async def test_a_fail_in_a_parallel_call_is_not_swallowed(acting, hooks, number, point):
    @hooks.hook(point)
    async def fail(event):
        await asyncio.sleep(0)
        return Fail("no") if event.tool_call_id.endswith(f"{number - 1}") else None

    agent, _ = acting
    with pytest.raises(RunFailed, match=r"^no$"):
        await agent.run("hello")
    assert len(agent.model.requests) == 1


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("way", ["fail", "provider", "tool source", "cancel", "hook"])
async def test_the_hook_at_the_end_does_not_skip_failures(make, hooks, witness, way):
    class Refusing:
        async def tools(self):
            raise CheckrailError("refused")

        async def aclose(self): ...

    def reply(request):
        return RuntimeError("down") if way == "provider" else "hi"

    async def wait(request):
        await asyncio.sleep(10)

    if way in ("fail", "hook"):
        hooks.after_llm_call(lambda event: Fail("no") if way == "fail" else 42)
    sources = [Refusing()] if way == "tool source" else []
    agent = make(wait if way == "cancel" else reply, hooks=hooks, tools=sources)
    if way == "cancel":
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.run("hello"), 0.05)
    else:
        with pytest.raises(RunFailed):
            await agent.run("hello")
    assert witness.points.count("query_end") == 1
    assert witness.end.error


@pytest.mark.usefixtures("several")
async def test_a_later_hook_sees_what_an_earlier_one_changed(acting, hooks, number):
    seen = []

    def marked(mark):
        def change(event, call):
            seen.append(call.args.get("text", ""))
            text = call.args.get("text", "") + mark
            return Continue(dataclasses.replace(call, args={"text": text}))

        return change

    for mark in "abc":
        hooks.before_tool_call(marked(mark), name=mark)
    hooks.before_tool_call(lambda event, call: seen.append(call.args["text"]), lane="gate")
    agent, done = acting
    await agent.run("hello")
    assert sorted(seen) == sorted(["", "a", "ab", "abc"] * 2 * number)
    assert done == ["abc"] * 2 * number


@pytest.mark.usefixtures("several")
async def test_rewritten_arguments_are_in_the_history_as_they_ran(acting, hooks, number):
    @hooks.before_tool_call
    async def rewrite(event, call):
        await asyncio.sleep(0)
        return Continue(dataclasses.replace(call, args={"text": f"new {call.id}"}))

    agent, done = acting
    response = await agent.run("hello")
    written = [
        json.loads(call["function"]["arguments"])["text"]
        for message in agent.model.requests[-1].messages
        for call in message.get("tool_calls", ())
    ]
    assert sorted(done) == sorted(written)
    assert results(response) == [f"did {text}" for text in written]


@pytest.mark.usefixtures("several")
async def test_nothing_is_injected_between_a_call_and_its_result(acting, hooks, valid, number):
    @hooks.hook("before_llm_call", "after_llm_call", *TOOL_POINTS)
    async def note(event):
        await asyncio.sleep(0)
        return Continue(inject=[{"role": "user", "content": f"{event.point}"}])

    agent, _ = acting
    response = await agent.run("hello")
    valid(response.messages)
    said = [message["content"] for message in response.messages]
    assert said.count("before_tool_call") == said.count("after_tool_call") == 2 * number
    assert said.count("before_llm_call") == said.count("after_llm_call") == 3


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("point", ["after_llm_call", "before_final_response"])
async def test_the_tokens_of_rejected_answers_are_counted(
    *, make, hooks, calls, tools, number, point
):
    hooks.hook(point)(lambda event: Retry("again") if event.iteration in (2, 3) else None)
    used = {"total_tokens": 10}
    first = calls(*((f"{n}", "echo") for n in range(number)))
    script = [dataclasses.replace(first, usage=used), *[AssistantMessage("hi", usage=used)] * 3]
    response = await make(*script, hooks=hooks, tools=tools).run("hello")
    assert response.usage == {"total_tokens": 40}


@pytest.mark.usefixtures("several")
async def test_a_hook_whose_work_runs_the_same_agent_does_not_run_for_ever(
    make, hooks, calls, number
):
    asked = []
    agent = make(
        lambda request: "hi" if len(request.messages) > 1 else answer, hooks=hooks, tools=[]
    )
    answer = calls(*((f"{n}", "unknown") for n in range(number)))

    @hooks.hook("before_llm_call", "before_tool_call", "query_end", name="self")
    async def again(event):
        asked.append(event.agent_name)
        await agent.run("once more")

    assert (await agent.run("hello")).content == "hi"
    assert len(asked) == 2 + number + 1


@pytest.mark.parametrize("point", ["before_llm_call", "query_end"])
@pytest.mark.parametrize("deepest", ["hi", RuntimeError("down")])
async def test_hooks_within_hooks_are_a_fail_when_they_go_too_deep(make, hooks, point, deepest):
    agents = [make("hi" if n < 9 else deepest, name=f"a{n}", hooks=hooks) for n in range(11)]
    failed = []

    def running(agent):
        async def run(event):
            try:
                await agent.run("deeper")
            except RunFailed as error:
                failed.append((agent.name, str(error)))

        return run

    for here, beneath in itertools.pairwise(agents):
        hooks.hook(point, agents=[here.name], name=here.name)(running(beneath))
    assert (await agents[0].run("hello")).content == "hi"
    told = f"hooks within hooks, 9 deep at {point}: 8 is the limit"
    if point == "query_end" and deepest != "hi":  # that it failed before is what counts
        told = "model 'scripted' failed with RuntimeError: down"
    assert failed == [("a9", told)]


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(
    "damage",
    [
        lambda event: event.value.args.update(text="damage"),
        lambda event: event.metadata.update(tags=[]),
        lambda event: event.metadata["tags"].append("damage"),
        lambda event: event.user.permissions.append("damage"),
        lambda event: event.context.metadata["nested"]["deep"].append("damage"),
        lambda event: setattr(event.value, "name", "damage"),
        lambda event: setattr(event, "run_id", "damage"),
    ],
)
async def test_what_hooks_are_given_is_shared_with_nobody(acting, hooks, witness, damage):
    tags, deep = ["vip"], ["a"]
    hooks.before_tool_call(damage, on_error="continue")
    agent, done = acting
    await agent.run(
        "hello",
        metadata={"tags": tags, "nested": {"deep": deep}},
        user={"identity": "ann", "permissions": ["read"]},
    )
    assert (tags, deep, {*done}) == (["vip"], ["a"], {"x"})
    assert "damage" not in repr([(e.value, e.run_id, e.user) for e in witness.events])
    assert {tuple(event.metadata["tags"]) for event in witness.events} == {("vip",)}


@pytest.mark.usefixtures("several")
async def test_a_request_cannot_be_damaged_by_a_hook_nor_by_the_model(make, hooks, tools):
    def damage(request):
        request.messages.append({"role": "user", "content": "damage"})

    hooks.before_llm_call(lambda event, request: damage(request), on_error="continue")

    def reply(request):
        with pytest.raises(TypeError, match="frozen"):
            damage(request)
        return "hi"

    response = await make(reply, hooks=hooks, tools=tools).run("hello")
    assert "damage" not in str(response.messages)
