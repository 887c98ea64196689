"""Tools of agents: functions by their import paths, other agents of the file, MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.config.agent_models import Import
from checkrail.config.environment import Environment
from checkrail.config.problems import Report, Where, describe_value, format_path
from checkrail.config.value_checks import (
    Check,
    check_secrets,
    command,
    mapping,
    patterns,
    read_members,
    seconds,
    text,
)
from checkrail.engine.errors import CheckrailError
from checkrail.regex import PatternError, Regex, read_pattern

if TYPE_CHECKING:
    from checkrail.actions.outbound import Outbound

EXPECTED = "./file.py:function, package.module:function, or agent:name"
OTHER_AGENT = "agent:"

CheckTools = Callable[[str, Sequence[Any]], Sequence[str]]
"""Gives the names of an agent's tools, or raises what is wrong with them."""


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What an agent can call: things that were imported, or the agent of that name.

    `names` are those that its model knows, as far as they are known before it runs.
    """

    label: str
    where: Where
    names: tuple[str, ...]
    given: tuple[Any, ...] = field(default=(), repr=False)
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class McpConfig:
    """An MCP server: a program with its arguments, or a URL. Its other options may be secret."""

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


_BOTH: dict[str, Check] = {"prefix": text, "include": patterns, "timeout": seconds}
_PROGRAM: dict[str, Check] = {
    "command": command,
    "env": check_secrets,
    "cwd": text,
}
_REMOTE: dict[str, Check] = {"url": text, "headers": check_secrets}
SERVER_KEYS: dict[str, Check] = {**_PROGRAM, **_REMOTE, **_BOTH}


class ToolReader:
    """Reads the tools of the agents of one file; what is wrong with them is reported."""

    def __init__(
        self,
        report: Report,
        environment: Environment,
        imported: Import,
        base: Path,
        check: CheckTools | None,
        *,
        guard: Outbound | None = None,
    ) -> None:
        self.report = report
        self.environment = environment
        self.imported = imported
        self.base = base
        self.check = check
        self.guard = guard

    def read_tools(self, owner: str, given: Any, where: Where) -> tuple[ToolConfig, ...]:
        """Read the tools of an agent."""
        if given is None:
            return ()
        if not isinstance(given, list):
            self.report.add(where, f"found {describe_value(given)}", f"a list of {EXPECTED}")
            return ()
        read = [self._read_tool(owner, item, (*where, n)) for n, item in enumerate(given)]
        found = tuple(tool for tool in read if tool is not None)
        self._check_names(found)
        return found

    def _read_tool(self, owner: str, given: Any, where: Where) -> ToolConfig | None:
        if isinstance(given, dict) and given.keys() == {"agent"}:  # as YAML reads `agent: name`
            given = f"{OTHER_AGENT}{given['agent']}"
        if not isinstance(given, str):
            self.report.add(where, f"found {describe_value(given)}", EXPECTED)
            return None
        if given.startswith(OTHER_AGENT):
            name = given.removeprefix(OTHER_AGENT)
            return ToolConfig(given, where, (name,), agent=name)
        items: list[Any] = []
        for found in self.imported(given, where):
            items += found if isinstance(found, (list, tuple)) else [found]
        return ToolConfig(given, where, self._tool_names(owner, items, where), tuple(items))

    def _tool_names(self, owner: str, items: Sequence[Any], where: Where) -> tuple[str, ...]:
        if self.check is None:
            return ()
        try:
            return tuple(self.check(owner, items))
        except (CheckrailError, TypeError) as error:
            problem = getattr(error, "problem", str(error))
            self.report.add(where, problem, "", getattr(error, "remedy", ""))
            return ()

    def _check_names(self, tools: Sequence[ToolConfig]) -> None:
        first: dict[str, Where] = {}
        for tool in tools:
            for name in tool.names:
                if name in first:
                    at = f"{format_path(first[name])} has it already"
                    found = f"a tool of the name {name!r} a second time"
                    self.report.add(tool.where, found, "each name once", at)
                first.setdefault(name, tool.where)

    def read_servers(self, given: Any, where: Where) -> tuple[McpConfig, ...]:
        """Read the MCP servers of an agent, each under its name."""
        if given is None or not mapping(given, where, self.report):
            return ()
        read = [self._read_server(name, item, (*where, name)) for name, item in given.items()]
        return tuple(server for server in read if server is not None)

    def _read_server(self, name: str, given: Any, where: Where) -> McpConfig | None:
        before = len(self.report.problems)
        if given is None:
            self.report.add(where, "found nothing", "a mapping with `command` or `url`")
        said = read_members(given, SERVER_KEYS, where, self.report)
        said = {key: self.environment.expand(item, (*where, key)) for key, item in said.items()}
        if len(self.report.problems) > before or not self._is_program_or_url(said, where):
            return None
        self._check_keys(said, where)
        options = {key: item for key, item in said.items() if key not in ("command", "url")}
        if "include" in options:
            options["include"] = self._read_patterns(options["include"], (*where, "include"))
        if "url" in said and self.guard is not None:
            options["guard"] = self.guard
        if "command" in said:
            options["cwd"] = self.base / said.get("cwd", ".")
        return McpConfig(name, tuple(said.get("command", ())), said.get("url", ""), options)

    def _read_patterns(self, given: str | list[str], where: Where) -> list[str | Regex]:
        found: list[str | Regex] = []
        for pattern in [given] if isinstance(given, str) else given:
            try:
                found.append(read_pattern(pattern))
            except PatternError as error:
                told = f"{describe_value(pattern)} is no pattern here: {error.problem}"
                self.report.add(where, told, "", error.remedy)
        return found

    def _check_keys(self, said: Mapping[str, Any], where: Where) -> None:
        own = {**(_REMOTE if "url" in said else _PROGRAM), **_BOTH}
        for key in said.keys() - own.keys():
            found = f"`{key}`, which is for {'a program' if key in _PROGRAM else 'a URL'}"
            self.report.add((*where, key), found, f"one of: {', '.join(own)}")

    def _is_program_or_url(self, said: Mapping[str, Any], where: Where) -> bool:
        """Return whether a server is a program or a URL, and not both or neither."""
        if "command" in said and "url" in said:
            self.report.add((*where, "url"), "both `command` and `url`", "one of them")
        elif "command" in said and not said["command"]:
            self.report.add((*where, "command"), "found an empty list", "a program")
        elif "command" not in said and "url" not in said:
            self.report.add(where, "a server that is nowhere", "`command` or `url`")
        else:
            return True
        return False
