"""What an assistant says of its graph: its drawing, its schemas, its subgraphs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from starlette.responses import Response

from checkrail.runs.graphs import describe
from checkrail.server.answers import Json
from checkrail.server.auth import Caller
from checkrail.server.routes.assistant_access import found
from checkrail.server.routes.assistant_bodies import TOLD
from checkrail.server.services import Services, services_of
from checkrail.store.rows import Row

router = APIRouter()

Served = Annotated[Services, Depends(services_of)]
Depth = Annotated[int, Field(ge=0, le=100)]


@router.get("/assistants/{assistant_id}/graph", responses=TOLD)
async def draw_graph(
    request: Request,
    served: Served,
    assistant_id: str,
    xray: Annotated[Depth | bool | None, Query()] = None,
) -> Response:
    """Give the nodes and edges of an assistant's graph; `xray` says how deep into subgraphs."""
    caller, row = await found(request, served, assistant_id, "read")
    async with _opened(served, caller, row) as graph:
        return Json(await describe.drawing(graph, xray=xray or False))


@router.get("/assistants/{assistant_id}/schemas", responses=TOLD)
async def get_schemas(request: Request, served: Served, assistant_id: str) -> Response:
    """Give the JSON Schemas of an assistant's graph."""
    caller, row = await found(request, served, assistant_id, "read")
    async with _opened(served, caller, row) as graph:
        return Json(describe.schemas(graph, row["graph_id"]))


@router.get("/assistants/{assistant_id}/subgraphs", responses=TOLD)
async def list_subgraphs(
    request: Request,
    served: Served,
    assistant_id: str,
    recurse: Annotated[bool, Query()] = False,
) -> Response:
    """Give the schemas of the subgraphs of an assistant's graph."""
    return await _subgraphs(request, served, assistant_id, None, recurse=recurse)


@router.get("/assistants/{assistant_id}/subgraphs/{namespace}", responses=TOLD)
async def get_subgraphs(
    request: Request,
    served: Served,
    assistant_id: str,
    namespace: str,
    recurse: Annotated[bool, Query()] = False,
) -> Response:
    """Give the schemas of one subgraph, and of what is in it if asked."""
    return await _subgraphs(request, served, assistant_id, namespace, recurse=recurse)


async def _subgraphs(
    request: Request, served: Services, assistant_id: str, namespace: str | None, *, recurse: bool
) -> Response:
    caller, row = await found(request, served, assistant_id, "read")
    async with _opened(served, caller, row) as graph:
        told = await describe.subgraphs(graph, row["graph_id"], namespace, recurse=recurse)
    return Json(told)


def _opened(served: Services, caller: Caller, row: Row) -> Any:
    return served.graphs.open(row["graph_id"], row["config"], caller.user, access="assistants.read")
