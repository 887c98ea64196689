"""Graphs of a project, in every form that a LangGraph server takes."""

import contextlib
import logging
from dataclasses import dataclass

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime

from checkrail.actions import ActionError
from checkrail.engine.values import User
from checkrail.runs.graphs.loader import (
    GraphError,
    Graphs,
    GraphSource,
    UnknownGraphError,
    load_graph,
    prepare_graph,
)

from .support_graphs import State, chain, greet

MODULE = """
from langgraph.graph import StateGraph, START
from typing import TypedDict

class State(TypedDict):
    count: int

def step(state: State):
    return {"count": state["count"] + 1}

builder = StateGraph(State)
builder.add_node(step)
builder.add_edge(START, "step")
graph = builder.compile()
number = 7
"""


@dataclass
class Context:
    tone: str


@pytest.fixture
def project(tmp_path):
    (tmp_path / "agent.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def saver():
    return InMemorySaver()


@pytest.fixture
def graphs(saver):
    """Graphs that were found, with the server's parts."""

    async def make(**found):
        ready = {name: await prepare_graph(each, name) for name, each in found.items()}
        return Graphs(ready, saver, InMemoryStore())

    return make


@pytest.mark.parametrize("name", ["graph", "builder"])
async def test_a_graph_of_a_file_runs_on_the_server_s_checkpointer(project, saver, name):
    sources = [GraphSource("agent", f"./agent.py:{name}", project)]
    graphs = await Graphs.load_all(sources, saver, InMemoryStore())
    assert graphs.names == ("agent",)
    async with graphs.open("agent") as graph:
        config = {"configurable": {"thread_id": "1"}}
        assert await graph.ainvoke({"count": 1}, config) == {"count": 2}
        assert (await graph.aget_state(config)).values == {"count": 2}


async def test_a_graph_is_bound_once_and_never_changed_itself(graphs, saver):
    own = chain(greet)
    found = await graphs(agent=own)
    async with found.open("agent") as first, found.open("agent") as second:
        assert first is second is not own
        assert first.checkpointer is saver
    assert own.checkpointer is None
    assert own.store is None


async def test_a_graph_s_own_checkpointer_is_replaced_with_one_warning(graphs, saver, caplog):
    own = InMemorySaver()
    found = await graphs(agent=lambda config: chain(greet, checkpointer=own))
    with caplog.at_level(logging.WARNING, "checkrail.runs.graphs"):
        for _ in range(2):
            async with found.open("agent") as graph:
                assert graph.checkpointer is saver
    assert [record.getMessage() for record in caplog.records] == [
        "graph 'agent' has its own checkpointer, the server's is used"
    ]


async def test_a_factory_that_takes_nothing_is_called_once(graphs):
    made = []

    async def make():
        made.append(chain(greet))
        return made[-1]

    builder = StateGraph(State).add_node(greet).set_entry_point("greet")
    found = await graphs(agent=make, plain=lambda: builder)
    for _ in range(2):
        async with found.open("agent") as graph:
            assert isinstance(graph, Pregel)
    assert len(made) == 1


async def test_a_factory_that_takes_a_config_is_called_each_time_with_it(graphs):
    seen = []

    def typed(given: RunnableConfig):
        seen.append(given)
        return chain(greet)

    def named(config):
        seen.append(config)
        return chain(greet)

    found = await graphs(typed=typed, named=named)
    for name in ("typed", "named"):
        async with found.open(name, {"configurable": {"model": name}}):
            pass
    assert [config["configurable"]["model"] for config in seen] == ["typed", "named"]


async def test_a_factory_that_takes_the_runtime_knows_what_it_is_called_for(graphs):
    seen = []

    def make(config: RunnableConfig, runtime: ServerRuntime[Context]):
        seen.append(runtime)
        return chain(greet)

    found = await graphs(agent=make)
    user = User("ada", extras={"plan": "pro"})
    async with found.open("agent", {}, user, context={"tone": "warm"}):
        pass
    async with found.open("agent", {}, access="assistants.read"):
        pass
    running, reading = seen
    assert running.access_context == "threads.create_run"
    assert running.execution_runtime.context == Context("warm")
    assert running.ensure_user().identity == "ada"
    assert running.user["plan"] == "pro"
    assert isinstance(running.store, InMemoryStore)
    assert reading.execution_runtime is None
    assert reading.user is None


async def test_factories_that_open_something_close_it_after_each_use(graphs):
    told = []

    @contextlib.asynccontextmanager
    async def slow(runtime: ServerRuntime):
        told.append("open")
        yield chain(greet)
        told.append("closed")

    @contextlib.contextmanager
    def quick():
        told.append("open")
        yield chain(greet)
        told.append("closed")

    found = await graphs(slow=slow, quick=quick)
    for name in ("slow", "quick"):
        async with found.open(name) as graph:
            assert isinstance(graph, Pregel)
            assert told[-1] == "open"
    assert told == ["open", "closed"] * 2


async def test_graphs_are_replaced_for_whoever_opens_them_next(graphs):
    found, other = (
        await graphs(agent=chain(greet)),
        await graphs(agent=chain(greet), more=chain(greet)),
    )
    async with found.open("agent") as before:
        found.update_from(other)
        async with found.open("agent") as after:
            assert before is not after
    assert "more" in found


async def test_an_unknown_graph_is_refused_with_those_that_there_are(graphs):
    found = await graphs(agent=chain(greet))
    with pytest.raises(UnknownGraphError, match=r"graph 'agnet' not found.*agent"):
        async with found.open("agnet"):
            pass


async def test_what_is_no_graph_is_refused_when_it_is_loaded(project):
    with pytest.raises(GraphError, match="it is int, neither a graph nor a factory"):
        await load_graph(GraphSource("agent", "./agent.py:number", project))
    with pytest.raises(GraphError, match="its factory returned int"):
        await prepare_graph(lambda: 7, "agent")
    with pytest.raises(GraphError, match="takes 'model'"):
        await prepare_graph(_takes_too_much, "agent")
    with pytest.raises(ActionError, match="has no 'graf'"):
        await load_graph(GraphSource("agent", "./agent.py:graf", project))


async def test_what_a_factory_made_is_looked_at_each_time(graphs):
    found = await graphs(agent=lambda config: "text")
    with pytest.raises(GraphError, match="its factory returned str"):
        async with found.open("agent"):
            pass


def _takes_too_much(model: int):
    return chain(greet)
