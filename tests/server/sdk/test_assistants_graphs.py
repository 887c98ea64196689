"""What an assistant says about its graph: drawing, schemas, subgraphs."""

import pytest

SCHEMAS = {"config_schema", "context_schema", "input_schema", "output_schema", "state_schema"}


async def test_a_graph_is_drawn_as_nodes_and_edges(client):
    drawn = await client.assistants.get_graph("steps")
    assert {node["id"] for node in drawn["nodes"]} == {
        "__start__",
        "one",
        "two",
        "three",
        "__end__",
    }
    edges = {(edge["source"], edge["target"]) for edge in drawn["edges"]}
    assert edges == {
        ("__start__", "one"),
        ("one", "two"),
        ("two", "three"),
        ("three", "__end__"),
    }


async def test_conditional_edges_are_marked(client):
    drawn = await client.assistants.get_graph("counter")
    marked = {
        (edge["source"], edge["target"]) for edge in drawn["edges"] if edge.get("conditional")
    }
    assert marked == {("increment", "increment"), ("increment", "__end__")}


@pytest.mark.parametrize(("xray", "inside"), [(False, False), (True, True), (1, True)])
async def test_a_subgraph_is_drawn_if_asked(client, xray, inside):
    drawn = await client.assistants.get_graph("nested", xray=xray)
    names = {node["id"] for node in drawn["nodes"]}
    assert ("child:inside" in names) is inside
    assert ("child" in names) is not inside


async def test_schemas_are_those_of_the_graph(client):
    schemas = await client.assistants.get_schemas("configured")
    assert schemas["graph_id"] == "configured"
    assert schemas.keys() >= SCHEMAS
    assert {*schemas["input_schema"]["properties"]} == {"nothing"}
    assert {*schemas["output_schema"]["properties"]} >= {"tone", "volume", "tags"}
    assert {*schemas["context_schema"]["properties"]} == {"tone", "volume"}
    assert {*schemas["state_schema"]["properties"]} >= {"tone", "volume", "configured"}


async def test_schemas_of_messages_can_be_made(client):
    schemas = await client.assistants.get_schemas("chat")
    assert "messages" in schemas["input_schema"]["properties"]


async def test_a_schema_that_cannot_be_made_is_missing(client):
    schemas = await client.assistants.get_schemas("echo")
    assert schemas["graph_id"] == "echo"
    assert schemas["input_schema"] is None or "text" in schemas["input_schema"]["properties"]


async def test_schemas_and_drawings_are_found_by_id_too(client):
    assistant = await client.assistants.create("steps")
    mine = assistant["assistant_id"]
    assert (await client.assistants.get_schemas(mine))["graph_id"] == "steps"
    drawn = await client.assistants.get_graph(mine)
    assert len(drawn["nodes"]) == 5


async def test_subgraphs_are_listed_with_their_schemas(client):
    subgraphs = await client.assistants.get_subgraphs("nested")
    assert {*subgraphs} == {"child"}
    assert {*subgraphs["child"]["state_schema"]["properties"]} == {"log", "note"}


async def test_subgraphs_are_narrowed_by_their_namespace(client):
    found = await client.assistants.get_subgraphs("nested", namespace="child", recurse=True)
    assert {*found} == {"child"}
    assert await client.assistants.get_subgraphs("nested", namespace="other") == {}


async def test_a_graph_without_subgraphs_has_none(client):
    assert await client.assistants.get_subgraphs("echo", recurse=True) == {}
