"""The tools of one agent, whatever they were given as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from checkrail.agent.errors import RunFailed
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError, ToolSource
from checkrail.engine.errors import CheckrailError
from checkrail.llm.conversation import LEGAL_NAME, text_of

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent


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
        self._known = self._index_tools(self._fixed)

    async def connect_tools(self) -> Mapping[str, Tool]:
        """Return all tools by name; sources are connected if they are not."""
        if not self._sources:
            return self._known
        found = [tool for source in self._sources for tool in await source.tools()]
        return self._index_tools([*self._fixed, *found])

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

    def _index_tools(self, tools: Iterable[Tool]) -> Mapping[str, Tool]:
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


QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the agent is to do."}},
    "required": ["query"],
    "additionalProperties": False,
}


class AgentTool(Tool):
    """Runs an agent on a query; every hook above holds in it."""

    parameters = QUERY

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = agent.name
        self.description = agent.description or f"Asks the agent {agent.name}."

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Run the agent, and return its answer."""
        del context
        query = args.get("query")
        if not isinstance(query, str) or len(args) > 1:
            raise ToolError(f"{self.name} takes one argument, `query`, which is a text")
        try:
            response = await self.agent.run(query)
        except RunFailed as failure:
            raise ToolError(f"the agent {self.name} failed: {failure}") from failure
        if response.error is not None:
            raise ToolError(f"the agent {self.name} gave no answer: {response.error}")
        return _visible_content(response.content) if response.output is None else response.output


def _visible_content(content: str | Sequence[Any]) -> str | Sequence[Any]:
    """Return the part of an agent's answer that others see: its thoughts are left out."""
    if isinstance(content, str):
        return content
    said: list[Any] = [part for part in content if _part_type(part) in ("text", "image_url")]
    return said if any(_part_type(part) != "text" for part in said) else text_of(said)


def _part_type(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else None
