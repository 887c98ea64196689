"""Bodies of requests for agents and named hooks, and what these look like in answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from checkrail.config.agents import AGENT_NAME
from checkrail.server.documents import PROBLEMS, Answers
from checkrail.server.fields import JsonObject, Text, plain_json


def _is_name(given: str) -> str:
    if not AGENT_NAME.fullmatch(given):
        raise ValueError("a name has letters, digits, and - _ . between them, and is no path")
    return given


def _plain(given: Any) -> Any:
    if isinstance(given, dict):
        plain_json(given)
    return given


AgentName = Annotated[Text, Field(max_length=255), AfterValidator(_is_name)]
HookName = Annotated[Text, Field(min_length=1, max_length=255)]


class Blueprint(BaseModel):
    """An agent: `model`, `system_prompt`, `tools`, schemas and `hooks`, as in a file."""

    model_config = ConfigDict(extra="allow")

    enabled: bool | None = None

    def said(self) -> dict[str, Any]:
        """Return everything that was said; what is null was said to be nothing."""
        return self.model_dump(exclude_unset=True)


class NewBlueprint(Blueprint):
    """An agent with its name."""

    name: AgentName


NewAgent = Annotated[NewBlueprint, BeforeValidator(_plain)]
AgentChange = Annotated[Blueprint, BeforeValidator(_plain)]
"""The keys that are to be different; those that are null are taken out."""

Definition = JsonObject
"""A hook as it stands in a file, without a name of its own."""


class DeclaredHook(BaseModel):
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


class Agent(BaseModel):
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


class AgentVersion(BaseModel):
    """An agent as it was made or changed at a time."""

    name: str
    version: int
    owner: str | None
    blueprint: dict[str, Any]
    created_at: str


class NamedHook(BaseModel):
    """A hook that blueprints can refer to; of a file's, secrets are not shown."""

    name: str
    source: str
    definition: Any
    owner: str | None
    created_at: str | None
    updated_at: str | None


AGENT: Answers = {200: {"model": Agent}, **PROBLEMS}
MADE: Answers = {201: {"model": Agent}, **PROBLEMS}
AGENTS: Answers = {200: {"model": list[Agent]}, **PROBLEMS}
VERSIONS: Answers = {200: {"model": list[AgentVersion]}, **PROBLEMS}
HOOK: Answers = {200: {"model": NamedHook}, **PROBLEMS}
HOOKS: Answers = {200: {"model": list[NamedHook]}, **PROBLEMS}
GONE: Answers = {204: {"description": "It is gone"}, **PROBLEMS}
