"""Tools: what they are given, what they give back in all its forms, and what the model is told."""

import asyncio
import dataclasses
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt

from checkrail.adapters.langchain import RunEnded, ToolBlocked
from checkrail.engine.outcomes import Block, Continue, Fail, Replace
from checkrail.engine.values import ToolResult

from .support_graphs import RAN, called, guard_of, hooks, look, pay


def node_of(*tools, checkpointer=None, **options):
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([*tools], **options))
    builder.add_edge(START, "tools")
    return builder.compile(checkpointer=checkpointer)


async def use(registry, tool, args, **options):
    """Have a tool node call a tool; give what it left in the history."""
    guard = guard_of(registry)
    asked = {"messages": [called((tool.name, args, "c1"))]}
    with guard.activate():
        result = await node_of(tool, **options).ainvoke(asked)
    return result["messages"][-1]


@tool
def broken(what: str) -> str:
    """Break."""
    raise ValueError(f"{what} is broken")


@tool(response_format="content_and_artifact")
def papers(which: str) -> Any:
    """Find papers."""
    return f"found {which}", {"which": which}


@tool
def goto(where: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Go somewhere."""
    told = ToolMessage(f"went to {where}", tool_call_id=tool_call_id)
    return Command(update={"messages": [told]})


@tool
def remembering(what: str, state: Annotated[dict, InjectedState]) -> str:
    """Remember the conversation."""
    return f"{what} after {len(state['messages'])}"


def to(content):
    return lambda event, result: Continue(dataclasses.replace(result, content=content))


async def test_hooks_see_the_result_and_may_change_it():
    said = await use(hooks(("after_tool_call", to("hidden"))), pay, {"amount": 3})
    assert (said.content, said.status, said.name) == ("hidden", "success", "pay")
    assert said.tool_call_id == "c1"


async def test_a_result_that_is_blocked_becomes_an_error():
    said = await use(hooks(("after_tool_call", lambda event: Block("secret"))), pay, {"amount": 3})
    assert (said.content, said.status) == ("secret", "error")
    assert RAN == [("pay", 3, "bob")]


async def test_a_call_that_is_replaced_is_not_made_and_its_result_is_seen():
    seen = []
    registry = hooks(
        ("before_tool_call", lambda event: Replace("from memory")),
        ("after_tool_call", lambda event: seen.append(event.value.content)),
    )
    said = await use(registry, pay, {"amount": 3})
    assert (said.content, RAN, seen) == ("from memory", [], ["from memory"])


async def test_an_ask_that_nobody_can_answer_blocks():
    from checkrail.engine.outcomes import Ask

    said = await use(hooks(("before_tool_call", lambda event: Ask("really?"))), pay, {"amount": 3})
    assert said.status == "error"
    assert "nobody to ask" in said.content
    assert RAN == []


async def test_a_tool_that_raises_raises_as_it_did_if_no_hook_minds():
    seen = []
    registry = hooks(
        ("after_tool_call", lambda event: seen.append(event.value.is_error)),
        ("on_tool_error", lambda event: seen.append(event.value.error)),
    )
    with pytest.raises(ValueError, match="pipe is broken"):
        await use(registry, broken, {"what": "pipe"})
    assert seen == [True, "ValueError: pipe is broken"]
    said = await use(registry, broken, {"what": "pipe"}, handle_tool_errors=True)
    assert "pipe is broken" in said.content


async def test_hooks_may_say_what_the_model_is_told_of_a_failure():
    said = await use(hooks(("on_tool_error", to("try later"))), broken, {"what": "pipe"})
    assert (said.content, said.status) == ("try later", "error")


async def test_hooks_may_mend_a_failure():
    def mended(event, result):
        return Continue(ToolResult(content="all well"))

    said = await use(hooks(("after_tool_call", mended)), broken, {"what": "pipe"})
    assert (said.content, said.status) == ("all well", "success")


async def test_a_fail_after_a_tool_ends_the_run():
    guard = guard_of(hooks(("after_tool_call", lambda event: Fail("poisoned"))))
    with guard.activate(), pytest.raises(RunEnded, match="poisoned"):
        await node_of(pay, handle_tool_errors=True).ainvoke(
            {"messages": [called(("pay", {"amount": 1}, "c1"))]}
        )
    assert (guard.ended.point, guard.ended.status) == ("after_tool_call", 500)


async def test_an_artifact_stays_with_a_result_that_no_hook_changed():
    untouched = await use(hooks(("after_tool_call", lambda event: None)), papers, {"which": "x"})
    assert untouched.artifact == {"which": "x"}
    changed = await use(hooks(("after_tool_call", to("[hidden]"))), papers, {"which": "x"})
    assert (changed.content, changed.artifact) == ("[hidden]", None)


async def test_a_command_is_passed_on_and_its_message_is_what_hooks_see():
    seen = []
    registry = hooks(("after_tool_call", lambda event: seen.append(event.value.content)))
    said = await use(registry, goto, {"where": "town"})
    assert (said.content, seen) == ("went to town", ["went to town"])


async def test_the_message_in_a_command_may_be_changed_and_blocked():
    changed = await use(hooks(("after_tool_call", to("went out"))), goto, {"where": "town"})
    assert changed.content == "went out"
    refused = hooks(("after_tool_call", lambda event: Block("stay")))
    blocked = await use(refused, goto, {"where": "town"})
    assert (blocked.content, blocked.status) == ("stay", "error")


async def test_a_command_without_a_message_shows_its_update():
    @tool
    def note(what: str) -> Command:
        """Note something."""
        return Command(update={"noted": what})

    def change(event, result):
        return Continue(dataclasses.replace(result, content={"noted": "less"}))

    call = called(("note", {"what": "all"}, "c1")).tool_calls[0]
    with guard_of(hooks(("after_tool_call", change))).activate():
        assert await note.ainvoke(call) == Command(update={"noted": "less"})


async def test_arguments_that_the_graph_injects_are_neither_shown_nor_lost():
    seen = []

    def shout(event, call):
        seen.append(call.args)
        return Continue(dataclasses.replace(call, args={"what": "HELLO"}))

    said = await use(hooks(("before_tool_call", shout)), remembering, {"what": "hello"})
    assert said.content == "HELLO after 1"
    assert seen == [{"what": "hello"}]


async def test_tools_that_code_calls_at_once_are_each_held():
    registry = hooks(("before_tool_call", lambda event: Block("no"), {"tools": "pay"}))
    with guard_of(registry).activate():
        paid, looked = await asyncio.gather(
            pay.ainvoke({"amount": 1}), look.ainvoke({"where": "here"}), return_exceptions=True
        )
    assert isinstance(paid, ToolBlocked)
    assert isinstance(paid, ToolException)
    assert (str(paid), looked) == ("no", "nothing in here")


async def test_code_gets_what_the_tool_returns_as_hooks_left_it():
    with guard_of(hooks(("after_tool_call", to("less")))).activate():
        assert await pay.ainvoke({"amount": 1}) == "less"
        assert pay.run({"amount": 1}) == "less"


async def test_a_text_given_to_a_tool_is_its_only_argument():
    seen = []

    def change(event, call):
        seen.append(call.args)
        return Continue(dataclasses.replace(call, args={"where": "there"}))

    with guard_of(hooks(("before_tool_call", change))).activate():
        assert await look.ainvoke("here") == "nothing in there"
    assert seen == [{"where": "here"}]


async def test_another_tool_cannot_be_made_of_one_that_is_about_to_be_called():
    guard = guard_of(
        hooks(("before_tool_call", lambda e, call: Continue(dataclasses.replace(call, name="x"))))
    )
    with guard.activate(), pytest.raises(RunEnded, match="another tool call"):
        await pay.ainvoke({"amount": 1})
    assert guard.ended.decision == "fail"


async def test_an_interrupt_in_a_tool_is_no_result():
    seen = []

    @tool
    def ask(what: str) -> str:
        """Ask a person."""
        return interrupt(what)

    registry = hooks(
        ("before_tool_call", lambda event: seen.append("before")),
        ("after_tool_call", lambda event: seen.append(event.value.content)),
    )
    graph = node_of(ask, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    with guard_of(registry).activate():
        await graph.ainvoke({"messages": [called(("ask", {"what": "ok?"}, "c1"))]}, config)
    assert seen == ["before"]
    with guard_of(registry).activate():
        result = await graph.ainvoke(Command(resume="yes"), config)
    assert result["messages"][-1].content == "yes"
    assert seen == ["before", "before", "yes"]


async def test_who_listens_is_told_of_tools_as_hooks_left_them():
    told = []
    registry = hooks(
        ("before_tool_call", lambda event: Block("no"), {"tools": "look"}),
        (
            "before_tool_call",
            lambda event, call: Continue(dataclasses.replace(call, args={"amount": 2})),
            {"tools": "pay"},
        ),
        ("after_tool_call", to("done"), {"tools": "pay"}),
    )
    calls = called(("pay", {"amount": 1}, "c1"), ("look", {"where": "x"}, "c2"))
    with guard_of(registry, on_tool=told.append).activate():
        await node_of(pay, look).ainvoke({"messages": [calls]})
    pays = [event for event in told if event["tool_call_id"] == "c1"]
    started, finished = pays
    assert started == {
        "event": "tool-started",
        "tool_call_id": "c1",
        "tool_name": "pay",
        "input": {"amount": 2},
    }
    assert (finished["event"], finished["output"].content) == ("tool-finished", "done")
    assert [event for event in told if event["tool_call_id"] == "c2"] == [
        {"event": "tool-error", "tool_call_id": "c2", "tool_name": "look", "message": "no"}
    ]


async def test_who_listens_and_fails_disturbs_nobody(caplog):
    def fall(event):
        raise RuntimeError("gone")

    with guard_of(hooks(), on_tool=fall).activate():
        assert await pay.ainvoke({"amount": 1}) == "paid 1 to bob"
    assert "on_tool failed" in caplog.text


async def test_a_tool_that_raises_is_told_as_an_error():
    told = []
    with guard_of(hooks(), on_tool=told.append).activate(), pytest.raises(ValueError, match="pipe"):
        await broken.ainvoke({"what": "pipe"})
    assert [event["event"] for event in told] == ["tool-started", "tool-error"]
    assert told[1]["message"] == "ValueError: pipe is broken"


async def test_messages_that_tool_hooks_inject_stand_behind_the_results():
    from .support_graphs import async_graph, scripted

    def note(event):
        return Continue(inject=[{"role": "user", "content": f"mind {event.value.name}"}])

    calls = called(("pay", {"amount": 1}, "c1"), ("look", {"where": "x"}, "c2"))
    model = scripted(calls, called(("look", {"where": "y"}, "c3")), "done")
    with guard_of(hooks(("after_tool_call", note))).activate():
        result = await async_graph(model).ainvoke({"messages": [("user", "go")]})
    kinds = [(said.type, said.content) for said in model.asked[2]["messages"]]
    assert [kind[0] for kind, _ in kinds] == [*"hatthhath"]
    assert [text for kind, text in kinds[4:6]] == ["mind pay", "mind look"]
    assert kinds[-1] == ("human", "mind look")
    assert not any("mind" in str(said.content) for said in result["messages"])
    assert isinstance(result["messages"][-1], AIMessage)
