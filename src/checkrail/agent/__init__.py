"""The agent loop: a model, its tools, and every hook on the way.

The models of providers and MCP servers are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from checkrail.agent.agent import Agent
from checkrail.agent.conversation import Conversation
from checkrail.agent.errors import RunFailed
from checkrail.agent.events import (
    Finished,
    HookCalled,
    StreamEvent,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from checkrail.agent.messages import text_of
from checkrail.agent.models.model import Model, ModelError
from checkrail.agent.streaming import AgentStream
from checkrail.agent.tools import ToolRefusedError, ToolSourceError, tool
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError, ToolSource

if TYPE_CHECKING:
    from checkrail.agent.blueprint import build_agent
    from checkrail.agent.models.anthropic import AnthropicModel
    from checkrail.agent.models.langchain import LangChainModel
    from checkrail.agent.models.litellm import LiteLLMModel
    from checkrail.agent.models.openai import OpenAIModel
    from checkrail.agent.tools.mcp import MCPTools, mcp_http, mcp_stdio

_LATER = {
    "AnthropicModel": "models.anthropic",
    "build_agent": "blueprint",
    "LangChainModel": "models.langchain",
    "LiteLLMModel": "models.litellm",
    "MCPTools": "tools.mcp",
    "OpenAIModel": "models.openai",
    "mcp_http": "tools.mcp",
    "mcp_stdio": "tools.mcp",
}

__all__ = [
    "Agent",
    "AgentStream",
    "AnthropicModel",
    "Conversation",
    "Finished",
    "HookCalled",
    "LangChainModel",
    "LiteLLMModel",
    "MCPTools",
    "Model",
    "ModelError",
    "OpenAIModel",
    "RunFailed",
    "StreamEvent",
    "TextDelta",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolRefusedError",
    "ToolSource",
    "ToolSourceError",
    "ToolStarted",
    "build_agent",
    "mcp_http",
    "mcp_stdio",
    "text_of",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import a name that only some need."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return found
