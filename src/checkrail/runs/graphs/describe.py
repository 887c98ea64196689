"""What a graph looks like from outside: its schemas, its drawing, its subgraphs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from checkrail.runs.jsons import jsonable

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

log = logging.getLogger("checkrail.runs.graphs")


def schemas(graph: Graph, graph_id: str) -> dict[str, Any]:
    """Give the JSON Schemas of a graph; those that cannot be told are none."""
    context = _told(graph_id, "context", graph.get_context_jsonschema)
    return {
        "graph_id": graph_id,
        "input_schema": _told(graph_id, "input", graph.get_input_jsonschema),
        "output_schema": _told(graph_id, "output", graph.get_output_jsonschema),
        "state_schema": _told(graph_id, "state", lambda: _state_schema(graph)),
        "config_schema": context or {"type": "object", "properties": {}},
        "context_schema": context,
    }


async def drawing(graph: Graph, *, xray: bool | int = False) -> dict[str, Any]:
    """Give the nodes and edges of a graph, with those of its subgraphs down to a depth."""
    drawn = (await graph.aget_graph(xray=xray)).to_json()
    for node in drawn["nodes"]:
        if isinstance(node.get("data"), dict):
            node["data"].pop("id", None)
    return jsonable(drawn)  # type: ignore[no-any-return]


async def subgraphs(
    graph: Graph, graph_id: str, namespace: str | None = None, *, recurse: bool = False
) -> dict[str, dict[str, Any]]:
    """Give the schemas of a graph's subgraphs, by namespace."""
    found = graph.aget_subgraphs(namespace=namespace, recurse=recurse)
    return {name: schemas(subgraph, graph_id) async for name, subgraph in found}  # type: ignore[arg-type]


def _told(graph_id: str, what: str, tell: Callable[[], dict[str, Any] | None]) -> Any:
    try:
        return tell()
    except Exception as error:  # noqa: BLE001 - a type that has no schema is no reason to fail
        log.debug("graph %r has no %s schema: %s", graph_id, what, error)
        return None


def _state_schema(graph: Graph) -> dict[str, Any]:
    from langgraph.channels.base import BaseChannel
    from pydantic import create_model

    channels = {name: graph.channels[name] for name in graph.stream_channels_list}
    fields: dict[str, Any] = {
        name: (channel.UpdateType, None)
        for name, channel in channels.items()
        if isinstance(channel, BaseChannel)
    }
    model = create_model(graph.get_name("State"), **fields)
    return dict(model.model_json_schema())
