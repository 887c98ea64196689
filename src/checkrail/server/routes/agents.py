"""Agents: those of files, which are read and switched, and those that are made by requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Path, Query, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from checkrail.config.agents import AGENT_NAME, AgentConfig
from checkrail.config.plan import build_scope_plan
from checkrail.engine.frozen import thaw
from checkrail.engine.hook import HookSpec
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.runs.agents.catalogue import AgentEntry, agent_assistant_id
from checkrail.runs.agents.managed_agents import (
    AgentCreator,
    AgentEditor,
    ManagedAgents,
    agent_not_found,
)
from checkrail.runs.errors import InvalidError, NotFoundError
from checkrail.server.auth import Access, Caller, Forbidden, matches_filter
from checkrail.server.deferred import Router
from checkrail.server.fields import JsonObject, Limit, Offset, Text, check_json, check_text
from checkrail.server.openapi_models import PROBLEMS, Answers
from checkrail.server.renderers import render_time
from checkrail.server.responses import JsonResponse
from checkrail.server.services import Services, services_of
from checkrail.store import agents, assistants, named_hooks
from checkrail.store.database import Reads

FILE, API = "file", "api"
_ADDRESS = re.compile(r"(https?://)(?:[^/?#@]*@)?([^/?#]*)")
_HIDDEN = "(not shown)"
_SECRET = ("secret", "headers", "env", "url", "base_url", "key", "api_key", "token")


def render_agent(
    name: str,
    entry: AgentEntry | None,
    row: agents.Agent | None,
    problem: str | None,
    *,
    whole: bool,
) -> Any:
    """Return an agent: as it is used, and as a request created it, where one did.

    What may be secret in its blueprint is for who sees it `whole`: its owner, and admins.
    """
    made = entry is None or entry.made_over_http
    kept = row if made else None
    config = AgentConfig(name, "", enabled=True) if entry is None else entry.config
    switched = True if row is None else row.enabled
    return {
        "name": name,
        "kind": config.kind,
        "description": config.description or None,
        "enabled": config.enabled and switched and entry is not None,
        "version": 1 if kept is None else kept.version,
        "source": API if made else FILE,
        "declared_in": None if made else config.source,
        "owner": _owner_of(kept),
        "model": None if config.model is None else config.model.label,
        "tools": [tool.label for tool in config.tools],
        "parameters_schema": _render_schema(config.parameters_schema),
        "output_schema": _render_schema(config.output_schema),
        "hooks": [render_hook(spec) for spec in config.hooks],
        "tags": [*config.tags],
        "demands": [*config.demands],
        "on_crash": config.on_crash,
        "timeout_seconds": config.timeout_seconds,
        "blueprint": _render_blueprint(None if kept is None else kept.blueprint, whole=whole),
        "problem": problem,
        "signing_secret": None,
        "assistant_id": agent_assistant_id(name),
        "created_at": None if kept is None else render_time(kept.created_at),
        "updated_at": None if kept is None else render_time(kept.updated_at),
    }


def _render_schema(schema: Mapping[str, Any] | None) -> Any:
    return None if schema is None else thaw(schema)


def render_hook(spec: HookSpec) -> dict[str, Any]:
    """Return a hook of an agent, as it was declared and filled in."""
    return {
        "name": spec.name,
        "points": [*dict.fromkeys(str(place.point) for place in spec.places)],
        "type": spec.target_type,
        "target": _render_target(spec),
        "lane": None if spec.lane is None else str(spec.lane),
        "mode": spec.mode,
        "timeout_seconds": spec.timeout,
        "on_error": spec.on_error_text,
        "source": spec.source,
    }


def _render_target(spec: HookSpec) -> str:
    """Return what a hook calls; of an address only the host, as the rest may be secret."""
    found = _ADDRESS.match(spec.target_name) if spec.target_type == "http" else None
    return spec.target_name if found is None else f"{found[1]}{found[2]}"


def _render_blueprint(said: Any, *, whole: bool) -> Any:
    """Return a blueprint as it was made, or without the values of what may be secret in it."""
    if whole or not isinstance(said, (Mapping, list)):
        return said
    if isinstance(said, list):
        return [_render_blueprint(each, whole=False) for each in said]
    return {
        key: _HIDDEN if key in _SECRET else _render_blueprint(value, whole=False)
        for key, value in said.items()
    }


def render_version(row: agents.AgentVersion, *, whole: bool) -> dict[str, Any]:
    """Return a version of an agent; what may be secret is for who sees it `whole`."""
    same = {"name": row.name, "version": row.version, "owner": row.owner, "note": row.note}
    blueprint = _render_blueprint(row.blueprint, whole=whole)
    return same | {"blueprint": blueprint, "created_at": render_time(row.created_at)}


def render_named_hook(name: str, row: named_hooks.NamedHook) -> dict[str, Any]:
    """Return a named hook that was defined over HTTP."""
    return {
        "name": name,
        "source": API,
        "definition": row.definition,
        "owner": row.owner,
        "created_at": render_time(row.created_at),
        "updated_at": render_time(row.updated_at),
    }


def render_file_hook(name: str, definition: Any) -> dict[str, Any]:
    """Return a named hook of a file; what may be secret in it is not shown."""
    shown = definition
    if isinstance(definition, Mapping):
        shown = {key: _HIDDEN if key in _SECRET else said for key, said in definition.items()}
    nothing = dict.fromkeys(("owner", "created_at", "updated_at"))
    return {"name": name, "source": FILE, "definition": shown, **nothing}


def _is_name(given: str) -> str:
    if not AGENT_NAME.fullmatch(given):
        raise ValueError("a name has letters, digits, and - _ . between them, and is no path")
    return given


def _check_plain(given: Any) -> Any:
    if isinstance(given, dict):
        check_json(given)
    return given


AgentName = Annotated[Text, Field(max_length=255), AfterValidator(_is_name)]
HookName = Annotated[Text, Field(min_length=1, max_length=255)]


class Blueprint(BaseModel):
    """An agent: `model`, `system_prompt`, `tools`, schemas and `hooks`, as in a file."""

    model_config = ConfigDict(extra="allow")

    enabled: bool | None = None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that were sent; null means that a field is emptied."""
        return self.model_dump(exclude_unset=True)


class NewBlueprint(Blueprint):
    """An agent with its name."""

    name: AgentName


NewAgent = Annotated[NewBlueprint, BeforeValidator(_check_plain)]
AgentChange = Annotated[Blueprint, BeforeValidator(_check_plain)]
"""The keys that are to be different; those that are null are taken out."""

Definition = JsonObject
"""A hook as it stands in a file, without a name of its own."""


class DeclaredHook(BaseModel, defer_build=True):
    """A hook that an agent has."""

    name: str
    points: list[str]
    type: str
    target: str
    lane: str | None
    mode: str
    timeout_seconds: float
    on_error: Any
    source: str


class Agent(BaseModel, defer_build=True):
    """An agent of the server; `source` says whether a file declares it or a request made it."""

    name: str
    kind: str
    description: str | None
    enabled: bool
    version: int
    source: str
    declared_in: str | None
    owner: str | None
    model: str | None
    tools: list[str]
    parameters_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    hooks: list[DeclaredHook]
    tags: list[str]
    demands: list[str]
    on_crash: str
    timeout_seconds: float | None
    blueprint: dict[str, Any] | None
    problem: str | None
    signing_secret: str | None
    assistant_id: str
    created_at: str | None
    updated_at: str | None


class AgentVersion(BaseModel, defer_build=True):
    """An agent as it was made or changed at a time."""

    name: str
    version: int
    owner: str | None
    blueprint: dict[str, Any]
    note: str | None = None
    created_at: str


class NamedHook(BaseModel, defer_build=True):
    """A hook that blueprints can refer to; of a file's, secrets are not shown."""

    name: str
    source: str
    definition: Any
    owner: str | None
    created_at: str | None
    updated_at: str | None


class HookRow(BaseModel, defer_build=True):
    """A hook at its place in the plan."""

    name: str
    level: str
    lane: str
    priority: int
    match: dict[str, list[str]]
    when: str | bool
    timeout: float | None
    on_error: dict[str, str]
    mode: str
    background: bool
    stream: str
    may: list[str]
    declared: str
    type: str
    target: str
    source: str


class Plan(BaseModel, defer_build=True):
    """The hooks at each point, in the order in which they are called."""

    agent_name: str | None
    plan: dict[str, list[HookRow]]


class DraftProblem(BaseModel, defer_build=True):
    """What is wrong with a blueprint, and where."""

    path: str
    message: str
    expected: str | None = None
    hint: str | None = None


class Checked(BaseModel, defer_build=True):
    """What is wrong with a blueprint, and the plan of its agent; without its own hooks if it is."""

    problems: list[DraftProblem]
    plan: dict[str, list[HookRow]]


PLAN: Answers = {200: {"model": Plan}, **PROBLEMS}
CHECKED: Answers = {200: {"model": Checked}, **PROBLEMS}
VERSION: Answers = {200: {"model": AgentVersion}, **PROBLEMS}
AGENT: Answers = {200: {"model": Agent}, **PROBLEMS}
MADE: Answers = {201: {"model": Agent}, **PROBLEMS}
AGENTS: Answers = {200: {"model": list[Agent]}, **PROBLEMS}
VERSIONS: Answers = {200: {"model": list[AgentVersion]}, **PROBLEMS}
HOOK: Answers = {200: {"model": NamedHook}, **PROBLEMS}
HOOKS: Answers = {200: {"model": list[NamedHook]}, **PROBLEMS}
GONE: Answers = {204: {"description": "It is gone"}, **PROBLEMS}


router = Router(tags=["coordinator"])

Served = Annotated[Services, Depends(services_of)]
Note = Annotated[
    str | None, Query(max_length=500), AfterValidator(lambda said: said and check_text(said))
]
Version = Annotated[str | None, Header(alias="If-Match", max_length=100)]
Name = Annotated[str, Path(max_length=255, pattern=r"^[^\x00]*$")]


def managed_agents(served: Services) -> ManagedAgents:
    """Return the agents that were created over HTTP."""
    if served.made is None:  # pragma: no cover - every server has them
        raise InvalidError("this server makes no agents")
    return served.made


@router.post("/agents", status_code=201, responses=MADE)
async def create_agent(request: Request, served: Served, body: NewAgent) -> Response:
    """Create an agent; the documentation lists what a blueprint may hold without a file."""
    made = managed_agents(served)
    told: dict[str, Any] = {"graph_id": body.name, "name": body.name, "metadata": {}}
    caller, _ = await served.access(request, "agents", "create", told)
    maker = _creator_of(served, caller, told.get("metadata") or {})
    most = 0 if caller.is_admin else served.config.limits.agents_per_owner
    await AgentEditor(made).create(body.name, _without_nulls(body.to_fields()), maker, most)
    return JsonResponse(_render_for(caller, made, body.name), status_code=201)


@router.get("/agents", responses=AGENTS)
async def list_agents(request: Request, served: Served) -> Response:
    """List all agents, those of files first."""
    made = managed_agents(served)
    caller, access = await served.access(request, "agents", "search", {"metadata": {}})
    await made.refresh()
    names = dict.fromkeys((*served.catalogue.names, *made.broken))
    seen = await served.database.read(lambda reads: visible_names(reads, [*names], access))
    return JsonResponse([_render_agent(made, name, caller) for name in names if name in seen])


@router.get("/agents/{name}", responses=AGENT)
async def get_agent(request: Request, served: Served, name: Name) -> Response:
    """Return an agent; who made it also sees the secret that signs what its http hooks send."""
    caller = await _authorize_agent(request, served, name, "read")
    return JsonResponse(_render_for(caller, managed_agents(served), name))


@router.patch("/agents/{name}", responses=AGENT)
async def change_agent(
    request: Request,
    served: Served,
    name: Name,
    body: AgentChange,
    note: Note = None,
    version: Version = None,
) -> Response:
    """Make the next version of an agent: what is said replaces what was, and null takes it out.

    With `If-Match: version` only of that version, else 412. The `note` is kept with the version.
    """
    said, kept = body.to_fields(), {"expected": parse_version(version), "note": note}
    return await _revise_agent(
        request, served, name, said, lambda known: _without_nulls({**known, **said}), kept
    )


@router.put("/agents/{name}", responses=AGENT)
async def replace_agent(
    request: Request,
    served: Served,
    name: Name,
    body: AgentChange,
    note: Note = None,
    version: Version = None,
) -> Response:
    """Make the next version of an agent from a whole blueprint.

    With `If-Match: version` only of that version, else 412. The `note` is kept with the version.
    """
    said, kept = body.to_fields(), {"expected": parse_version(version), "note": note}
    return await _revise_agent(
        request, served, name, said, lambda _known: _without_nulls(said), kept
    )


@router.delete("/agents/{name}", status_code=204, response_class=Response, responses=GONE)
async def delete_agent(request: Request, served: Served, name: Name) -> Response:
    """Remove an agent that was made by a request, and to which no other refers."""
    await _authorize_agent(request, served, name, "delete")
    await AgentEditor(managed_agents(served)).remove(name)
    return Response(status_code=204)


@router.get("/agents/{name}/versions", responses=VERSIONS)
async def list_agent_versions(
    request: Request, served: Served, name: Name, limit: Limit = 20, offset: Offset = 0
) -> Response:
    """List the versions of an agent, the newest first; a file's agent has none here."""
    caller = await _authorize_agent(request, served, name, "read")
    entry = served.catalogue.get(name)
    if entry is not None and not entry.made_over_http:
        return JsonResponse([])
    rows = await served.database.read(lambda reads: agents.versions(reads, name, limit, offset))
    return JsonResponse([render_version(row, whole=_sees_whole(caller, row.owner)) for row in rows])


@router.get("/agents/{name}/versions/{number}", responses=VERSION)
async def get_agent_version(
    request: Request, served: Served, name: Name, number: Annotated[int, Path(ge=1, lt=2**31)]
) -> Response:
    """Return one version of an agent."""
    caller = await _authorize_agent(request, served, name, "read")
    row = await served.database.read(lambda reads: agents.find_version(reads, name, number))
    if row is None:
        raise NotFoundError(f"the agent {name!r} has no version {number}")
    return JsonResponse(render_version(row, whole=_sees_whole(caller, row.owner)))


@router.get("/plan", responses=PLAN)
async def show_plan(
    request: Request,
    served: Served,
    agent_name: Annotated[str | None, Query(max_length=255, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    """Return the hooks at each point in their order: the server's, and those of an agent."""
    scope = served.runs.parts.registry.scope()
    if agent_name is None:
        await served.access(request, "agents", "search", {"metadata": {}})
        return JsonResponse({"agent_name": None, "plan": _render_plan(scope)})
    await _authorize_agent(request, served, agent_name, "read")
    entry = served.catalogue.get(agent_name)
    if entry is not None:
        scope = entry.hooks.scope(parent=scope)
    return JsonResponse({"agent_name": agent_name, "plan": _render_plan(scope)})


@router.post("/agents/check", responses=CHECKED)
async def check_agent(request: Request, served: Served, body: NewAgent) -> Response:
    """Say what is wrong with a blueprint, and which hooks its agent would have; it is not kept."""
    made = managed_agents(served)
    told: dict[str, Any] = {"graph_id": body.name, "name": body.name, "metadata": {}}
    caller, _ = await served.access(request, "agents", "create", told)
    given = _without_nulls(body.to_fields())
    config, problems = await AgentEditor(made).check_draft(
        body.name, given, _creator_of(served, caller)
    )
    scope = served.runs.parts.registry.scope()
    if config is not None:
        level = HookRegistry(label=config.name)
        level.swap(config.hooks)
        scope = level.scope(parent=scope)
    empty = {"path": "", "expected": None, "hint": None}
    found = [each if isinstance(each, dict) else {**empty, "message": each} for each in problems]
    return JsonResponse({"problems": found, "plan": _render_plan(scope)})


def _render_plan(scope: Scope) -> dict[str, list[dict[str, Any]]]:
    """Return a plan; of an address only the host, as the rest may be secret."""
    plan = build_scope_plan(scope)
    for row in (row for rows in plan.values() for row in rows):
        found = _ADDRESS.match(row["target"]) if row["type"] == "http" else None
        if found is not None:
            row["target"] = f"{found[1]}{found[2]}"
    return plan


def parse_version(said: str | None) -> int | None:
    """Parse the version that a change is for; a star is any."""
    if said is None or said.strip() == "*":
        return None
    number = said.strip().removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise InvalidError(f"If-Match is the version of an agent, not {said[:40]!r}")
    return int(number)


@router.post("/agents/{name}/enable", responses=AGENT)
async def enable_agent(request: Request, served: Served, name: Name) -> Response:
    """Let an agent be run again."""
    return await _switch_agent(request, served, name, on=True)


@router.post("/agents/{name}/disable", responses=AGENT)
async def disable_agent(request: Request, served: Served, name: Name) -> Response:
    """Let no more runs of an agent begin; those that were admitted go on."""
    return await _switch_agent(request, served, name, on=False)


async def _switch_agent(request: Request, served: Services, name: str, *, on: bool) -> Response:
    caller = await _authorize_agent(request, served, name, "update")
    await AgentEditor(managed_agents(served)).switch(name, on=on)
    return JsonResponse(_render_agent(managed_agents(served), name, caller))


async def _revise_agent(
    request: Request,
    served: Services,
    name: str,
    said: Mapping[str, Any],
    change: Any,
    kept: Mapping[str, Any],
) -> Response:
    caller = await _authorize_agent(request, served, name, "update")
    if said.get("name", name) != name:
        raise InvalidError(f"the agent {name!r} keeps its name. Make another, and remove this one")
    made = managed_agents(served)
    await AgentEditor(made).revise(name, change, _creator_of(served, caller), **kept)
    return JsonResponse(_render_for(caller, made, name))


def _without_nulls(blueprint: Mapping[str, Any]) -> dict[str, Any]:
    """Return a blueprint without the fields that were sent as null."""
    return {key: said for key, said in blueprint.items() if said is not None}


def _creator_of(
    served: Services, caller: Caller, metadata: Mapping[str, Any] | None = None
) -> AgentCreator:
    trusted = managed_agents(served).allow_code and caller.is_admin
    quotas = None if caller.is_admin else served.runs.parts.quotas
    return AgentCreator(caller.owner, trusted, quotas, metadata or {})


def _render_agent(made: ManagedAgents, name: str, caller: Caller) -> Any:
    entry, row = made.catalogue.get(name), made.kept.rows.get(name)
    problem = made.broken.get(name) if entry is None else None
    return render_agent(name, entry, row, problem, whole=_sees_whole(caller, _owner_of(row)))


def _sees_whole(caller: Caller, owner: str | None) -> bool:
    return caller.is_admin or caller.owner == owner


def _render_for(caller: Caller, made: ManagedAgents, name: str) -> Any:
    """Return an agent, with its signing secret for its owner and for admins."""
    shown = _render_agent(made, name, caller)
    if _sees_whole(caller, shown["owner"]) and shown["source"] == API and name in made.kept.rows:
        shown["signing_secret"] = made.signing_secret(name)
    return shown


async def _authorize_agent(request: Request, served: Services, name: str, action: str) -> Caller:
    """Return the caller that may touch an agent; all may see it, its creator may change it."""
    made = managed_agents(served)
    told: dict[str, Any] = {"assistant_id": UUID(agent_assistant_id(name)), "metadata": {}}
    caller, access = await served.access(request, "agents", action, told)
    kept = await made.refresh()
    entry, row = served.catalogue.get(name), kept.rows.get(name)
    if entry is None and name not in made.broken:
        raise agent_not_found(name)
    if name not in await served.database.read(lambda reads: visible_names(reads, [name], access)):
        raise agent_not_found(name)
    of_file = entry is not None and not entry.made_over_http
    if of_file and action != "read" and not caller.is_admin:  # whatever an auth handler allows
        raise Forbidden(f"The agent {name!r} is a file's, and for admins to change")
    if access.owner is not None and _owner_of(row) != access.owner:
        raise Forbidden(f"The agent {name!r} is somebody else's, and for admins to change")
    return caller


def _owner_of(row: agents.Agent | None) -> str | None:
    return None if row is None else row.owner


def visible_names(reads: Reads, names: list[str], access: Access) -> set[str]:
    """Return which agents a filter lets through: it is about the assistants that stand for them."""
    if access.filter is None:
        return set(names)
    found = {name: assistants.get(reads, agent_assistant_id(name)) for name in names}
    return {
        name
        for name, row in found.items()
        if row is not None and matches_filter(access.filter, row.metadata)
    }
