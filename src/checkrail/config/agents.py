"""Agents of a file: the model, the tools and the hooks of each, read and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.builtin import BuiltinConfigError
from checkrail.config.agent_models import ModelConfig, ModelReader
from checkrail.config.agent_tools import CheckTools, McpConfig, ToolConfig, ToolReader
from checkrail.config.environment import Environment
from checkrail.config.kinds import fitting, is_reference
from checkrail.config.problems import Report, Where, described, spelled
from checkrail.config.schema import AGENT, AGENT_WORDS, GRAPH, GRAPH_KIND, KINDS
from checkrail.config.server_keys import reference
from checkrail.config.targets import Importer, NotLoadedError
from checkrail.engine.hook import HookSpec

AGENT_NAME = re.compile(r"\w+(?:[-.]\w+)*")
_GRAPH_NAME = re.compile(r"\w(?:[^/\\\0-\x1f\x7f]*[^/\\\0- \x7f])?")
"""Names of graphs that other servers take too; a name is still no path."""
AUTONOMOUS = "autonomous"
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""

ReadHooks = Callable[[str, Any, Where], tuple[HookSpec, ...]]
"""Reads the hooks of an agent, whose name is given first."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a file says of an agent; `source` is where.

    A graph is not imported: `path` says where it is, `on_crash` what becomes of a run whose process
    died. Procedural agents are left to those who run them.
    """

    name: str
    source: str
    kind: str = AUTONOMOUS
    path: str = ""
    model: ModelConfig | None = None
    system_prompt: str = field(default="", repr=False)
    description: str = ""
    tools: tuple[ToolConfig, ...] = ()
    mcp: tuple[McpConfig, ...] = ()
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    max_iterations: int | None = None
    model_timeout: float | None = None
    hooks: tuple[HookSpec, ...] = field(default=(), repr=False)
    on_crash: str = "fail"
    timeout_seconds: float | None = None
    parameters_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    tags: tuple[str, ...] = ()
    enabled: bool = True


class AgentReader:
    """Reads the agents of one file; what is wrong with them is reported."""

    def __init__(
        self,
        environment: Environment,
        importer: Importer,
        read_hooks: ReadHooks,
        check_tools: CheckTools | None,
    ) -> None:
        self.report: Report = environment.report
        self.environment = environment
        self.importer = importer
        self.read_hooks = read_hooks
        self.models = ModelReader(self.report, environment, self._imported)
        self.tools = ToolReader(
            self.report, environment, self._imported, importer.base, check_tools
        )

    def section(self, given: Any, where: Where) -> dict[str, AgentConfig]:
        """Read agents by their names, and see that those who call each other come to an end."""
        if not isinstance(given, dict):
            self.report.add(where, f"found {described(given)}", "agents by their names")
            return {}
        found = {}
        for name, item in given.items():
            self._check_name(name, (*where, name))
            if (agent := self.read(name, item, (*where, name))) is not None:
                found[name] = agent
        self._check_calls(found)
        return found

    def graphs(self, given: Any, where: Where, taken: Container[str]) -> dict[str, AgentConfig]:
        """Read graphs by their names, as other servers write them too."""
        if given is None:
            return {}
        if not isinstance(given, dict):
            self.report.add(where, f"found {described(given)}", "graphs by their names")
            return {}
        found = {}
        for name, item in given.items():
            at = (*where, name)
            if not _GRAPH_NAME.fullmatch(name):
                self.report.add(at, f"the name {name!r}", "a name without / and \\")
            if name in taken:
                self.report.add(at, f"the name {name!r} a second time", "each name once")
            if (graph := self._graph(name, item, at)) is not None:
                found[name] = graph
        return found

    def blueprint(self, data: Mapping[str, Any], given: Mapping[str, Any]) -> AgentConfig | None:
        """Read the agent of a file that is its blueprint."""
        if "name" in data:
            self._check_name(data["name"], ("name",))
        else:
            self.report.add((), "`name` is missing", "the name of the agent")
        return self.read(str(data.get("name")), given, ())

    def read(self, name: str, given: Any, where: Where) -> AgentConfig | None:
        """Read one agent."""
        if is_reference(given):
            return self._graph(name, given, where)
        if not isinstance(given, dict):
            hint = f"write {{model: {given}}}" if isinstance(given, str) and "/" in given else ""
            expected = "a mapping, or ./file.py:graph"
            self.report.add(where, f"found {described(given)}", expected, hint)
            return None
        kind = given.get(
            "type", AUTONOMOUS if "model" in given or "path" not in given else GRAPH_KIND
        )
        if kind == GRAPH_KIND:
            return self._graph(name, given, where)
        if kind in KINDS and kind != AUTONOMOUS:
            return AgentConfig(name, self._source(where), kind)
        return self._autonomous(name, given, where)

    def _graph(self, name: str, given: Any, where: Where) -> AgentConfig | None:
        """Read a graph: its path alone, or a mapping with it. Nothing is imported."""
        said = {"path": given} if isinstance(given, str) else given
        fits = (
            reference(given, where, self.report) if said is not given else self._fits(said, where)
        )
        if not isinstance(said, dict):
            return None
        said = GRAPH.known(said)
        hooks = self.read_hooks(name, said.get("hooks"), (*where, "hooks"))
        return (
            None
            if not fits
            else AgentConfig(
                name=name,
                source=self._source(where),
                kind=GRAPH_KIND,
                path=said["path"],
                description=said.get("description", ""),
                output_schema=said.get("output_schema"),
                hooks=hooks,
                on_crash=said.get("on_crash", "resume"),
                timeout_seconds=said.get("timeout_seconds"),
                parameters_schema=said.get("parameters_schema"),
                tags=tuple(said.get("tags", ())),
                enabled=said.get("enabled", True),
            )
        )

    def _fits(self, given: Any, where: Where) -> bool:
        """Say whether a mapping is that of a graph."""
        if not GRAPH(given, where, self.report):
            return False
        if given.get("type", GRAPH_KIND) != GRAPH_KIND:
            found = f"found {described(given['type'])} among `graphs`"
            self.report.add((*where, "type"), found, GRAPH_KIND, "other agents go under `agents`")
        elif given.get("path") is None:
            self.report.add(where, "`path` is missing", "path: ./file.py:graph")
        else:
            return True
        return False

    def _autonomous(self, name: str, given: Mapping[str, Any], where: Where) -> AgentConfig:
        before = len(self.report.problems)
        said = self._said(given, where)
        if "model" not in given and len(self.report.problems) == before:
            hint = "an agent without one says type: graph or type: procedural"
            self.report.add(where, "`model` is missing", "a model to ask", hint)
        self._check_schema(said.get("output_schema"), (*where, "output_schema"))
        model = self.models.read(said["model"], (*where, "model")) if "model" in said else None
        return AgentConfig(
            name=name,
            source=self._source(where),
            model=model,
            system_prompt=said.get("system_prompt", ""),
            description=said.get("description", ""),
            tools=self.tools.tools(name, said.get("tools"), (*where, "tools")),
            mcp=self.tools.servers(said.get("mcp"), (*where, "mcp")),
            output_schema=said.get("output_schema"),
            max_iterations=said.get("max_iterations"),
            model_timeout=said.get("model_timeout"),
            hooks=self.read_hooks(name, said.get("hooks"), (*where, "hooks")),
            parameters_schema=said.get("parameters_schema"),
            tags=tuple(said.get("tags", ())),
            enabled=said.get("enabled", True),
        )

    def _said(self, given: Mapping[str, Any], where: Where) -> dict[str, Any]:
        """Give the keys of an agent that are known, and fit."""
        known = {}
        for key, value in given.items():
            if key in AGENT_WORDS and key not in AGENT:
                hint = f"did you mean {AGENT_WORDS[key]!r}?"
                found, expected = f"unknown key {key!r}", f"one of: {', '.join(AGENT)}"
                self.report.add((*where, key), found, expected, hint)
            else:
                known[key] = value
        said = fitting(known, AGENT, where, self.report)
        for key in {"system_prompt", "description"} & said.keys():
            said[key] = self.environment.expand(said[key], (*where, key))
        return said

    def _check_name(self, name: Any, where: Where) -> None:
        if not (isinstance(name, str) and AGENT_NAME.fullmatch(name)):
            expected = "letters, digits, and - _ . between them"
            self.report.add(where, f"the agent name {name!r}", expected, "a name is no path")

    def _check_schema(self, schema: Mapping[str, Any] | None, where: Where) -> None:
        from checkrail.builtin.schema_check import compiled

        if schema is None:
            return
        try:
            compiled("output_schema", dict(schema))
        except BuiltinConfigError as error:
            self.report.add(where, f"found {error.found}", error.expected)

    def _check_calls(self, agents: Mapping[str, AgentConfig]) -> None:
        for agent in agents.values():
            for tool in agent.tools:
                if tool.agent is None:
                    continue
                if tool.agent not in agents:
                    self.report.unknown(tool.where, "agent", tool.agent, agents)
                else:
                    self._check_called(tool, agents[tool.agent])
        self._check_circles(agents)

    def _check_called(self, tool: ToolConfig, agent: AgentConfig) -> None:
        if agent.kind != AUTONOMOUS:
            found = f"the agent {agent.name!r}, which is of type {agent.kind}"
            self.report.add(tool.where, found, "an autonomous agent: others cannot be tools yet")
        elif not TOOL_NAME.fullmatch(agent.name):
            expected = "a name of up to 64 letters of a to z, digits, - and _"
            self.report.add(tool.where, f"{agent.name!r}, which is no name for a tool", expected)

    def _check_circles(self, agents: Mapping[str, AgentConfig]) -> None:
        """Report agents that call each other without end: whoever is left when leaves fall."""
        calls = {
            name: [tool for tool in agent.tools if tool.agent in agents]
            for name, agent in agents.items()
        }
        while calls := _without_leaves(calls):
            path = [next(iter(calls))]
            while (tool := calls[path[-1]][0]).agent not in path:
                path.append(str(tool.agent))
            circle = " → ".join((*path[path.index(str(tool.agent)) :], str(tool.agent)))
            self.report.add(tool.where, f"a circle: {circle}", "agents that come to an end")
            calls[path[-1]].remove(tool)

    def _imported(self, reference: str, where: Where) -> Sequence[Any]:
        try:
            return (self.importer.path(reference),)
        except NotLoadedError as error:
            add = self.report.add_shared if error.broken else self.report.add
            add(where, error.found, error.expected, error.hint)
            return ()

    def _source(self, where: Where) -> str:
        line = self.report.line(where)
        place = self.report.file if line is None else f"{self.report.file}:{line}"
        return f"{place} {spelled(where)}".rstrip()


def _without_leaves(calls: dict[str, list[ToolConfig]]) -> dict[str, list[ToolConfig]]:
    """Leave out agents that call none, then those that call only such, and so on."""
    while leaves := {name for name, tools in calls.items() if not tools}:
        calls = {
            name: [tool for tool in tools if tool.agent not in leaves]
            for name, tools in calls.items()
            if name not in leaves
        }
    return calls
