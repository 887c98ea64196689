"""Tools: what a model can call. Those of MCP servers are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from checkrail.agent.tools.errors import ToolRefusedError, ToolSourceError
from checkrail.agent.tools.function import FunctionTool, tool
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError, ToolSource

if TYPE_CHECKING:
    from checkrail.agent.tools.mcp import MCPTools, mcp_http, mcp_stdio

__all__ = [
    "FunctionTool",
    "MCPTools",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolRefusedError",
    "ToolSource",
    "ToolSourceError",
    "mcp_http",
    "mcp_stdio",
    "tool",
]

_OF_MCP = ("MCPTools", "mcp_http", "mcp_stdio")


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _OF_MCP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.mcp"), name)
    return found
