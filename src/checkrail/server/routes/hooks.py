"""Named hooks that blueprints refer to: those of the config, and those that admins define."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from checkrail.runs.agent_making import AgentMaking, Maker
from checkrail.runs.errors import NotFoundError
from checkrail.runs.made_agents import MadeAgents
from checkrail.server.agent_shapes import file_hook_json, named_hook_json
from checkrail.server.answers import Json
from checkrail.server.auth import caller_of
from checkrail.server.routes.agent_bodies import GONE, HOOK, HOOKS, Definition
from checkrail.server.routes.agents import made_of
from checkrail.server.services import Services, services_of

router = APIRouter(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]


@router.get("/hooks", responses=HOOKS)
async def list_hooks(request: Request, served: Served) -> Response:
    """List the named hooks, those of the config first."""
    made = await _made(request, served, "search")
    files = made.defined_in_files
    own = [named_hook_json(*item) for item in made.kept.hooks.items() if item[0] not in files]
    return Json([*(file_hook_json(*item) for item in files.items()), *own])


@router.get("/hooks/{name}", responses=HOOK)
async def get_hook(request: Request, served: Served, name: Name) -> Response:
    """Return a named hook."""
    made = await _made(request, served, "read")
    if name in made.defined_in_files:
        return Json(file_hook_json(name, made.defined_in_files[name]))
    if name not in made.kept.hooks:
        raise NotFoundError(f"hook {name!r} not found")
    return Json(named_hook_json(name, made.kept.hooks[name]))


@router.put("/hooks/{name}", responses=HOOK)
async def define_hook(request: Request, served: Served, name: Name, body: Definition) -> Response:
    """Define a named hook, or change it for all agents that refer to it."""
    made = await _made(request, served, "update")
    maker = Maker(caller_of(request).owner, made.allow_code)
    await AgentMaking(made).define(name, body, maker)
    return Json(named_hook_json(name, made.kept.hooks[name]))


@router.delete("/hooks/{name}", status_code=204, response_class=Response, responses=GONE)
async def delete_hook(request: Request, served: Served, name: Name) -> Response:
    """Remove a named hook to which no agent refers."""
    made = await _made(request, served, "delete")
    await AgentMaking(made).undefine(name)
    return Response(status_code=204)


async def _made(request: Request, served: Services, action: str) -> MadeAgents:
    """Let an admin at the named hooks, as they are now."""
    await served.access(request, "hooks", action, {})
    made = made_of(served)
    await made.renew()
    return made
