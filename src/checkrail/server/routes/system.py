"""What the server tells of itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import text
from starlette.responses import Response

from checkrail.server.answers import Json, problem
from checkrail.server.services import Services, services_of

router = APIRouter(tags=["system"])

Served = Annotated[Services, Depends(services_of)]


@router.get("/ok")
async def ok(served: Served, check_db: Annotated[bool, Query()] = False) -> Response:
    """Say that the server is up; with `check_db`, that its database is too."""
    if check_db:
        try:
            await served.database.read(lambda reads: reads.execute(text("SELECT 1")).scalar())
        except Exception as error:  # noqa: BLE001 - whatever it is, the database is not there
            return problem(503, "database", f"The database gave no answer: {type(error).__name__}")
    return Json({"ok": True})


@router.get("/info")
async def info(served: Served) -> Response:
    """Give the version of the server, and what it can do."""
    flags: dict[str, Any] = {"assistants": True, "crons": True, "langsmith": False}
    return Json(
        {
            "version": version("checkrail"),
            "langgraph_py_version": version("langgraph"),
            "flags": flags,
            "agents": served.catalogue.names,
        }
    )


@router.get("/metrics")
async def metrics(served: Served) -> Response:
    """Give the metrics of this process for Prometheus."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    registry = served.extras.get("metrics")
    body = generate_latest(registry) if registry is not None else b""
    return Response(body, headers={"content-type": CONTENT_TYPE_LATEST})
