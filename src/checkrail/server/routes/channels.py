"""The project's channels: requests of the services behind them, which each channel checks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from checkrail.channels.protocol import WebRequest
from checkrail.server.deferred import Router
from checkrail.server.services import Services, services_of

router = Router(tags=["messages"])

Served = Annotated[Services, Depends(services_of)]


@router.get("/channels/{name}", responses={200: {"description": "What the channel answers"}})
async def check_channel(request: Request, served: Served, name: str) -> Response:
    """Answer a service that asks whether a channel is there."""
    return await _answer(request, served, name)


@router.post("/channels/{name}", responses={200: {"description": "What the channel answers"}})
async def post_to_channel(request: Request, served: Served, name: str) -> Response:
    """Take what a service brings; its signature is the channel's to check."""
    return await _answer(request, served, name)


async def _answer(request: Request, served: Services, name: str) -> Response:
    reply = await served.sessions.host.answer(
        name,
        WebRequest(
            method=request.method,
            headers={key.lower(): value for key, value in request.headers.items()},
            query=dict(request.query_params),
            body=await request.body(),
        ),
    )
    return Response(reply.body, reply.status, dict(reply.headers))
