"""What an assistant says of its graph: its drawing, its schemas, its subgraphs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import Field
from starlette.responses import Response

from checkrail.runs.agents.catalogue import GRAPH, AgentEntry
from checkrail.runs.graphs import describe
from checkrail.server.auth import Caller
from checkrail.server.deferred import Router
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.assistant_bodies import TOLD, find_assistant
from checkrail.server.services import Services, services_of
from checkrail.store.assistants import Assistant

router = Router(tags=["assistants"])

Served = Annotated[Services, Depends(services_of)]
Depth = Annotated[int, Field(ge=0, le=100)]


@router.get("/assistants/{assistant_id}/graph", responses=TOLD)
async def draw_graph(
    request: Request,
    served: Served,
    assistant_id: str,
    xray: Annotated[Depth | bool | None, Query()] = None,
) -> Response:
    """Return the nodes and edges of an assistant's graph; `xray` says how deep into subgraphs."""
    caller, row = await find_assistant(request, served, assistant_id, "read")
    if (agent := _plain_agent(served, row)) is not None:
        return JsonResponse(_draw_plain_agent(agent))
    async with _open_graph(served, caller, row) as graph:
        return JsonResponse(await describe.graph_drawing(graph, xray=xray or False))


@router.get("/assistants/{assistant_id}/schemas", responses=TOLD)
async def get_schemas(request: Request, served: Served, assistant_id: str) -> Response:
    """Return the JSON Schemas of what an assistant's graph, or other agent, takes and gives."""
    caller, row = await find_assistant(request, served, assistant_id, "read")
    if (agent := _plain_agent(served, row)) is not None:
        return JsonResponse(_agent_schemas(agent))
    async with _open_graph(served, caller, row) as graph:
        return JsonResponse(describe.schemas(graph, row.graph_id))


@router.get("/assistants/{assistant_id}/subgraphs", responses=TOLD)
async def list_subgraphs(
    request: Request,
    served: Served,
    assistant_id: str,
    recurse: Annotated[bool, Query()] = False,
) -> Response:
    """Return the schemas of the subgraphs of an assistant's graph."""
    return await _render_subgraphs(request, served, assistant_id, None, recurse=recurse)


@router.get("/assistants/{assistant_id}/subgraphs/{namespace}", responses=TOLD)
async def get_subgraphs(
    request: Request,
    served: Served,
    assistant_id: str,
    namespace: str,
    recurse: Annotated[bool, Query()] = False,
) -> Response:
    """Return the schemas of one subgraph, and of what is in it if asked."""
    return await _render_subgraphs(request, served, assistant_id, namespace, recurse=recurse)


async def _render_subgraphs(
    request: Request, served: Services, assistant_id: str, namespace: str | None, *, recurse: bool
) -> Response:
    caller, row = await find_assistant(request, served, assistant_id, "read")
    if _plain_agent(served, row) is not None:
        return JsonResponse({})
    async with _open_graph(served, caller, row) as graph:
        told = await describe.subgraphs(graph, row.graph_id, namespace, recurse=recurse)
    return JsonResponse(told)


def _plain_agent(served: Services, row: Assistant) -> AgentEntry | None:
    """Return the agent of an assistant if it is no graph."""
    agent = served.catalogue.get(row.graph_id)
    return None if agent is None or agent.config.kind == GRAPH else agent


def _draw_plain_agent(agent: AgentEntry) -> dict[str, Any]:
    """Draw an agent that is no graph: all that can be seen of it is one step."""
    name = agent.name
    places = [("__start__", "schema"), (name, "runnable"), ("__end__", "schema")]
    return {
        "nodes": [{"id": place, "type": kind, "data": {"name": place}} for place, kind in places],
        "edges": [
            {"source": "__start__", "target": name},
            {"source": name, "target": "__end__"},
        ],
    }


def _agent_schemas(agent: AgentEntry) -> dict[str, Any]:
    nothing = {"type": "object", "properties": {}}
    return {
        "graph_id": agent.name,
        "input_schema": None if agent.takes is None else agent.takes.schema,
        "output_schema": None if agent.gives is None else agent.gives.schema,
        "state_schema": None,
        "config_schema": nothing,
        "context_schema": None,
    }


def _open_graph(served: Services, caller: Caller, row: Assistant) -> Any:
    return served.graphs.open(row.graph_id, row.config, caller.user, access="assistants.read")
