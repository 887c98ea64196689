"""The tools of one agent, whatever they were given as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from checkrail.agent.tools.agent import AgentTool
from checkrail.agent.tools.limits import LEGAL_NAME
from checkrail.agent.tools.tool import Tool, ToolSource
from checkrail.engine.errors import CheckrailError


class Toolbox:
    """Knows tools by their names, and connects the sources that have more."""

    def __init__(self, owner: str, given: Any) -> None:
        self.owner = owner
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise TypeError(f"the tools of agent {owner!r} are a list, not {given!r}")
        self._fixed: list[Tool] = []
        self._sources: list[ToolSource] = []
        for item in given:
            found = _tool_or_source(item)
            if isinstance(found, Tool):
                self._fixed.append(found)
            else:
                self._sources.append(found)
        self._known = self._named(self._fixed)

    async def connected(self) -> Mapping[str, Tool]:
        """Return all tools by name; sources are connected if they are not."""
        if not self._sources:
            return self._known
        found = [tool for source in self._sources for tool in await source.tools()]
        return self._named([*self._fixed, *found])

    async def aclose(self) -> None:
        """Close what was connected, also of agents beneath."""
        async with AsyncExitStack() as closing:
            for source in self._sources:
                closing.push_async_callback(source.aclose)
            for tool in self._fixed:
                if isinstance(tool, AgentTool):
                    closing.push_async_callback(tool.agent.aclose)

    async def leave(self) -> None:
        """Close what was connected in this event loop, which is about to end."""
        async with AsyncExitStack() as closing:
            for source in self._sources:
                closing.push_async_callback(getattr(source, "leave", source.aclose))
            for tool in self._fixed:
                if isinstance(tool, AgentTool):
                    closing.push_async_callback(tool.agent.leave)

    def _named(self, tools: Iterable[Tool]) -> Mapping[str, Tool]:
        known: dict[str, Tool] = {}
        for tool in tools:
            if not LEGAL_NAME.fullmatch(tool.name):
                told = f"{tool.name!r} is no name for a tool of agent {self.owner!r}"
                raise CheckrailError(f"{told}: use letters, digits, _ and -, at most 64")
            if tool.name in known:
                told = f"agent {self.owner!r} has two tools of the name {tool.name!r}"
                raise CheckrailError(f"{told}: give one of them another name, or a prefix")
            known[tool.name] = tool
        return known


def _tool_or_source(given: Any) -> Tool | ToolSource:
    from checkrail.agent.agent import Agent

    if isinstance(given, Tool):
        return given
    if isinstance(given, Agent):
        return AgentTool(given)
    if isinstance(given, ToolSource):
        return given
    if callable(given):
        from checkrail.agent.tools.function import tool

        return tool(given)
    remedy = "give functions, tools, agents or MCP servers"
    raise TypeError(f"{given!r} is no tool: {remedy}")
