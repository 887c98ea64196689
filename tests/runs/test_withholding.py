"""What a hook redacts or refuses is in no event of a run, whatever a client streams."""

from dataclasses import replace

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from checkrail.engine.outcomes import Block, Continue

from .support import chain, say

SECRET = "sk-12345"
MODES = (
    "values",
    "updates",
    "messages",
    "custom",
    "checkpoints",
    "tasks",
    "debug",
    "events",
    "tools",
    "lifecycle",
)
ASKED = {"messages": [{"role": "user", "content": "what is it?"}]}


@tool
def look_up(name: str) -> str:
    """Look something up."""
    return f"{name} is {SECRET}"


@tool
async def look_up_async(name: str) -> str:
    """Look something up, without blocking."""
    return f"{name} is {SECRET}"


class Asking(BaseChatModel):
    """Calls a tool, and then says what that gave."""

    name_of_tool: str = "look_up"

    @property
    def _llm_type(self) -> str:
        return "asking"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        last = messages[-1]
        call = {"name": self.name_of_tool, "args": {"name": "the key"}, "id": "call-1"}
        if isinstance(last, ToolMessage):
            message = AIMessage(f"I found: {last.content}")
        else:
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent(used):
    """A loop of a model and a tool, as a project would write it."""

    async def model(state):
        return {"messages": [await Asking(name_of_tool=used.name).ainvoke(state["messages"])]}

    def calls(state):
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState).add_node("model", model)
    graph.add_node("tools", ToolNode([used])).add_edge(START, "model")
    return graph.add_conditional_edges("model", calls).add_edge("tools", "model").compile()


async def direct(state):
    """Call a tool without any model, and a plain function as a tool's tool."""
    return {"messages": [AIMessage(await look_up_async.ainvoke({"name": "the key"}))]}


def sync_direct(state):
    return {"messages": [AIMessage(look_up.invoke({"name": "the key"}))]}


GRAPHS = {
    "agent": agent(look_up),
    "async agent": agent(look_up_async),
    "direct": chain(direct, state=MessagesState),
    "sync direct": chain(sync_direct, state=MessagesState),
}


async def hide_result(event):
    return Continue(replace(event.value, content="***"), redacted=True)


async def refuse_result(event):
    return Block("that is a secret")


async def hide_answer(event):
    if SECRET in str(event.value.content):
        return Continue(replace(event.value, content="***"), redacted=True)
    return None


async def told(served, graph, modes, given=None):
    """All that anybody can read of a run, and of its thread."""
    thread = await served.thread()
    row = await served.run(
        graph, given or ASKED, thread, modes=modes, stream_mode=modes, stream_subgraphs=True
    )
    state = await served.state(graph, thread)
    events = await served.events(row)
    records = await served.records(row)
    return row, [row, events, records, state, await served.thread_row(thread)]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("hook", [hide_result, refuse_result])
async def test_what_a_hook_makes_of_a_tools_result_is_all_that_is_told(world, graph, hook):
    served = await world.open({graph: GRAPHS[graph]}, (hook, "after_tool_call"))
    row, everything = await told(served, graph, MODES)
    assert SECRET not in repr(everything)
    names = {event.event for event in everything[1]}
    assert {"values", "updates", "events", "tasks", "checkpoints", "debug", "tools"} <= names
    if hook is hide_result:
        assert (row["status"], "***" in repr(row["output"])) == ("success", True)


@pytest.mark.parametrize("graph", GRAPHS)
async def test_without_such_a_hook_every_mode_tells_what_a_tool_gave(world, graph):
    served = await world.open({graph: GRAPHS[graph]})
    _, everything = await told(served, graph, MODES)
    kinds = {event.event for event in everything[1] if SECRET in repr(event.data)}
    assert {"values", "updates", "events", "tasks", "checkpoints", "debug", "tools"} <= kinds


@pytest.mark.parametrize("graph", ["agent", "async agent"])
async def test_what_a_hook_makes_of_a_models_answer_is_all_that_is_told(world, graph):
    async def reveal(state):
        return {"messages": [await Revealing().ainvoke(state["messages"])]}

    served = await world.open(
        {"reveal": chain(reveal, state=MessagesState)}, (hide_answer, "after_llm_call")
    )
    row, everything = await told(served, "reveal", MODES)
    assert SECRET not in repr(everything)
    assert row["output"]["messages"][-1]["content"] == "***"


class Revealing(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "revealing"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        message = AIMessage(f"it is {SECRET}")
        return ChatResult(generations=[ChatGeneration(message=message)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("hook", ["redacts", "blocks"])
async def test_a_result_that_a_hook_does_not_let_pass_is_in_no_event(world, mode, steps, hook):
    async def reveal(state):
        return {"said": [SECRET]}

    async def rule(event):
        if hook == "blocks":
            return Block("hidden")
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    nodes = [named(f"step{number}") for number in range(steps - 1)]
    served = await world.open({"reveal": chain(*nodes, reveal)}, (rule, "on_result"))
    thread = await served.thread()
    row = await served.run(
        "reveal", {"text": "x"}, thread, modes=(mode,), stream_mode=(mode,), stream_subgraphs=True
    )
    assert row["phase"] == ("blocked" if hook == "blocks" else "success")
    kept = [row, await served.events(row), await served.records(row)]
    assert SECRET not in repr([*kept, await served.thread_row(thread)])


def named(name):
    async def node(state):
        return {"said": [name]}

    node.__name__ = name
    return node


@pytest.mark.parametrize("hook", ["redacts", "blocks"])
async def test_a_result_is_in_no_event_when_all_modes_are_streamed_at_once(world, hook):
    async def reveal(state):
        return {"said": [SECRET]}

    async def rule(event):
        if hook == "blocks":
            return Block("hidden")
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    served = await world.open({"reveal": chain(named("first"), reveal)}, (rule, "on_result"))
    row, everything = await told(served, "reveal", MODES, {"text": "x"})
    assert SECRET not in repr([*everything[:3], everything[4]])
    assert {event.event for event in everything[1]} >= {"values", "updates", "events"}


async def test_the_steps_before_the_last_are_told_though_a_hook_rules_on_the_result(world):
    async def rule(event):
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    nodes = [named(f"step{number}") for number in range(3)]
    served = await world.open({"steps": chain(*nodes)}, (rule, "on_result"))
    thread = await served.thread()
    row = await served.run("steps", {"text": "x"}, thread, modes=("updates",))
    told = [event.data for event in await served.events(row) if event.event == "updates"]
    assert told == [{"step0": {"said": ["step0"]}}, {"step1": {"said": ["step1"]}}]


async def test_a_result_that_a_hook_lets_pass_is_told_in_full(world):
    async def look(event):
        return None

    ruled = await world.open({"say": chain(named("first"), say)}, (look, "on_result"))
    row = await ruled.run("say", {"text": "x"}, await ruled.thread(), modes=("values", "updates"))
    names = [(event.event, event.data) for event in await ruled.events(row)]
    assert names[1:-1] == [
        ("values", {"text": "x", "said": []}),
        ("updates", {"first": {"said": ["first"]}}),
        ("values", {"text": "x", "said": ["first"]}),
        ("updates", {"say": {"said": ["x"]}}),
        ("values", {"text": "x", "said": ["first", "x"]}),
    ]
