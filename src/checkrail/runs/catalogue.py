"""The agents of a server: what each takes and gives, its hooks, and who may carry it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.config import AgentConfig
from checkrail.engine.registry import HookRegistry
from checkrail.runs import outcome as outcomes
from checkrail.runs.checking import Checker
from checkrail.runs.errors import ConflictError, NotFoundError
from checkrail.runs.outcome import Outcome

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
class Entry:
    """An agent, as it is now."""

    config: AgentConfig
    hooks: HookRegistry = field(default_factory=HookRegistry)
    version: int = 1
    made_over_http: bool = False
    blueprint: Mapping[str, Any] = field(default_factory=dict)
    takes: Checker | None = None
    gives: Checker | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.config.name

    def accepts(self, point: str, value: Any) -> str | None:
        """Return what is wrong with what hooks made of its parameters or its output."""
        if point == "on_result":
            return self.accepts_output(point, value)
        if self.takes is None or point not in ("before_run", "on_run_start"):
            return None
        return self.takes.wrong(value, "the parameters do")

    def accepts_output(self, point: str, value: Any) -> str | None:
        """Return what is wrong with what hooks made of its output alone."""
        if self.gives is None or point != "on_result":
            return None
        return self.gives.wrong(value, "the output does")

    def mismatch(self, output: Any) -> Outcome | None:
        """Return the end of a run whose output is not what this agent promises; None: it is."""
        wrong = self.accepts_output("on_result", output)
        return None if wrong is None else outcomes.failed(wrong, "OutputInvalid")

    def needs(self, demands: tuple[str, ...] = ()) -> str:
        """Return what a runner must have to carry it out: `kind/agent/tags`."""
        tags = ",".join(sorted({*self.config.demands, *demands}))
        return f"{self.config.kind}/{self.name}/{tags}"


def entry_of(config: AgentConfig, **more: Any) -> Entry:
    """Make the entry of an agent: its schemas compiled, its hooks in a level of their own."""
    schema = config.parameters_schema
    if schema is None and config.kind != GRAPH:
        schema = PROMPT if config.kind == AUTONOMOUS else ANY_OBJECT
    hooks = HookRegistry(label=config.name)
    hooks.swap(config.hooks)
    takes = None if schema is None else Checker(schema)
    gives = None if config.output_schema is None else Checker(config.output_schema)
    return Entry(config, hooks, takes=takes, gives=gives, **more)


class Catalogue:
    """All agents by their names. Runs under way see an agent's new hooks at their next point."""

    def __init__(self, configs: Mapping[str, AgentConfig] | None = None) -> None:
        self._files: dict[str, Entry] = {}
        self._made: dict[str, Entry] = {}
        self._off: frozenset[str] = frozenset()
        self.broken: Mapping[str, str] = {}
        self.version: int | None = None  # of the set in the database that was taken last
        self.renew(configs or {})

    def renew(self, configs: Mapping[str, AgentConfig]) -> None:
        """Take the agents that files declare."""
        self._files = {
            name: _renewed(self._files.get(name), entry_of(config))
            for name, config in configs.items()
        }

    def take_made(
        self,
        entries: Mapping[str, Entry],
        off: frozenset[str] = frozenset(),
        broken: Mapping[str, str] | None = None,
        version: int | None = None,
    ) -> None:
        """Take the agents that were made over HTTP, and the names that were switched off there.

        `broken` are those that cannot be used, by name with the reason. The version is set last:
        other threads that see it find the agents that belong to it.
        """
        self.broken = broken or {}
        self._made = {name: _renewed(self._made.get(name), made) for name, made in entries.items()}
        self._off = off
        self.version = version

    def made(self, name: str) -> Entry | None:
        """Return an agent that was made over HTTP."""
        return self._made.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._files or name in self._made

    def __iter__(self) -> Iterator[Entry]:
        yield from self._files.values()
        yield from (entry for name, entry in self._made.items() if name not in self._files)

    @property
    def of_files(self) -> list[Entry]:
        """The agents that files declare."""
        return [*self._files.values()]

    @property
    def names(self) -> list[str]:
        """The names of all agents."""
        return [entry.name for entry in self]

    def get(self, name: str) -> Entry | None:
        """Find an agent; a file's comes before one that was made over HTTP."""
        return self._files.get(name) or self._made.get(name)

    def is_on(self, name: str) -> bool:
        """Return whether an agent may be run."""
        entry = self.get(name)
        return entry is not None and entry.config.enabled and name not in self._off

    def runnable(self, name: str) -> Entry:
        """Find an agent that is to be run, or raise that there is none or that it is off."""
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


def _renewed(before: Entry | None, now: Entry) -> Entry:
    """Keep the level of an agent's hooks, so that runs under way see what it holds now."""
    if before is None or before is now:
        return now
    before.hooks.swap(lambda _known: [*now.config.hooks])
    return Entry(
        now.config,
        before.hooks,
        now.version,
        now.made_over_http,
        now.blueprint,
        now.takes,
        now.gives,
    )
