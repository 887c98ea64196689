"""The roster: all agents of a project, those of its file and those that have files of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.config.agent_cycles import check_calls, find_agent_hook_problems
from checkrail.config.agent_models import ModelConfig
from checkrail.config.agent_tools import CheckTools
from checkrail.config.agents import AgentConfig, AgentReader
from checkrail.config.builder import HookBuilder, build_hooks
from checkrail.config.document import read_document
from checkrail.config.entries import EntryReader, HookKeys
from checkrail.config.environment import Environment
from checkrail.config.imports import Importer
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.project import FOLDER
from checkrail.engine.hook import HookSpec

_BESIDE = frozenset({"name", "definitions", "$schema"})
_FILE = ""
"""Stands for the file itself where its own hooks are looked at as those of an agent are."""


@dataclass(slots=True)
class AgentList:
    """Reads agents, one file after the other; problems are reported for the file they are in."""

    importer: Importer
    check_tools: CheckTools | None = None
    default_model: ModelConfig | None = None
    agents: dict[str, AgentConfig] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    _places: dict[tuple[str, str], Where] = field(default_factory=dict)

    def add_sections(self, data: Mapping[str, Any], entries: EntryReader) -> None:
        """Read the agents and graphs that stand in the project's file."""
        reader = self._build_reader(entries)
        found = reader.read_section(data["agents"], ("agents",)) if "agents" in data else {}
        found |= reader.read_graphs(data.get("graphs"), ("graphs",), found)
        self.agents |= found
        self.reports |= dict.fromkeys(found, entries.report)

    def add_files(self, files: Iterable[Path], entries: EntryReader) -> None:
        """Read agents that have files of their own; they may use the project's definitions."""
        beside = Path(entries.report.file).parent
        lent = {
            name: HookKeys(said.where, said.keys, {}) for name, said in entries.definitions.items()
        }
        for file in files:
            report = entries.report.add_part(str(beside / FOLDER / file.name))
            environment = Environment(entries.environment.allowed, report)
            own = EntryReader(report, environment, entries.defaults)
            own.definitions |= lent
            document = read_document(file, report)
            agent = None if document is None else self.read_blueprint(document.data, own)
            if agent is not None:
                self._add_agent(agent, report)

    def _add_agent(self, agent: AgentConfig, report: Report) -> None:
        if agent.name in self.agents:
            first = f"{self.agents[agent.name].source} has it already"
            found = f"the name {agent.name!r} a second time"
            report.add(("name",), found, "each name once", first)
        else:
            self.agents[agent.name] = agent
            self.reports[agent.name] = report

    def read_blueprint(self, data: Any, entries: EntryReader) -> AgentConfig | None:
        """Read an agent that has a document of its own."""
        if not isinstance(data, dict) or not data:
            expected = "an agent: a mapping with its `name`"
            entries.report.add((), f"found {describe_value(data)}", expected)
            return None
        entries.read_definitions(data.get("definitions"), ("definitions",))
        given = {key: item for key, item in data.items() if key not in _BESIDE}
        return self._build_reader(entries).read_blueprint(data, given)

    def read_blueprint_file(
        self, data: Mapping[str, Any], given: Mapping[str, Any], entries: EntryReader
    ) -> None:
        """Read the agent of a file that is its blueprint, and whose hooks are the file's."""
        agent = self._build_reader(entries).read_blueprint(data, given)
        if agent is not None:
            self.agents[agent.name] = agent

    def check(self, outer: HookBuilder) -> None:
        """Check that agents and hooks that call each other exist, and come to an end.

        `outer` has the hooks of the file itself. A file without agents names those of others.
        """
        if not self.agents:
            return
        check_calls(self.agents, self.reports)
        hooks = {name: agent.hooks for name, agent in self.agents.items()}
        self.reports[_FILE] = outer.report
        self._store_places(_FILE, outer)
        own = tuple(outer.specs.values())
        for agent, hook, told in find_agent_hook_problems({**hooks, _FILE: own}, self.agents):
            self.reports[agent].add(self._places[agent, hook], told)

    def _build_reader(self, entries: EntryReader) -> AgentReader:
        def read_hooks(name: str, given: Any, where: Where) -> tuple[HookSpec, ...]:
            builder = HookBuilder(entries.report, self.importer, entries.defaults, f"{name}.")
            build_hooks(given, where, entries, builder)
            self._store_places(name, builder)
            return tuple(builder.specs.values())

        return AgentReader(
            entries.environment, self.importer, read_hooks, self.check_tools, self.default_model
        )

    def _store_places(self, agent: str, builder: HookBuilder) -> None:
        """Remember the places of an agent's hooks, each under the name of its own agent."""
        for hook, place in builder.where.items():
            entry = place[:-1] if place[-1] == "name" else place
            told = (*entry, "agent_name")
            self._places[agent, hook] = told if told in builder.report.lines else entry
