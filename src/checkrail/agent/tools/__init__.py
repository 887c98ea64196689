"""Tools: what a model can call. Those of MCP servers are imported when they are first used."""

from typing import TYPE_CHECKING

from checkrail.agent.tools.function import FunctionTool, tool
from checkrail.agent.tools.tool import (
    Tool,
    ToolContext,
    ToolError,
    ToolRefusedError,
    ToolSource,
    ToolSourceError,
)
from checkrail.lazy import import_on_use

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

__getattr__ = import_on_use(__name__, dict.fromkeys(_OF_MCP, "checkrail.agent.tools.mcp"))
