"""What a hook redacts or refuses is in no event of a run, whatever a client streams."""

from dataclasses import replace
from typing import TypedDict

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from checkrail.engine.outcomes import Block, Continue
from checkrail.runs.execute.live_run import EventLimits
from checkrail.runs.graphs.requests import PROTOCOL_MODES

from .support import Said, chain, is_of_steps, say

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
async def test_what_a_hook_makes_of_a_tools_result_is_all_that_is_told(lite_world, graph, hook):
    served = await lite_world.open({graph: GRAPHS[graph]}, (hook, "after_tool_call"))
    row, everything = await told(served, graph, MODES)
    assert SECRET not in repr(everything)
    names = {event.event for event in everything[1]}
    assert {"values", "events", "tasks", "checkpoints", "debug", "tools"} <= names
    if hook is hide_result:
        assert (row.status, "***" in repr(row.output)) == ("success", True)


@pytest.mark.parametrize("graph", GRAPHS)
async def test_without_such_a_hook_every_mode_tells_what_a_tool_gave(lite_world, graph):
    served = await lite_world.open({graph: GRAPHS[graph]})
    _, everything = await told(served, graph, MODES)
    kinds = {event.event for event in everything[1] if SECRET in repr(event.data)}
    assert {"values", "updates", "events", "tasks", "checkpoints", "debug", "tools"} <= kinds


async def test_what_a_hook_makes_of_a_models_answer_is_all_that_is_told(lite_world):
    async def reveal(state):
        return {"messages": [await Revealing().ainvoke(state["messages"])]}

    served = await lite_world.open(
        {"reveal": chain(reveal, state=MessagesState)}, (hide_answer, "after_llm_call")
    )
    row, everything = await told(served, "reveal", MODES)
    assert SECRET not in repr(everything)
    assert row.output["messages"][-1]["content"] == "***"


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
async def test_a_result_that_a_hook_does_not_let_pass_is_in_no_event(lite_world, mode, steps, hook):
    async def reveal(state):
        return {"said": [SECRET]}

    async def rule(event):
        if hook == "blocks":
            return Block("hidden")
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    nodes = [named(f"step{number}") for number in range(steps - 1)]
    served = await lite_world.open({"reveal": chain(*nodes, reveal)}, (rule, "on_result"))
    thread = await served.thread()
    row = await served.run(
        "reveal", {"text": "x"}, thread, modes=(mode,), stream_mode=(mode,), stream_subgraphs=True
    )
    assert row.phase == ("blocked" if hook == "blocks" else "success")
    kept = [row, await served.events(row), await served.records(row)]
    assert SECRET not in repr([*kept, await served.thread_row(thread)])


@pytest.mark.parametrize("modes", [("values",), ("values", "events"), tuple(PROTOCOL_MODES)])
async def test_a_result_is_all_of_the_state_though_the_graph_returns_a_part(lite_world, modes):
    class Returned(TypedDict):
        text: str

    async def reveal(state):
        return {"text": "well", "said": [SECRET]}

    async def rule(event):
        shown = event.value["text"].upper()
        return Continue({"text": shown, "said": ["***"]}, redacted=True)

    builder = StateGraph(Said, output_schema=Returned).add_node(reveal)
    graph = builder.add_edge(START, "reveal").compile()
    served = await lite_world.open({"reveal": graph}, (rule, "on_result"))
    thread = await served.thread()
    row = await served.run("reveal", {"text": "x"}, thread, modes=modes, stream_mode=modes)
    assert row.output == {"text": "WELL"}
    kept = [row, await served.events(row), await served.records(row)]
    assert SECRET not in repr([*kept, await served.thread_row(thread)])
    assert await served.state("reveal", thread) == {"text": "WELL", "said": ["***"]}


def named(name):
    async def node(state):
        return {"said": [name]}

    node.__name__ = name
    return node


@pytest.mark.parametrize("hook", ["redacts", "blocks"])
@pytest.mark.parametrize("modes", [MODES, tuple(mode for mode in MODES if mode != "events")])
async def test_a_result_is_in_no_event_when_all_modes_are_streamed_at_once(lite_world, hook, modes):
    async def reveal(state):
        return {"said": [SECRET]}

    async def rule(event):
        if hook == "blocks":
            return Block("hidden")
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    served = await lite_world.open({"reveal": chain(named("first"), reveal)}, (rule, "on_result"))
    _, everything = await told(served, "reveal", modes, {"text": "x"})
    assert SECRET not in repr([*everything[:3], everything[4]])
    if "events" not in modes:
        names = {event.event for event in everything[1] if "first" in repr(event.data)}
        assert names >= {"values", "updates", "tasks", "checkpoints", "debug"}


async def test_what_a_tool_does_inside_is_not_told_where_hooks_rule_on_what_it_gives(lite_world):
    inner = RunnableLambda(lambda name: f"{name} is {SECRET}").with_config(run_name="inner")

    @tool
    async def outer(name: str) -> str:
        """Look something up with the help of another runnable."""
        return await inner.ainvoke(name)

    async def call(state):
        return {"messages": [AIMessage(await outer.ainvoke({"name": "the key"}))]}

    graph = chain(call, state=MessagesState)
    served = await lite_world.open({"call": graph}, (hide_result, "after_tool_call"))
    _, everything = await told(served, "call", ("values", "events"))
    assert SECRET not in repr(everything)
    told_of = [event.data["event"] for event in everything[1] if event.event == "events"]
    assert {"on_tool_start", "on_tool_end", "on_chain_end"} <= {*told_of}


async def test_a_request_that_a_hook_redacts_is_not_told_as_it_was(lite_world):
    async def hide(event):
        said = [{**message, "content": "***"} for message in event.value.messages]
        return Continue(replace(event.value, messages=said), redacted=True)

    async def reply(state):
        prompt = [SystemMessage(f"the key is {SECRET}"), *state["messages"]]
        return {"messages": [await Repeating().ainvoke(prompt)]}

    graph = chain(reply, state=MessagesState)
    served = await lite_world.open({"reply": graph}, (hide, "before_llm_call"))
    row, everything = await told(served, "reply", MODES)
    assert row.output["messages"][-1]["content"] == "*** ***"
    assert SECRET not in repr(everything)


class Repeating(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "repeating"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        message = AIMessage(" ".join(str(each.content) for each in messages))
        return ChatResult(generations=[ChatGeneration(message=message)])


async def test_a_run_that_tells_too_much_before_its_result_is_ruled_on_ends(lite_world):
    def pour(state):
        write = get_stream_writer()
        for number in range(100):
            write({"n": number})
        return {}

    async def look(event):
        return None

    served = await lite_world.open(
        {"pour": chain(pour)}, (look, "on_result"), limits=EventLimits(events=50)
    )
    row = await served.run("pour", {"text": "x"}, modes=("custom",))
    assert (row.status, row.error_type) == ("error", "event_limit")


async def test_the_steps_before_the_last_are_told_though_a_hook_rules_on_the_result(lite_world):
    async def rule(event):
        return Continue({**event.value, "said": ["***"]}, redacted=True)

    nodes = [named(f"step{number}") for number in range(3)]
    served = await lite_world.open({"steps": chain(*nodes)}, (rule, "on_result"))
    thread = await served.thread()
    row = await served.run("steps", {"text": "x"}, thread, modes=("updates",))
    told = [event.data for event in await served.events(row) if event.event == "updates"]
    assert told == [{"step0": {"said": ["step0"]}}, {"step1": {"said": ["step1"]}}]


async def test_a_result_that_a_hook_lets_pass_is_told_in_full(lite_world):
    async def look(event):
        return None

    ruled = await lite_world.open({"say": chain(named("first"), say)}, (look, "on_result"))
    row = await ruled.run("say", {"text": "x"}, await ruled.thread(), modes=("values", "updates"))
    told = [each for each in await ruled.events(row) if not is_of_steps(each.event)]
    names = [(event.event, event.data) for event in told]
    assert names[1:-1] == [
        ("values", {"text": "x", "said": []}),
        ("updates", {"first": {"said": ["first"]}}),
        ("values", {"text": "x", "said": ["first"]}),
        ("updates", {"say": {"said": ["x"]}}),
        ("values", {"text": "x", "said": ["first", "x"]}),
    ]
