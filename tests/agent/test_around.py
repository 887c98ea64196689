"""What runs beneath a run, whichever way it was started."""

import asyncio

from checkrail import Agent, AssistantMessage, Block, HookRegistry, Hooks, ToolCall
from checkrail.testing import ScriptedModel

WIPE = ToolCall("1", "wipe")


def guarded(tool):
    """An agent whose hooks forbid `wipe` in everything beneath it, and which calls a tool."""
    hooks = Hooks()
    seen = []
    hooks.before_tool_call(lambda event: Block("never"), tools=["wipe"], lane="gate", name="never")
    hooks.before_llm_call(seen.append, lane="observe", name="watch")
    return Agent(ScriptedModel([ToolCall("t", "work"), "done"]), [tool], hooks=hooks), seen


def wiper(done):
    async def wipe() -> str:
        done.append("wiped")
        return "gone"

    return Agent(ScriptedModel([WIPE, "ok"] * 3), [wipe], name="wiper")


async def test_a_scope_of_its_own_does_not_lead_around_the_hooks_above():
    done, own = [], HookRegistry()

    async def work() -> str:
        helper = wiper(done)
        scope = own.scope(run_id="own", user="bob")
        return str((await helper.run("wipe", scope=scope)).content)

    agent, seen = guarded(work)
    await agent.run("go", user="ann")
    assert done == []
    inner = [event for event in seen if event.agent_name == "wiper"]
    assert {(event.run_id, event.user.identity) for event in inner} == {("own", "bob")}


async def test_a_run_that_is_over_lends_its_hooks_but_nobodys_name():
    done, mail = [], asyncio.Queue()
    workers = []

    async def worker() -> None:
        await mail.get()
        await wiper(done).run("wipe", user="bob")

    async def work() -> str:
        workers.append(asyncio.create_task(worker()))
        return "started"

    agent, seen = guarded(work)
    await agent.run("go", user="ann", session_id="of-ann")
    mail.put_nowait("later")
    await asyncio.gather(*workers)
    assert done == []
    late = [event for event in seen if event.agent_name == "wiper"]
    assert {(e.user.identity, e.session_id, e.parent_run_id) for e in late} == {("bob", None, None)}


def test_observers_of_the_run_around_are_awaited_where_they_were_started():
    heard = []
    hooks = Hooks()

    @hooks.query_end(background=True)
    async def audit(event):
        await asyncio.sleep(0.05)
        heard.append(event.agent_name)

    def work() -> str:
        return str(Agent(ScriptedModel("hi"), name="inner").run_sync("hi").content)

    Agent(ScriptedModel([ToolCall("t", "work"), "done"]), [work], hooks=hooks).run_sync("go")
    assert sorted(heard) == ["agent", "inner"]


async def test_what_a_sub_agent_thinks_is_not_told_to_its_parent():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    inner = Agent(
        ScriptedModel([AssistantMessage([thought, {"type": "text", "text": "four"}])]),
        name="inner",
    )
    outer = Agent(ScriptedModel([ToolCall("1", "inner", {"query": "2+2"}), "4"]), [inner])
    response = await outer.run("2+2")
    assert response.messages[2]["content"] == "four"


async def test_a_made_up_tool_name_is_written_so_that_providers_take_it_back():
    calls = [ToolCall("1", "multi_tool_use.parallel"), ToolCall("2", "")]
    agent = Agent(ScriptedModel([AssistantMessage(tool_calls=calls), "sorry"]))
    written = (await agent.run("go")).messages[1]["tool_calls"]
    assert [call["function"]["name"] for call in written] == ["multi_tool_use_parallel", "unknown"]


async def test_redacted_arguments_that_are_no_json_are_told_redacted():
    hooks = Hooks()
    from checkrail.builtin import redact

    hooks.registry.register(redact, "after_llm_call", config={"kinds": ["email"]})
    answer = AssistantMessage(
        tool_calls=[ToolCall("1", "send")],
        metadata={"unparsed_arguments": {"1": '{"to": "ann@example.com'}},
    )
    response = await Agent(ScriptedModel([answer, "sorry"]), hooks=hooks).run("go")
    assert "ann@example.com" not in repr(response)
    assert "[redacted:email]" in response.messages[2]["content"]


async def test_a_redaction_of_the_response_alone_leaves_the_conversation_in_place():
    from checkrail import AgentResponse, Continue

    hooks = Hooks()
    hooks.query_end(lambda event: Continue(AgentResponse("clean"), redacted=True))
    talk = Agent(ScriptedModel("dirty"), hooks=hooks).conversation()
    assert (await talk.run("say it")).content == "clean"
    assert [said["content"] for said in talk.messages] == ["say it", "clean"]


def test_a_run_in_a_loop_of_its_own_leaves_the_connections_of_others():
    class Shared:
        left = closed = 0

        async def tools(self):
            return []

        async def leave(self):
            self.left += 1

        async def aclose(self):
            self.closed += 1

    shared = Shared()
    inner = Agent(ScriptedModel("hi"), [shared], name="inner")
    agent = Agent(ScriptedModel(["hi", "hi"]), [inner, shared])
    agent.run_sync("hi")
    assert (shared.left, shared.closed) == (2, 0)
    asyncio.run(agent.aclose())
    assert (shared.left, shared.closed) == (2, 2)


async def test_programs_that_are_hooks_are_told_nothing_of_the_agent_itself():
    from checkrail.actions.wire import render_event

    told = []
    hooks = Hooks()
    hooks.before_llm_call(lambda event: told.append(render_event(event)), lane="observe")
    await Agent(ScriptedModel("hi"), hooks=hooks).run("hi", metadata={"tier": "gold"})
    assert [item["metadata"] for item in told] == [{"tier": "gold"}]
