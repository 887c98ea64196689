"""Named hooks that blueprints refer to: those of the config, and those that admins define."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from starlette.responses import Response

from checkrail.runs.agents.managed_agents import AgentCreator, AgentEditor, ManagedAgents
from checkrail.runs.errors import NotFoundError
from checkrail.server.auth import caller_of
from checkrail.server.deferred import Router
from checkrail.server.responses import JsonResponse
from checkrail.server.routes.agents import (
    GONE,
    HOOK,
    HOOKS,
    Definition,
    managed_agents,
    render_file_hook,
    render_named_hook,
)
from checkrail.server.services import Services, services_of

router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]


@router.get("/hooks", responses=HOOKS)
async def list_hooks(request: Request, served: Served) -> Response:
    """List the named hooks, those of the config first."""
    made = await _authorize_hooks(request, served, "search")
    files = made.defined_in_files
    own = [render_named_hook(*item) for item in made.kept.hooks.items() if item[0] not in files]
    return JsonResponse([*(render_file_hook(*item) for item in files.items()), *own])


@router.get("/hooks/{name}", responses=HOOK)
async def get_hook(request: Request, served: Served, name: Name) -> Response:
    """Return a named hook."""
    made = await _authorize_hooks(request, served, "read")
    if name in made.defined_in_files:
        return JsonResponse(render_file_hook(name, made.defined_in_files[name]))
    if name not in made.kept.hooks:
        raise NotFoundError(f"hook {name!r} not found")
    return JsonResponse(render_named_hook(name, made.kept.hooks[name]))


@router.put("/hooks/{name}", responses=HOOK)
async def define_hook(request: Request, served: Served, name: Name, body: Definition) -> Response:
    """Define a named hook, or change it for all agents that refer to it."""
    made = await _authorize_hooks(request, served, "update")
    maker = AgentCreator(caller_of(request).owner, made.allow_code)
    await AgentEditor(made).define_hook(name, body, maker)
    return JsonResponse(render_named_hook(name, made.kept.hooks[name]))


@router.delete("/hooks/{name}", status_code=204, response_class=Response, responses=GONE)
async def delete_hook(request: Request, served: Served, name: Name) -> Response:
    """Remove a named hook to which no agent refers."""
    made = await _authorize_hooks(request, served, "delete")
    await AgentEditor(made).remove_hook(name)
    return Response(status_code=204)


async def _authorize_hooks(request: Request, served: Services, action: str) -> ManagedAgents:
    """Authorize an admin, and return the named hooks as they are now."""
    await served.access(request, "hooks", action, {})
    made = managed_agents(served)
    await made.refresh()
    return made
