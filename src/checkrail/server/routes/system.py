"""What the server tells of itself."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BaseModel
from sqlalchemy import text
from starlette.responses import Response

from checkrail.server.auth import AuthError, Forbidden, caller_of
from checkrail.server.auth.route_table import RULES
from checkrail.server.deferred import Router
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.outages import DatabaseUnavailable
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.agents import visible_names
from checkrail.server.services import Services, services_of
from checkrail.store.database import PATIENCE
from checkrail.store.health import AWAY

health = Router(tags=["system"])
router = Router(tags=["system"])


class Me(BaseModel, defer_build=True):
    """Who is calling: identity and role, and the routes that the role allows."""

    identity: str
    role: str
    key_id: str | None = None
    permissions: list[str]
    allowed: list[str]


ME: Answers = {200: {"model": Me}, **PROBLEMS}

Served = Annotated[Services, Depends(services_of)]


@health.get("/ok")
async def ok(served: Served, check_db: Annotated[bool, Query()] = False) -> Response:
    """Return that the server is up; with `check_db`, that its database works too."""
    if check_db:
        try:
            async with asyncio.timeout(PATIENCE):
                await served.database.read(lambda reads: reads.execute(text("SELECT 1")).scalar())
        except TimeoutError:  # a database that is frozen says nothing at all
            raise DatabaseUnavailable(AWAY) from None
        if (trouble := served.database.health.trouble) is not None:
            raise DatabaseUnavailable(trouble)
    return JsonResponse({"ok": True})


@router.get("/info")
async def info(request: Request, served: Served) -> Response:
    """Return the version of the server and what it can do, and to who may see them, its agents."""
    told: dict[str, Any] = {
        "version": version("checkrail"),
        "langgraph_py_version": version("langgraph"),
        "flags": {"assistants": True, "crons": True, "langsmith": False},
    }
    with contextlib.suppress(AuthError):  # whoever it is, the rest is for everybody
        told["agents"] = await _visible_agents(request, served)
    return JsonResponse(told)


@router.get("/me", responses=ME)
async def whoami(request: Request) -> Response:
    """Return who is calling, and which routes their role allows."""
    caller = caller_of(request)
    told = {
        "identity": caller.owner,
        "role": caller.role,
        "key_id": caller.key_id,
        "permissions": [*caller.permissions],
        "allowed": sorted(
            f"{rule.method} {rule.path}" for rule in RULES if caller.has_role(rule.needs)
        ),
    }
    return JsonResponse(told)


async def _visible_agents(request: Request, served: Services) -> list[str]:
    """Return the agents that a caller may see, who is not known yet: the route is public."""
    caller = await served.authenticator.authenticate(request.scope, request.receive)
    if not caller.has_role("viewer"):
        raise Forbidden(f"Agents are for viewers, and you are {caller.role}")
    value: dict[str, Any] = {"metadata": {}}
    access = await served.authenticator.access(caller, "agents", "search", value)
    names = served.catalogue.names
    seen = await served.database.read(lambda reads: visible_names(reads, names, access))
    return [name for name in names if name in seen]


@router.get("/metrics")
async def metrics(served: Served) -> Response:
    """Return the metrics of this process for Prometheus."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = served.extras.get("metrics")
    body = generate_latest(registry) if registry is not None else b""
    return Response(body, headers={"content-type": CONTENT_TYPE_LATEST})
