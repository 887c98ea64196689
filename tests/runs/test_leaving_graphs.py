"""A graph is left while somebody is asked, and goes on at its last step: no call is made twice."""

import asyncio
import base64
import json
import os
import pickle
from dataclasses import dataclass

import ormsgpack
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from checkrail.adapters.langchain.journal import JournalEntry
from checkrail.engine.outcomes import Ask
from checkrail.runs import jsons
from checkrail.runs.errors import NotFoundError
from checkrail.runs.remote.snapshots import sign_snapshot
from checkrail.store import runs

from .approval_support import approve, asked, asks, questions, waiting
from .support import Counting, chain, until

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


class Calls:
    """What was called, and how often."""

    def __init__(self):
        self.models = 0
        self.tools = []


class Scripted(BaseChatModel):
    """A model that gives one answer after the other, and counts."""

    calls: object
    answers: list

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self.calls.models += 1
        said = sum(message.type == "ai" for message in messages)
        message = self.answers[said].model_copy(
            update={"usage_metadata": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def wants(*names):
    calls = [{"name": name, "args": {"what": name}, "id": f"c{n}"} for n, name in enumerate(names)]
    return AIMessage("", tool_calls=calls)


def tools(calls):
    @tool
    def look(what: str) -> str:
        """Look at something."""
        calls.tools.append(("look", what))
        return f"{what} is fine"

    @tool
    async def pay(what: str) -> str:
        """Pay for something."""
        calls.tools.append(("pay", what))
        return f"paid {what}"

    return [look, pay]


def agent(calls, *answers):
    """A graph of a model and its tools, as most are."""
    model = Scripted(calls=calls, answers=[*answers])

    async def think(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    def more(state):
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools(calls)))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", more, ["tools", END])
    graph.add_edge("tools", "think")
    return graph.compile()


def about(name, **options):
    def four_eyes(event, call):
        return Ask(f"{call.name}?", **options) if call.name == name else None

    return four_eyes


def contents(run):
    return [message["content"] for message in run.output["messages"]]


@pytest.mark.parametrize("lane", ["gate", "transform"])
async def test_a_tool_of_a_graph_waits_as_a_row_through_a_restart(world, lane):
    calls = Calls()
    graphs = {"agent": agent(calls, wants("look", "pay"), AIMessage("Done."))}
    hook = (about("pay"), "before_tool_call", {"lane": lane, "name": "four_eyes"})
    async with world.opened(graphs, hook) as first:
        run = await first.admit("agent", HELLO, await first.thread())
        row = await waiting(first, run)
        done = [("look", "look")] if lane == "gate" else []
        assert (calls.models, calls.tools) == (1, done)
    async with world.opened(graphs, hook) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert (ended.status, contents(ended)[-1]) == ("success", "Done.")
        assert (calls.models, sorted(calls.tools)) == (2, [("look", "look"), ("pay", "pay")])
        assert [*ended.usage.values()] == [
            {"input_tokens": 6, "output_tokens": 4, "total_tokens": 10}
        ]
        assert contents(ended)[-3:] == ["look is fine", "paid pay", "Done."]


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call"])
async def test_a_model_is_asked_once_however_often_its_node_runs(world, point):
    calls = Calls()
    graphs = {"agent": agent(calls, AIMessage("Done."))}
    async with world.opened(graphs, (asks(), point)) as first:
        run = await first.admit("agent", HELLO, await first.thread())
        row = await waiting(first, run)
        assert calls.models == (point == "after_llm_call")
    async with world.opened(graphs, (asks(), point)) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert (ended.status, contents(ended)) == ("success", ["hello", "Done."])
        assert calls.models == 1
        assert next(iter(ended.usage.values()))["total_tokens"] == 5


async def test_calls_of_the_node_that_asked_are_answered_from_the_journal(world):
    calls = Calls()
    look, pay = tools(calls)
    model = Scripted(calls=calls, answers=[AIMessage("I thought.")])

    async def all_at_once(state):
        thought = await model.ainvoke(state["messages"])
        seen = look.invoke({"what": "till"})
        paid = await pay.ainvoke({"what": "bill"})
        again = await look.ainvoke({"what": "till"})
        return {"messages": [("ai", f"{thought.content} {seen} {paid} {again}")]}

    graphs = {"one": chain(all_at_once, state=MessagesState)}
    hook = (about("pay"), "before_tool_call", {"lane": "gate"})
    async with world.opened(graphs, hook) as first:
        run = await first.admit("one", HELLO, await first.thread())
        row = await waiting(first, run)
    async with world.opened(graphs, hook) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert contents(ended)[-1] == "I thought. till is fine paid bill till is fine"
        assert calls.models == 1
        assert calls.tools == [("look", "till"), ("pay", "bill"), ("look", "till")]


async def test_a_call_that_goes_on_beside_the_question_is_waited_for(world):
    calls, go = Calls(), asyncio.Event()
    _, pay = tools(calls)

    @tool
    async def slow(what: str) -> str:
        """Take its time."""
        await go.wait()
        calls.tools.append(("slow", what))
        return "at last"

    async def both(state):
        found = await asyncio.gather(slow.ainvoke({"what": "a"}), pay.ainvoke({"what": "b"}))
        return {"messages": [("ai", " ".join(found))]}

    graphs = {"both": chain(both, state=MessagesState)}
    hook = (about("pay"), "before_tool_call", {"lane": "gate"})
    async with world.opened(graphs, hook) as served:
        run = await served.admit("both", HELLO, await served.thread())

        async def raised():
            state = await served.state_of("both", run.thread_id)
            return [each for task in state.tasks for each in task.interrupts]

        await until(raised, "the interrupt")
        assert (await served.row(run)).phase == "running"
        go.set()
        await approve(served, await asked_and_left(served, run))
        ended = await served.over(run)
        assert contents(ended)[-1] == "at last paid b"
        assert calls.tools == [("slow", "a"), ("pay", "b")]


async def asked_and_left(served, run):
    await asked(served, run)
    return await waiting(served, run)


async def test_the_thread_shows_an_interrupt_under_the_id_of_the_question(world):
    calls = Calls()
    graphs = {"agent": agent(calls, wants("pay"), AIMessage("Done."))}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        run = await served.admit("agent", HELLO, await served.thread())
        row = await waiting(served, run)
        state = await served.state_of("agent", run.thread_id)
        [found] = [each for task in state.tasks for each in task.interrupts]
        assert found.id == row.approval_id
        assert found.value["question"] == "pay?"


async def test_a_graph_within_a_graph_goes_on_where_it_asked(world):
    calls = Calls()
    outer = StateGraph(MessagesState)
    outer.add_node("inner", agent(calls, wants("pay"), AIMessage("Done.")))
    outer.add_edge(START, "inner")
    graphs = {"outer": outer.compile()}
    hook = (about("pay"), "before_tool_call", {"lane": "gate"})
    async with world.opened(graphs, hook) as first:
        run = await first.admit("outer", HELLO, await first.thread())
        row = await waiting(first, run)
    async with world.opened(graphs, hook) as second:
        await approve(second, row)
        ended = await second.over(run)
        assert contents(ended)[-1] == "Done."
        assert (calls.models, calls.tools) == (2, [("pay", "pay")])


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_node_that_was_resumed_with_an_answer_keeps_it_across_the_question(world, restarts):
    calls = Calls()
    model = Scripted(calls=calls, answers=[AIMessage("one"), AIMessage("two")])

    async def both(state):
        first = await model.ainvoke(state["messages"])
        told = interrupt("which?")
        second = await model.ainvoke([*state["messages"], first])
        return {"messages": [("ai", f"{told} {second.content}")]}

    graphs = {"both": chain(both, state=MessagesState)}

    def about_answers(event, request):
        return Ask("again?") if request.messages[-1]["role"] == "assistant" else None

    hook = (about_answers, "before_llm_call")
    async with world.opened(graphs, hook) as served:
        thread = await served.thread()
        waits = await served.run("both", HELLO, thread)
        assert waits.status == "interrupted"
        run = await served.admit("both", None, thread, command={"resume": "this"})
        row = await waiting(served, run)
        if not restarts:
            await approve(served, row)
            ended = await served.over(run)
    if restarts:
        async with world.opened(graphs, hook) as second:
            await approve(second, row)
            ended = await second.over(run)
    assert (ended.status, contents(ended)[-1]) == ("success", "this two"), ended.error
    assert calls.models == 3  # LangGraph runs a node again that was interrupted


async def test_a_node_that_swallows_the_question_fails_the_run_and_says_why(world):
    calls = Calls()
    _, pay = tools(calls)

    async def careless(state):
        try:
            await pay.ainvoke({"what": "bill"})
        except Exception as error:
            return {"messages": [("ai", type(error).__name__)]}
        return {}

    graphs = {"careless": chain(careless, state=MessagesState)}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        run = await served.admit("careless", HELLO, await served.thread())
        ended = await served.over(run)
        assert (ended.status, ended.error_type) == ("error", "SwallowedError")
        assert "GraphBubbleUp" in ended.error
        assert (calls.tools, await questions(served, run)) == ([], [])


async def test_a_question_inside_a_tool_is_waited_for_where_it_is(world):
    calls = Calls()

    @tool
    async def thoughtful(what: str) -> str:
        """Ask a model."""
        calls.tools.append(what)
        return (await Counting().ainvoke(what)).text

    async def use(state):
        return {"messages": [("ai", await thoughtful.ainvoke({"what": "hm"}))]}

    graphs = {"use": chain(use, state=MessagesState)}
    async with world.opened(graphs, (asks(), "before_llm_call")) as served:
        run = await served.admit("use", HELLO, await served.thread())
        row = await asked(served, run)
        assert (await served.row(run)).phase == "running"
        await approve(served, row)
        ended = await served.over(run)
        assert (contents(ended)[-1], calls.tools) == ("heard hm", ["hm"])


async def test_a_run_that_keeps_no_steps_is_waited_for_where_it_is(world):
    calls = Calls()
    graphs = {"agent": agent(calls, AIMessage("Done."))}
    async with world.opened(graphs, (asks(), "before_llm_call")) as served:
        run = await served.admit("agent", HELLO, await served.thread(), durability="exit")
        row = await asked(served, run)
        assert (await served.row(run)).phase == "running"
        await approve(served, row)
        assert (await served.over(run)).status == "success"


async def test_a_graph_that_waits_is_cancelled_and_its_thread_is_free(world):
    calls = Calls()
    graphs = {"agent": agent(calls, wants("pay"), AIMessage("Done."))}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        thread = await served.thread()
        run = await served.admit("agent", HELLO, thread)
        await waiting(served, run)
        await served.service.cancel(run.run_id, "interrupt")
        ended = await served.over(run)
        assert (ended.phase, ended.usage is None) == ("cancelled", False)
        again = await served.admit("agent", HELLO, thread)
        assert (await waiting(served, again)).run_id == again.run_id


async def test_a_graph_that_waits_is_rolled_back_with_all_that_it_did(world):
    calls = Calls()
    graphs = {"agent": agent(calls, wants("pay"), AIMessage("Done."))}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        thread = await served.thread()
        run = await served.admit("agent", HELLO, thread)
        await waiting(served, run)
        await served.service.cancel(run.run_id, "rollback")
        with pytest.raises(NotFoundError, match="rolled back"):
            await served.over(run)
        assert await served.state("agent", thread) == {}


class Reduced:
    """Something that makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def evil(folder):
    """Values that have their reader make a folder, in each form that LangGraph has for msgpack."""

    def pack(code, *what):
        return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(what)))

    data = [
        pack(0, "os", "mkdir", folder),
        pack(1, "os", "mkdir", [folder]),
        pack(2, "os", "mkdir", {"path": folder}),
        pack(4, "os", "mkdir", {"path": folder}),
        pack(5, "os", "mkdir", {"path": folder}, "model_validate_json"),
    ]
    return [["msgpack", base64.b64encode(each).decode()] for each in data]


async def test_no_code_is_called_by_what_is_read_of_a_run_that_was_left(world, tmp_path):
    calls, folder = Calls(), tmp_path / "made"
    look, pay = tools(calls)
    given = evil(str(folder))

    async def all_at_once(state):
        for _ in given:
            look.invoke({"what": "till"})
        return {"messages": [("ai", await pay.ainvoke({"what": "bill"}))]}

    graphs = {"one": chain(all_at_once, state=MessagesState)}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        run = await served.admit("one", HELLO, await served.thread())
        row = await waiting(served, run)
        kept = (await served.row(run)).suspended_state
        for call, value in zip(kept["memo"]["calls"], given, strict=True):
            call["given"] = value
        await served.write(
            lambda tx: runs.update_run(tx, run.run_id, suspended_state=jsons.dumps(kept))
        )
        await approve(served, row)
        assert (await served.over(run)).status == "success"
        assert not folder.exists()
        assert len(calls.tools) == len(given) + 1


async def test_a_run_is_not_entered_with_a_memo_that_its_runner_did_not_hand_in(world):
    calls = Calls()
    graphs = {"agent": agent(calls, wants("pay"), AIMessage("Done."))}
    async with world.opened(graphs, (about("pay"), "before_tool_call")) as served:
        run = await served.admit("agent", HELLO, await served.thread())
        row = await waiting(served, run)
        kept = sign_snapshot("another run", 1, (await served.row(run)).suspended_state)
        await served.write(
            lambda tx: runs.update_run(tx, run.run_id, suspended_state=jsons.dumps(kept))
        )
        await approve(served, row)
        ended = await served.over(run)
        assert (ended.status, ended.error_type) == ("error", "SnapshotError")
        assert calls.tools == []


def test_a_journal_reads_no_pickles_and_no_constructors_in_json(tmp_path):
    folder = str(tmp_path / "made")
    built = {"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [folder]}
    forms = {"pickle": pickle.dumps(Reduced(folder)), "json": json.dumps(built).encode()}
    for kind, data in forms.items():
        slot = JournalEntry("task", "root", str, None)
        with pytest.raises(ValueError, match=f"no data of the kind '{kind}'"):
            slot.restore({"given": [kind, base64.b64encode(data).decode()], "over": True})
    assert [*tmp_path.iterdir()] == []


async def test_a_run_waits_in_place_where_a_call_gave_what_only_its_own_code_can_build(world):
    calls = Calls()
    _, pay = tools(calls)

    @tool(response_format="content_and_artifact")
    def count(what: str) -> tuple[str, Calls]:
        """Count something."""
        calls.tools.append(("count", what))
        return "1", Fact(what)

    async def both(state):
        call = {"name": "count", "args": {"what": "till"}, "id": "c", "type": "tool_call"}
        seen = await count.ainvoke(call)
        paid = await pay.ainvoke({"what": "bill"})
        return {"messages": [("ai", f"{seen.artifact.what} {paid}")]}

    graphs = {"both": chain(both, state=MessagesState)}
    hook = (about("pay"), "before_tool_call", {"lane": "gate"})
    async with world.opened(graphs, hook) as served:
        run = await served.admit("both", HELLO, await served.thread())
        row = await asked(served, run)
        assert (await served.row(run)).phase == "running"
        await approve(served, row)
        assert contents(await served.over(run))[-1] == "till paid bill"
        assert calls.tools == [("count", "till"), ("pay", "bill")]


@dataclass
class Fact:
    what: str
