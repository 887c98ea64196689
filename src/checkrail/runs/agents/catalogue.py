"""The agents of a server: what each takes and gives, its hooks, and who may carry it out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.builtin.schema_check import compile_schema
from checkrail.builtin.schema_work import LargeValueError
from checkrail.config.agents import AgentConfig
from checkrail.engine.frozen import thaw
from checkrail.engine.registry import HookRegistry
from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.finish import outcome as outcomes
from checkrail.runs.finish.outcome import RunOutcome

_NAMESPACE = uuid.UUID("5b1e4c3a-7f0d-4f0e-9c57-3a4f0c6d2b11")
"""Names the assistants that stand for the agents themselves."""

_MOST = 20  # problems that are told of


def agent_assistant_id(agent_name: str) -> str:
    """Return the id of the assistant that stands for an agent as its config has it."""
    return str(uuid.uuid5(_NAMESPACE, agent_name))


class SchemaChecker:
    """A compiled schema. Its messages about a value never repeat the value."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = thaw(schema)
        self._validator = compile_schema("schema", self.schema, "a schema")

    def problems(self, value: Any) -> list[dict[str, Any]]:
        """Return what is wrong with a value: where, what, and what the schema says there."""
        try:
            errors = self._validator.find_errors(thaw(value))
        except LargeValueError as refusal:
            return [{"path": "", "message": str(refusal), "schema": {}}]
        found: list[dict[str, Any]] = []
        for error in errors:
            if len(found) == _MOST:
                break
            rule = [str(step) for step in error.schema_path]
            found.append(
                {
                    "path": "/".join(("", *map(str, error.instance_path))),
                    "message": error.message[:500],
                    "schema": {"/".join(rule): self._schema_at(error.schema_path)},
                }
            )
        return found

    def first_problem(self, value: Any, what: str) -> str | None:
        """Return in one line what is wrong with a value; None: nothing."""
        found = self.problems(value)
        if not found:
            return None
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        place = f" at {first['path']}" if first["path"] else ""
        return f"{what} not fit the schema{place}: {first['message']}{more}"

    def _schema_at(self, path: list[Any]) -> Any:
        """Return what stands in the schema at a place."""
        found: Any = self.schema
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found


GRAPH, AUTONOMOUS = "graph", "autonomous"

PROMPT: dict[str, Any] = {
    "type": "object",
    "properties": {"prompt": {"type": "string"}, "messages": {"type": "array"}},
    "anyOf": [{"required": ["prompt"]}, {"required": ["messages"]}],
}
"""What an autonomous agent takes unless it says; `messages` are what LangGraph's clients send."""

ANY_OBJECT: dict[str, Any] = {"type": "object"}
"""What a procedural agent takes unless it says."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent, as it is now."""

    config: AgentConfig
    hooks: HookRegistry = field(default_factory=HookRegistry)
    version: int = 1
    made_over_http: bool = False
    blueprint: Mapping[str, Any] = field(default_factory=dict)
    takes: SchemaChecker | None = None
    gives: SchemaChecker | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.name

    def problem_at(self, point: str, value: Any) -> str | None:
        """Return what is wrong with an agent's parameters or output as hooks changed them."""
        if point == "on_result":
            return self.output_problem(point, value)
        if self.takes is None or point not in ("before_run", "on_run_start"):
            return None
        return self.takes.first_problem(value, "the parameters do")

    def output_problem(self, point: str, value: Any) -> str | None:
        """Return what is wrong with an agent's output alone as hooks changed it."""
        if self.gives is None or point != "on_result":
            return None
        return self.gives.first_problem(value, "the output does")

    def output_mismatch(self, output: Any) -> RunOutcome | None:
        """Return the outcome of a run whose output does not fit its schema; None if it does."""
        wrong = self.output_problem("on_result", output)
        return None if wrong is None else outcomes.error_outcome(wrong, "OutputInvalid")

    def needs(self, demands: tuple[str, ...] = ()) -> str:
        """Return what a runner must have to execute it: `kind/agent/tags`."""
        tags = ",".join(sorted({*self.config.demands, *demands}))
        return f"{self.config.kind}/{self.name}/{tags}"


def build_entry(config: AgentConfig, **more: Any) -> AgentEntry:
    """Return the entry of an agent: its schemas compiled, its hooks in a level of their own."""
    schema = config.parameters_schema
    if schema is None and config.kind != GRAPH:
        schema = PROMPT if config.kind == AUTONOMOUS else ANY_OBJECT
    hooks = HookRegistry(label=config.name)
    hooks.swap(config.hooks)
    takes = None if schema is None else SchemaChecker(schema)
    gives = None if config.output_schema is None else SchemaChecker(config.output_schema)
    return AgentEntry(config, hooks, takes=takes, gives=gives, **more)


class Catalogue:
    """All agents by their names. Runs under way see an agent's new hooks at their next point."""

    def __init__(self, configs: Mapping[str, AgentConfig] | None = None) -> None:
        self._files: dict[str, AgentEntry] = {}
        self._made: dict[str, AgentEntry] = {}
        self._off: frozenset[str] = frozenset()
        self.broken: Mapping[str, str] = {}
        self.version: int | None = None  # of the set in the database that was taken last
        self.set_declared(configs or {})

    def set_declared(self, configs: Mapping[str, AgentConfig]) -> None:
        """Replace the agents that files declare."""
        self._files = {
            name: _keep_levels(self._files.get(name), build_entry(config))
            for name, config in configs.items()
        }

    def set_managed(
        self,
        entries: Mapping[str, AgentEntry],
        off: frozenset[str] = frozenset(),
        broken: Mapping[str, str] | None = None,
        version: int | None = None,
    ) -> None:
        """Replace the agents created over HTTP, and the names that were switched off there.

        `broken` are those that cannot be used, by name with the reason. The version is set last:
        other threads that see it find the agents that belong to it.
        """
        self.broken = broken or {}
        self._made = {
            name: _keep_levels(self._made.get(name), made) for name, made in entries.items()
        }
        self._off = off
        self.version = version

    def get_managed(self, name: str) -> AgentEntry | None:
        """Return an agent that was created over HTTP."""
        return self._made.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._files or name in self._made

    def __iter__(self) -> Iterator[AgentEntry]:
        yield from self._files.values()
        yield from (entry for name, entry in self._made.items() if name not in self._files)

    @property
    def declared_agents(self) -> list[AgentEntry]:
        """The agents that files declare."""
        return [*self._files.values()]

    @property
    def names(self) -> list[str]:
        """The names of all agents."""
        return [entry.name for entry in self]

    def get(self, name: str) -> AgentEntry | None:
        """Return an agent; a file's comes before one that was created over HTTP."""
        return self._files.get(name) or self._made.get(name)

    def is_on(self, name: str) -> bool:
        """Return whether an agent may be run."""
        entry = self.get(name)
        return entry is not None and entry.config.enabled and name not in self._off

    def require_runnable(self, name: str) -> AgentEntry:
        """Return an agent that is to be run, or raise that it does not exist or is off."""
        entry = self.get(name)
        if entry is None and name in self.broken:
            told = f"the agent {name!r} cannot be used: {self.broken[name]}"
            raise ConflictError(f"{told}. Change it by PATCH or PUT, or remove it")
        if entry is None:
            hint = "GET /agents lists those that you may see"
            raise NotFoundError(f"agent {name!r} not found. {hint}")
        if not self.is_on(name):
            raise ConflictError(f"the agent {name!r} is switched off. Enable it, or use another")
        return entry


def _keep_levels(before: AgentEntry | None, now: AgentEntry) -> AgentEntry:
    """Return new entries with the old levels of hooks, which runs under way look at."""
    if before is None or before is now:
        return now
    before.hooks.swap(lambda _known: [*now.config.hooks])
    return AgentEntry(
        now.config,
        before.hooks,
        now.version,
        now.made_over_http,
        now.blueprint,
        now.takes,
        now.gives,
    )
