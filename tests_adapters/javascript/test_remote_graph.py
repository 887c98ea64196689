"""Python's RemoteGraph sees on our server what it sees on LangGraph's own."""

from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client

from .compare import find_differences, normalise


class Remote:
    """Graphs of one server, and threads of their own."""

    def __init__(self, url: str) -> None:
        self.client = get_sync_client(url=url)

    def graph(self, name: str) -> RemoteGraph:
        return RemoteGraph(name, name=name, sync_client=self.client)

    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.client.threads.create()["thread_id"]}}


def describe(state) -> list[Any]:
    interrupts = [(one.value, one.id) for one in state.interrupts]
    tasks = [(task.name, task.path, task.error) for task in state.tasks]
    step = (state.metadata or {}).get("step")
    return [state.values, state.next, interrupts, tasks, step, state.config, state.parent_config]


def invoke(remote):
    graph, config = remote.graph("steps"), remote.config()
    return [
        graph.invoke({"text": ""}, config),
        graph.invoke({"text": "on a thread of nobody"}),
        describe(graph.get_state(config)),
    ]


def stream(remote):
    graph = remote.graph("nested")
    modes = ["values", "updates", "custom"]
    parts = graph.stream({"text": "x"}, remote.config(), stream_mode=modes)
    return [
        list(graph.stream({"text": "x"}, remote.config(), stream_mode="updates")),
        [(mode, data) for mode, data, *_ in parts],
        list(graph.stream({"text": "x"}, remote.config(), stream_mode=modes, subgraphs=True)),
    ]


def stream_messages(remote):
    question = {"messages": [{"role": "human", "content": "the weather?", "id": "human-1"}]}
    parts = remote.graph("agent").stream(question, remote.config(), stream_mode="messages")
    return [(chunk["type"], chunk["content"], about["langgraph_node"]) for chunk, about in parts]


def resume(remote):
    graph, config = remote.graph("approval"), remote.config()
    return [
        graph.invoke({"text": "x"}, config),
        describe(graph.get_state(config)),
        graph.invoke(Command(resume="yes"), config),
        describe(graph.get_state(config)),
    ]


def travel(remote):
    graph, config = remote.graph("steps"), remote.config()
    graph.invoke({"text": ""}, config)
    history = list(graph.get_state_history(config))
    past = next(state for state in history if state.next == ("second",))
    forked = graph.update_state(past.config, {"text": "changed "}, as_node="first")
    return [
        [describe(state) for state in history],
        forked,
        graph.invoke(None, forked),
        describe(graph.get_state(past.config)),
        [state.values for state in graph.get_state_history(config, limit=3)],
    ]


def fail(remote):
    graph, config = remote.graph("failing"), remote.config()
    with pytest.raises(RemoteException) as raised:
        graph.invoke({"text": "badly"}, config)
    return [str(raised.value), describe(graph.get_state(config))]


def draw(remote):
    return [remote.graph("agent").get_graph().draw_mermaid()]


def pause(remote):
    graph, config = remote.graph("steps"), remote.config()
    return [
        graph.invoke({"text": ""}, config, interrupt_before=["third"]),
        describe(graph.get_state(config)),
        graph.invoke(None, config),
    ]


class State(TypedDict, total=False):
    text: str


def embed(remote):
    """A local graph has the remote one as a node, and its interrupt becomes the local one's."""
    local = StateGraph(State).add_node("far", remote.graph("approval")).add_edge(START, "far")
    graph, config = local.compile(checkpointer=InMemorySaver()), remote.config()
    asked = graph.invoke({"text": "x"}, config)
    return [
        [one.value for one in asked["__interrupt__"]],
        list(graph.stream(Command(resume="yes"), config, stream_mode="updates")),
    ]


STORIES = (invoke, stream, stream_messages, resume, travel, fail, draw, pause, embed)


def tell(story, url):
    remote = Remote(url)
    with remote.client:
        return normalise(story(remote))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_remote_graph_cannot_tell_the_servers_apart(servers, story):
    theirs, ours = (tell(story, servers[name]) for name in ("theirs", "ours"))
    differences = "\n".join(find_differences(ours, theirs))
    assert not differences, differences
