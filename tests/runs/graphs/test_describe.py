"""Graphs as the assistants API shows them."""

from typing import Any, TypedDict

from langgraph.graph import MessagesState, StateGraph
from langgraph_sdk.schema import GraphSchema

from checkrail.runs.graphs.describe import graph_drawing, schemas, subgraphs

from .support_graphs import State, chain, greet, part


class Context(TypedDict):
    tone: str


class Unknown:
    pass


class Odd(TypedDict):
    thing: Unknown


async def test_schemas_have_every_field_of_the_sdk_s_type():
    builder = StateGraph(State, context_schema=Context, input_schema=MessagesState)
    graph = builder.add_sequence([greet]).set_entry_point("greet").compile()
    told = schemas(graph, "agent")
    assert told.keys() == GraphSchema.__annotations__.keys()
    assert told["graph_id"] == "agent"
    assert told["input_schema"]["properties"].keys() == {"messages"}
    assert told["output_schema"]["properties"].keys() == {"said", "count"}
    assert told["state_schema"]["properties"].keys() >= {"said", "count", "messages"}
    assert told["context_schema"]["properties"]["tone"]["type"] == "string"
    assert told["config_schema"] == told["context_schema"]


async def test_a_type_without_a_schema_leaves_that_schema_out():
    told = schemas(chain(greet, state=Odd), "agent")
    assert told["input_schema"] is None
    assert told["state_schema"] is None
    assert told["context_schema"] is None
    assert told["config_schema"] == {"type": "object", "properties": {}}


def nodes(drawn: dict[str, Any]) -> set[str]:
    return {node["id"] for node in drawn["nodes"]}


async def test_a_drawing_shows_subgraphs_down_to_a_depth():
    graph = chain(greet, ("outer", chain(("inner", chain(part)))))
    plain = await graph_drawing(graph)
    assert nodes(plain) == {"__start__", "greet", "outer", "__end__"}
    assert {"source": "greet", "target": "outer"} in plain["edges"]
    assert nodes(await graph_drawing(graph, xray=1)) == nodes(plain) - {"outer"} | {"outer:inner"}
    assert "outer:inner:part" in nodes(await graph_drawing(graph, xray=True))


async def test_subgraphs_are_told_by_namespace():
    graph = chain(greet, ("outer", chain(("inner", chain(part)))))
    assert (await subgraphs(graph, "agent")).keys() == {"outer"}
    deep = await subgraphs(graph, "agent", recurse=True)
    assert deep.keys() == {"outer", "outer|inner"}
    assert deep["outer|inner"]["input_schema"]["properties"].keys() == {"said", "count"}
    only = await subgraphs(graph, "agent", "outer|inner", recurse=True)
    assert only.keys() == {"outer|inner"}
    assert await subgraphs(graph, "agent", "other") == {}
