"""Agents: those of files, which are read and switched, and those that are made by requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from checkrail.runs.admission import own_assistant
from checkrail.runs.agent_making import AgentMaking, Maker, missing
from checkrail.runs.errors import InvalidError
from checkrail.runs.made_agents import MadeAgents
from checkrail.server.agent_shapes import API, agent_json, version_json
from checkrail.server.answers import Json
from checkrail.server.auth import Access, Caller, Forbidden, matches
from checkrail.server.routes.agent_bodies import (
    AGENT,
    AGENTS,
    GONE,
    MADE,
    VERSIONS,
    AgentChange,
    NewAgent,
)
from checkrail.server.routes.runs import Limit, Offset
from checkrail.server.services import Services, services_of
from checkrail.store import agents, assistants
from checkrail.store.database import Reads
from checkrail.store.rows import Row

router = APIRouter(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Name = Annotated[str, Path(max_length=255, pattern=r"^[^\x00]*$")]


def made_of(served: Services) -> MadeAgents:
    """Return the agents that were made over HTTP."""
    if served.made is None:  # pragma: no cover - every server has them
        raise InvalidError("this server makes no agents")
    return served.made


@router.post("/agents", status_code=201, responses=MADE)
async def create_agent(request: Request, served: Served, body: NewAgent) -> Response:
    """Make an agent; what its blueprint may say without a file is told by the documentation."""
    made = made_of(served)
    told: dict[str, Any] = {"graph_id": body.name, "name": body.name, "metadata": {}}
    caller, _ = await served.access(request, "agents", "create", told)
    maker = _maker(served, caller, told.get("metadata") or {})
    most = 0 if caller.is_admin else served.config.limits.agents_per_owner
    await AgentMaking(made).create(body.name, _said(body.said()), maker, most)
    return Json(_shown_to(caller, made, body.name), status_code=201)


@router.get("/agents", responses=AGENTS)
async def list_agents(request: Request, served: Served) -> Response:
    """List all agents, those of files first."""
    made = made_of(served)
    caller, access = await served.access(request, "agents", "search", {"metadata": {}})
    await made.renew()
    names = dict.fromkeys((*served.catalogue.names, *made.broken))
    seen = await served.database.read(lambda reads: visible_names(reads, [*names], access))
    return Json([_shown(made, name, caller) for name in names if name in seen])


@router.get("/agents/{name}", responses=AGENT)
async def get_agent(request: Request, served: Served, name: Name) -> Response:
    """Return an agent; who made it also sees the secret that signs what its http hooks send."""
    caller = await _found(request, served, name, "read")
    return Json(_shown_to(caller, made_of(served), name))


@router.patch("/agents/{name}", responses=AGENT)
async def change_agent(request: Request, served: Served, name: Name, body: AgentChange) -> Response:
    """Make the next version of an agent: what is said replaces what was, and null takes it out."""
    said = body.said()
    return await _revised(request, served, name, said, lambda known: _said({**known, **said}))


@router.put("/agents/{name}", responses=AGENT)
async def replace_agent(
    request: Request, served: Served, name: Name, body: AgentChange
) -> Response:
    """Make the next version of an agent from a whole blueprint."""
    said = body.said()
    return await _revised(request, served, name, said, lambda _known: _said(said))


@router.delete("/agents/{name}", status_code=204, response_class=Response, responses=GONE)
async def delete_agent(request: Request, served: Served, name: Name) -> Response:
    """Remove an agent that was made by a request, and to which no other refers."""
    await _found(request, served, name, "delete")
    await AgentMaking(made_of(served)).remove(name)
    return Response(status_code=204)


@router.get("/agents/{name}/versions", responses=VERSIONS)
async def list_agent_versions(
    request: Request, served: Served, name: Name, limit: Limit = 20, offset: Offset = 0
) -> Response:
    """List the versions of an agent, the newest first; a file's agent has none here."""
    caller = await _found(request, served, name, "read")
    entry = served.catalogue.get(name)
    if entry is not None and not entry.made_over_http:
        return Json([])
    rows = await served.database.read(lambda reads: agents.versions(reads, name, limit, offset))
    return Json([version_json(row, whole=_sees_whole(caller, row["owner"])) for row in rows])


@router.post("/agents/{name}/enable", responses=AGENT)
async def enable_agent(request: Request, served: Served, name: Name) -> Response:
    """Let an agent be run again."""
    return await _switched(request, served, name, on=True)


@router.post("/agents/{name}/disable", responses=AGENT)
async def disable_agent(request: Request, served: Served, name: Name) -> Response:
    """Let no more runs of an agent begin; those that were admitted go on."""
    return await _switched(request, served, name, on=False)


async def _switched(request: Request, served: Services, name: str, *, on: bool) -> Response:
    caller = await _found(request, served, name, "update")
    await AgentMaking(made_of(served)).switch(name, on=on)
    return Json(_shown(made_of(served), name, caller))


async def _revised(
    request: Request, served: Services, name: str, said: Mapping[str, Any], change: Any
) -> Response:
    caller = await _found(request, served, name, "update")
    if said.get("name", name) != name:
        raise InvalidError(f"the agent {name!r} keeps its name. Make another, and remove this one")
    made = made_of(served)
    await AgentMaking(made).revise(name, change, _maker(served, caller))
    return Json(_shown_to(caller, made, name))


def _said(blueprint: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was said to be nothing."""
    return {key: said for key, said in blueprint.items() if said is not None}


def _maker(served: Services, caller: Caller, metadata: Mapping[str, Any] | None = None) -> Maker:
    trusted = made_of(served).allow_code and caller.is_admin
    quotas = None if caller.is_admin else served.runs.admission.quotas
    return Maker(caller.owner, trusted, quotas, metadata or {})


def _shown(made: MadeAgents, name: str, caller: Caller) -> Any:
    entry, row = made.catalogue.get(name), made.kept.rows.get(name)
    problem = made.broken.get(name) if entry is None else None
    return agent_json(name, entry, row, problem, whole=_sees_whole(caller, _owner(row)))


def _sees_whole(caller: Caller, owner: str | None) -> bool:
    return caller.is_admin or caller.owner == owner


def _shown_to(caller: Caller, made: MadeAgents, name: str) -> Any:
    """Return an agent, with its signing secret for its owner and for admins."""
    shown = _shown(made, name, caller)
    if _sees_whole(caller, shown["owner"]) and shown["source"] == API and name in made.kept.rows:
        shown["signing_secret"] = made.signing_secret(name)
    return shown


async def _found(request: Request, served: Services, name: str, action: str) -> Caller:
    """Find an agent that the caller may touch; all may see it, and who made it may change it."""
    made = made_of(served)
    told: dict[str, Any] = {"assistant_id": UUID(own_assistant(name)), "metadata": {}}
    caller, access = await served.access(request, "agents", action, told)
    kept = await made.renew()
    entry, row = served.catalogue.get(name), kept.rows.get(name)
    if entry is None and name not in made.broken:
        raise missing(name)
    if name not in await served.database.read(lambda reads: visible_names(reads, [name], access)):
        raise missing(name)
    of_file = entry is not None and not entry.made_over_http
    if of_file and action != "read" and not caller.is_admin:  # whatever an auth handler allows
        raise Forbidden(f"The agent {name!r} is a file's, and for admins to change")
    if access.owner is not None and _owner(row) != access.owner:
        raise Forbidden(f"The agent {name!r} is somebody else's, and for admins to change")
    return caller


def _owner(row: Row | None) -> str | None:
    return None if row is None else row["owner"]


def visible_names(reads: Reads, names: list[str], access: Access) -> set[str]:
    """Return which agents a filter lets through: it is about the assistants that stand for them."""
    if access.filter is None:
        return set(names)
    found = {name: assistants.get(reads, own_assistant(name)) for name in names}
    return {
        name
        for name, row in found.items()
        if row is not None and matches(access.filter, row["metadata"])
    }
