"""An agent as a tool of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.agent.errors import RunFailed
from checkrail.agent.messages import text_of
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent

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
        """Run the agent, and give its answer."""
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
        return _shown(response.content) if response.output is None else response.output


def _shown(content: str | Sequence[Any]) -> str | Sequence[Any]:
    """Return what an agent said to others; its thoughts are its own."""
    if isinstance(content, str):
        return content
    said: list[Any] = [part for part in content if _type(part) in ("text", "image_url")]
    return said if any(_type(part) != "text" for part in said) else text_of(said)


def _type(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else None
