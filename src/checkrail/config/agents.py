"""Agents of a file: the model, the tools and the hooks of each, read and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.builtin import BuiltinConfigError
from checkrail.config.agent_models import ModelConfig, ModelReader
from checkrail.config.agent_tools import CheckTools, McpConfig, ToolConfig, ToolReader
from checkrail.config.environment import Environment
from checkrail.config.kinds import fitting, is_reference
from checkrail.config.problems import Report, Where, described, spelled
from checkrail.config.schema import AGENT, AGENT_WORDS, KINDS
from checkrail.config.targets import Importer, NotLoadedError
from checkrail.engine.hook import HookSpec

AGENT_NAME = re.compile(r"\w+(?:[-.]\w+)*")
AUTONOMOUS = "autonomous"
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""

ReadHooks = Callable[[str, Any, Where], tuple[HookSpec, ...]]
"""Reads the hooks of an agent, whose name is given first."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a file says of an agent; `source` is where.

    Only the kind `autonomous` is read: of other kinds the rest is left to those who run them.
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
            return AgentConfig(name, self._source(where), "graph", given)
        if not isinstance(given, dict):
            hint = f"write {{model: {given}}}" if isinstance(given, str) and "/" in given else ""
            expected = "a mapping, or ./file.py:graph"
            self.report.add(where, f"found {described(given)}", expected, hint)
            return None
        kind = given.get("type", AUTONOMOUS)
        if kind in KINDS and kind != AUTONOMOUS:
            return AgentConfig(name, self._source(where), kind)
        return self._autonomous(name, given, where)

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
