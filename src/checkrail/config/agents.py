"""Agents of a file: the model, the tools and the hooks of each, read and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.config.agent_keys import (
    AGENT,
    AGENT_WORDS,
    AUTONOMOUS,
    GRAPH,
    GRAPH_KIND,
    PROCEDURAL,
    PROCEDURAL_KIND,
    PROGRAM,
    find_agent_kind,
)
from checkrail.config.agent_models import Import, ModelConfig, ModelReader
from checkrail.config.agent_tools import CheckTools, McpConfig, ToolConfig, ToolReader
from checkrail.config.environment import Environment
from checkrail.config.imports import Importer, NotLoadedError
from checkrail.config.problems import Report, Where, describe_value, format_path
from checkrail.config.server_keys import reference
from checkrail.config.value_checks import Check, is_reference, read_members
from checkrail.engine.errors import CheckrailError
from checkrail.engine.hook import HookSpec

AGENT_NAME = re.compile(r"\w+(?:[-.]\w+)*")
_GRAPH_NAME = re.compile(r"\w(?:[^/\\\0-\x1f\x7f]*[^/\\\0- \x7f])?")
"""Names of graphs that other servers take too; a name is still no path."""
_EXPANDED = ("system_prompt", "description", "command", "cwd", "env")
"""Keys of an agent that variables may be put into; a model and its tools have their own."""

ReadHooks = Callable[[str, Any, Where], tuple[HookSpec, ...]]
"""Reads the hooks of an agent, whose name is given first."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """An agent as configured in a file; `source` is its place there.

    A graph is not imported, nor is the function of a procedural agent: `path` says where it is. In
    its place a procedural agent may have a `command`, with its own `env`, in a folder `cwd` that is
    relative to the project. `on_crash` says what becomes of a run whose process died, `demands`
    which tags its runner must have.
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
    demands: tuple[str, ...] = ()
    command: tuple[str, ...] = field(default=(), repr=False)
    parameters_as: str = "stdin"
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_default_model(given: Any, environment: Environment, importer: Importer) -> ModelConfig:
    """Read the model of all agents that name none; one that is wrong is reported, once."""
    models = ModelReader(
        environment.report, environment, _build_import(importer, environment.report)
    )
    return models.read(given, ("defaults", "model")) or ModelConfig("")


def _build_import(importer: Importer, report: Report) -> Import:
    def import_object(reference: str, where: Where) -> Sequence[Any]:
        try:
            return (importer.import_path(reference),)
        except NotLoadedError as error:
            add = report.add_shared if error.broken else report.add
            add(where, error.found, error.expected, error.hint)
            return ()

    return import_object


class AgentReader:
    """Reads the agents of one file; what is wrong with them is reported."""

    def __init__(
        self,
        environment: Environment,
        importer: Importer,
        read_hooks: ReadHooks,
        check_tools: CheckTools | None,
        default_model: ModelConfig | None = None,
    ) -> None:
        self.report: Report = environment.report
        self.environment = environment
        self.importer = importer
        self.read_hooks = read_hooks
        self.default_model = default_model
        imported = _build_import(importer, self.report)
        self.models = ModelReader(self.report, environment, imported)
        self.tools = ToolReader(
            self.report,
            environment,
            imported,
            importer.base,
            check_tools,
            guard=importer.outside.outbound if importer.signer else None,
        )

    def read_section(self, given: Any, where: Where) -> dict[str, AgentConfig]:
        """Read agents by their names."""
        if not isinstance(given, dict):
            self.report.add(where, f"found {describe_value(given)}", "agents by their names")
            return {}
        found = {}
        for name, item in given.items():
            self._check_name(name, (*where, name))
            if (agent := self.read(name, item, (*where, name))) is not None:
                found[name] = agent
        return found

    def read_graphs(
        self, given: Any, where: Where, taken: Container[str]
    ) -> dict[str, AgentConfig]:
        """Read graphs by their names, as other servers write them too."""
        if given is None:
            return {}
        if not isinstance(given, dict):
            self.report.add(where, f"found {describe_value(given)}", "graphs by their names")
            return {}
        found = {}
        for name, item in given.items():
            at = (*where, name)
            if not _GRAPH_NAME.fullmatch(name):
                self.report.add(at, f"the name {name!r}", "a name without / and \\")
            if name in taken:
                self.report.add(at, f"the name {name!r} a second time", "each name once")
            if (graph := self._read_graph(name, item, at)) is not None:
                found[name] = graph
        return found

    def read_blueprint(
        self, data: Mapping[str, Any], given: Mapping[str, Any]
    ) -> AgentConfig | None:
        """Read the agent of a file that is its blueprint."""
        if "name" in data:
            self._check_name(data["name"], ("name",))
        else:
            self.report.add((), "`name` is missing", "the name of the agent")
        return self.read(str(data.get("name")), given, ())

    def read(self, name: str, given: Any, where: Where) -> AgentConfig | None:
        """Read one agent."""
        if is_reference(given):
            return self._read_graph(name, given, where)
        if not isinstance(given, dict):
            hint = f"write {{model: {given}}}" if isinstance(given, str) and "/" in given else ""
            expected = "a mapping, or ./file.py:graph"
            self.report.add(where, f"found {describe_value(given)}", expected, hint)
            return None
        kind = find_agent_kind(given)
        if kind == GRAPH_KIND:
            return self._read_graph(name, given, where)
        if kind == PROCEDURAL_KIND:
            return self._read_procedural(name, given, where)
        return self._read_autonomous(name, given, where)

    def _read_graph(self, name: str, given: Any, where: Where) -> AgentConfig | None:
        """Read a graph: its path alone, or a mapping with it. Nothing is imported."""
        said = {"path": given} if isinstance(given, str) else given
        fits = (
            reference(given, where, self.report)
            if said is not given
            else self._is_graph_mapping(said, where)
        )
        if not isinstance(said, dict):
            return None
        if not fits:
            self.read_hooks(name, said.get("hooks"), (*where, "hooks"))  # more may be wrong
            return None
        said = GRAPH.used_members(said)
        shared = self._common_fields(name, said, where, on_crash="resume")
        return AgentConfig(kind=GRAPH_KIND, path=said["path"], **shared)

    def _is_graph_mapping(self, given: Any, where: Where) -> bool:
        """Return whether a mapping is that of a graph."""
        if not GRAPH(given, where, self.report):
            return False
        if given.get("type", GRAPH_KIND) != GRAPH_KIND:
            found = f"found {describe_value(given['type'])} among `graphs`"
            self.report.add((*where, "type"), found, GRAPH_KIND, "other agents go under `agents`")
        elif given.get("path") is None:
            self.report.add(where, "`path` is missing", "path: ./file.py:graph")
        else:
            return True
        return False

    def _read_procedural(self, name: str, given: Mapping[str, Any], where: Where) -> AgentConfig:
        """Read a function or a program. Nothing is imported, and no file is looked for."""
        before = len(self.report.problems)
        said = self._read_keys(given, PROCEDURAL, where)
        if len(self.report.problems) == before:
            self._check_procedural(said, where)
        return AgentConfig(
            kind=PROCEDURAL_KIND,
            path=said.get("path", ""),
            command=tuple(said.get("command", ())),
            **{key: said[key] for key in PROGRAM if key in said},
            **self._common_fields(name, said, where),
        )

    def _check_procedural(self, said: Mapping[str, Any], where: Where) -> None:
        """Check that there is either a function or a program, with keys for that alone."""
        if "path" in said and "command" in said:
            self.report.add((*where, "command"), "both `path` and `command`", "one of them")
        elif "command" in said and not said["command"]:
            self.report.add((*where, "command"), "found an empty list", "a program")
        elif "command" not in said and "path" not in said:
            expected = "path: ./file.py:function, or command: [program, argument]"
            self.report.add(where, "a procedural agent that has nothing to do", expected)
        for key in PROGRAM if "command" not in said else ():
            if key in said and "path" in said:
                found = f"`{key}`, which is for a `command`, beside `path`"
                self.report.add((*where, key), found, "a function without it")

    def _read_autonomous(self, name: str, given: Mapping[str, Any], where: Where) -> AgentConfig:
        before = len(self.report.problems)
        said = self._read_keys(given, AGENT, where)
        model = self.default_model
        if "model" in said:
            model = self.models.read(said["model"], (*where, "model"))
        elif model is None and len(self.report.problems) == before:
            hint = "defaults: {model: …} is for all agents; a graph says type: graph and `path`"
            self.report.add(where, "`model` is missing", "a model to ask", hint)
        return AgentConfig(
            model=model,
            system_prompt=said.get("system_prompt", ""),
            tools=self.tools.read_tools(name, said.get("tools"), (*where, "tools")),
            mcp=self.tools.read_servers(said.get("mcp"), (*where, "mcp")),
            max_iterations=said.get("max_iterations"),
            model_timeout=said.get("model_timeout"),
            **self._common_fields(name, said, where),
        )

    def _read_keys(
        self, given: Mapping[str, Any], keys: Mapping[str, Check], where: Where
    ) -> dict[str, Any]:
        """Return the keys of an agent that are known and valid."""
        known = {}
        for key, value in given.items():
            if key not in keys and AGENT_WORDS.get(key) in keys:
                hint = f"did you mean {AGENT_WORDS[key]!r}?"
                found, expected = f"unknown key {key!r}", f"one of: {', '.join(keys)}"
                self.report.add((*where, key), found, expected, hint)
            else:
                known[key] = value
        said = read_members(known, keys, where, self.report)
        for key in _EXPANDED:
            if key in said:
                said[key] = self.environment.expand(said[key], (*where, key))
        return said

    def _common_fields(
        self, name: str, said: Mapping[str, Any], where: Where, *, on_crash: str = "fail"
    ) -> dict[str, Any]:
        """Return the fields that agents of all kinds have."""
        for key in ("parameters_schema", "output_schema"):
            self._check_schema(said.get(key), (*where, key))
        return {
            "name": name,
            "source": self._describe_source(where),
            "description": said.get("description", ""),
            "parameters_schema": said.get("parameters_schema"),
            "output_schema": said.get("output_schema"),
            "hooks": self.read_hooks(name, said.get("hooks"), (*where, "hooks")),
            "tags": tuple(said.get("tags", ())),
            "demands": tuple(dict.fromkeys(said.get("demands", ()))),
            "on_crash": said.get("on_crash", on_crash),
            "timeout_seconds": said.get("timeout_seconds"),
            "enabled": said.get("enabled", True),
        }

    def _check_name(self, name: Any, where: Where) -> None:
        if not (isinstance(name, str) and AGENT_NAME.fullmatch(name)):
            expected = "letters, digits, and - _ . between them"
            self.report.add(where, f"the agent name {name!r}", expected, "a name is no path")

    def _check_schema(self, schema: Mapping[str, Any] | None, where: Where) -> None:
        from checkrail.builtin import BuiltinConfigError
        from checkrail.builtin.schema_check import compile_schema

        if schema is None:
            return
        try:
            compile_schema(str(where[-1]), dict(schema), f"`{where[-1]}`")
        except BuiltinConfigError as error:
            self.report.add(where, f"found {error.found}", error.expected)
        except CheckrailError as error:
            self.report.add(where, str(error))

    def _describe_source(self, where: Where) -> str:
        line = self.report.find_line(where)
        place = self.report.file if line is None else f"{self.report.file}:{line}"
        return f"{place} {format_path(where)}".rstrip()
