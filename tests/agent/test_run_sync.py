"""Agents where there is no event loop, and in the threads of tools."""

import asyncio
import threading

import pytest

from checkrail import CheckrailError, Fail, ToolCall
from checkrail.agent import RunFailed


def test_it_gives_what_run_would_have_given(make, hooks, witness, tools):
    agent = make(ToolCall("1", "echo", {"text": "x"}), "hi", hooks=hooks, tools=tools)
    response = agent.run_sync("hello", user="ann", history=[{"role": "user", "content": "a"}])
    assert (response.content, len(response.messages)) == ("hi", 5)
    assert witness.end == response
    assert witness.events[0].user.identity == "ann"


def test_it_raises_what_run_would_have_raised(make, hooks):
    hooks.before_llm_call(lambda event: Fail("no"))
    with pytest.raises(RunFailed, match="no"):
        make("hi", hooks=hooks).run_sync("hello")


def test_it_closes_what_it_opened_and_can_be_called_again(make, hooks, source):
    seen = []

    @hooks.query_end(background=True)
    async def report(event):
        await asyncio.sleep(0.01)
        seen.append(event.run_id)

    shop = source()
    agent = make("a", "b", hooks=hooks, tools=[shop])
    assert [agent.run_sync("hello").content for _ in range(2)] == ["a", "b"]
    assert (shop.opened, shop.closed, len(seen)) == (2, 2, 2)


def test_what_it_opened_is_closed_also_after_a_failure(make, source):
    shop = source()
    with pytest.raises(RunFailed):
        make(RuntimeError("down"), tools=[shop]).run_sync("hello")
    assert shop.closed == 1


async def test_in_an_event_loop_it_says_what_to_do(make):
    agent = make("hi")
    told = r"run_sync cannot be called in an event loop: await run\(\) instead"
    with pytest.raises(CheckrailError, match=told):
        agent.run_sync("hello")
    assert agent.model.requests == []
    assert (await agent.run("hello")).content == "hi"


async def test_in_a_hook_it_is_refused_as_in_any_event_loop(make, hooks):
    judge = make("fine", name="judge")
    hooks.after_llm_call(lambda event: judge.run_sync("?"), lane="gate", name="judging")
    response = await make("hi", hooks=hooks).run("hello")
    assert (response.stop_reason, judge.model.requests) == ("block", [])
    assert response.error == "hook 'judging' at after_llm_call failed with CheckrailError"


async def test_in_a_thread_it_works(make):
    agent = make("hi")
    assert (await asyncio.to_thread(agent.run_sync, "hello")).content == "hi"


async def test_in_the_thread_of_a_tool_the_hooks_above_hold(make, hooks, witness):
    inner = make("pong", name="inner")

    def ask() -> str:
        assert threading.current_thread() is not threading.main_thread()
        return inner.run_sync("go").content

    response = await make(ToolCall("1", "ask"), "hi", hooks=hooks, tools=[ask]).run("hello")
    assert response.messages[2]["content"] == "pong"
    inside = [event for event in witness.events if event.agent_name == "inner"]
    assert [str(event.point) for event in inside][-1] == "query_end"
    assert {event.parent_run_id for event in inside} == {witness.at("query_end")[-1].run_id}


async def test_in_the_thread_of_a_tool_it_does_not_wait_for_what_is_not_its_own(make, hooks):
    seen, done = [], asyncio.Event()

    @hooks.before_llm_call(background=True, agents=["agent"])
    async def slow(event):
        await done.wait()
        seen.append(event.agent_name)

    inner = make("pong", name="inner", hooks=hooks)

    def ask() -> str:
        return inner.run_sync("go").content

    async with asyncio.timeout(5):
        agent = make(ToolCall("1", "ask"), "hi", hooks=hooks, tools=[ask])
        response = await agent.run("hello")
    assert response.messages[2]["content"] == "pong"
    assert seen == []
    done.set()
    await agent.aclose()
    assert seen == ["agent", "agent"]


async def test_many_threads_lose_no_usage_and_no_event(make, hooks, witness, calls):
    hooks.hook("before_llm_call", "after_llm_call")(lambda event: asyncio.sleep(0.001))
    inner = make(lambda request: "one two three", name="inner")

    def ask(n: int) -> str:
        return inner.run_sync("go").content

    answer = calls(*((f"{n}", "ask", {"n": n}) for n in range(8)))
    agent = make(answer, "hi", hooks=hooks, tools=[ask])
    response = await agent.run("hello")
    assert len(witness.at("query_end")) == 9
    own = [m for m in response.messages if m["role"] == "tool"]
    assert [message["content"] for message in own] == ["one two three"] * 8
    alone = (await inner.run("go")).usage["output_tokens"]
    assert response.usage["output_tokens"] >= 8 * alone


async def test_a_fail_in_the_thread_of_a_tool_ends_the_run(make, hooks):
    hooks.before_llm_call(lambda event: Fail("all is lost"), agents=["inner"])
    inner = make("pong", name="inner")

    def ask() -> str:
        try:
            return inner.run_sync("go").content
        except RunFailed:
            return "all is well"

    with pytest.raises(RunFailed, match="all is lost"):
        await make(ToolCall("1", "ask"), "hi", hooks=hooks, tools=[ask]).run("hello")
