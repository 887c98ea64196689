"""What a graph looks like from outside: its schemas, its drawing, its subgraphs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from checkrail.runs.jsons import jsonable

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

    Graph: TypeAlias = Pregel[Any, Any, Any, Any]

log = logging.getLogger("checkrail.runs.graphs")


def schemas(graph: Graph, graph_id: str) -> dict[str, Any]:
    """Return the JSON Schemas of a graph; None for those that cannot be generated."""
    context = _first_schema(
        graph_id, "context", graph.get_context_jsonschema, lambda: _context_schema(graph)
    )
    return {
        "graph_id": graph_id,
        "input_schema": _first_schema(
            graph_id,
            "input",
            graph.get_input_jsonschema,
            lambda: _channel_schema(graph, "Input", _declared_channels(graph, "input_schema")),
        ),
        "output_schema": _first_schema(
            graph_id,
            "output",
            graph.get_output_jsonschema,
            lambda: _channel_schema(graph, "Output", _declared_channels(graph, "output_schema")),
        ),
        "state_schema": _first_schema(
            graph_id, "state", lambda: _channel_schema(graph, "State", graph.stream_channels_list)
        ),
        "config_schema": context or {"type": "object", "properties": {}},
        "context_schema": context,
    }


async def graph_drawing(graph: Graph, *, xray: bool | int = False) -> dict[str, Any]:
    """Return the nodes and edges of a graph, with those of its subgraphs down to a depth."""
    drawn = (await graph.aget_graph(xray=xray)).to_json()
    for node in drawn["nodes"]:
        if isinstance(node.get("data"), dict):
            node["data"].pop("id", None)
    return jsonable(drawn)  # type: ignore[no-any-return]


async def subgraphs(
    graph: Graph, graph_id: str, namespace: str | None = None, *, recurse: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the schemas of a graph's subgraphs, by namespace."""
    found = graph.aget_subgraphs(namespace=namespace, recurse=recurse)
    return {name: schemas(subgraph, graph_id) async for name, subgraph in found}  # type: ignore[arg-type]


def _first_schema(graph_id: str, what: str, *ways: Callable[[], dict[str, Any] | None]) -> Any:
    """Return a schema by the first way that works.

    LangGraph's own way fails for a plain `TypedDict` before Python 3.12: pydantic refuses it.
    """
    for tell in ways:
        try:
            return tell()
        except Exception as error:  # noqa: BLE001 - a type without a schema is no reason to fail
            log.debug("graph %r has no %s schema: %s", graph_id, what, error)
    return None


def _declared_channels(graph: Graph, which: str) -> Iterable[str]:
    builder = graph.builder  # type: ignore[attr-defined]
    return [*builder.schemas[getattr(builder, which)]]


def _channel_schema(graph: Graph, name: str, channels: Iterable[str]) -> dict[str, Any]:
    from langgraph.channels.base import BaseChannel

    found = {key: graph.channels[key] for key in channels}
    kept = {key: each.UpdateType for key, each in found.items() if isinstance(each, BaseChannel)}
    return _build_schema(graph.get_name(name), kept)


def _context_schema(graph: Graph) -> dict[str, Any] | None:
    declared = graph.context_schema
    return None if declared is None else _build_schema(declared.__name__, get_type_hints(declared))


def _build_schema(name: str, types: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic import create_model

    fields: dict[str, Any] = {key: (kind, None) for key, kind in types.items()}
    return dict(create_model(name, **fields).model_json_schema())
