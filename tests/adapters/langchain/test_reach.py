"""What can be seen to be out of reach is said, node by node; what is in reach is not."""

import types

import openai
import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel.remote import RemoteGraph

from checkrail.adapters.langchain import out_of_reach

from .support_graphs import GRAPHS, Scripted, scripted


def graph_of(**nodes):
    builder = StateGraph(MessagesState)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile()


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_models_and_tools_are_in_reach(name):
    assert out_of_reach(GRAPHS[name](scripted("hello"))) == []


def test_a_remote_graph_is_named_with_its_node():
    remote = RemoteGraph("elsewhere", url="http://localhost:1")
    (said,) = out_of_reach(graph_of(far=remote))
    assert said == (
        "node 'far': a RemoteGraph runs on another server: hooks for it have to stand there"
    )


def test_what_a_node_closes_over_is_looked_at():
    remote, llm = RemoteGraph("elsewhere", url="http://localhost:1"), FakeListLLM(responses=["x"])

    async def far(state):
        return await remote.ainvoke(state)

    def text(state):
        return llm.invoke("hi")

    said = out_of_reach(graph_of(far=far, text=text))
    assert [one.partition(":")[0] for one in said] == ["node 'far'", "node 'text'"]
    assert "FakeListLLM completes text" in said[1]


def test_a_client_of_a_provider_is_named_also_in_tools_and_subgraphs():
    client = openai.OpenAI(api_key="sk-nothing")

    def raw(state):
        return client.models.list()

    @tool
    def search(what: str) -> str:
        """Search."""
        return openai.Client.__name__

    said = out_of_reach(graph_of(inner=graph_of(raw=raw), tools=ToolNode([search])))
    assert sorted(said) == [
        "node 'inner': it uses openai itself: hooks see only models that LangChain calls",
        "node 'tools': it uses openai itself: hooks see only models that LangChain calls",
    ]


def test_classes_that_have_public_methods_of_their_own_are_named():
    class Own(Scripted):
        def invoke(self, *args, **kwargs):
            return "mine"

    class OwnTool(StructuredTool):
        async def ainvoke(self, *args, **kwargs):
            return "mine"

    mine = OwnTool.from_function(func=lambda what: what, name="mine", description="Mine.")
    model = scripted("hello", kind=Own)

    def node(state):
        return model.invoke("hi")

    said = out_of_reach(graph_of(node=node, tools=ToolNode([mine])))
    assert said == [
        "node 'node': Own has its own invoke: hooks hold only where that leads to _generate",
        "node 'tools': OwnTool has its own ainvoke: hooks hold only where that leads to run",
    ]


def test_what_is_no_graph_is_looked_at_as_it_is():
    assert out_of_reach(FakeListLLM(responses=["x"])) != []
    assert out_of_reach(types.SimpleNamespace()) == []
