"""The agent loop: a model, its tools, and every hook on the way.

The models of providers and MCP servers are imported when they are first used.
"""

from typing import TYPE_CHECKING

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
from checkrail.agent.models.model import Model, ModelError
from checkrail.agent.stream import AgentStream
from checkrail.agent.tools import ToolRefusedError, ToolSourceError, tool
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError, ToolSource
from checkrail.engine.values import AssistantResponse
from checkrail.lazy import import_on_use

if TYPE_CHECKING:
    from checkrail.agent.blueprint import build_agent
    from checkrail.agent.models.anthropic import AnthropicModel
    from checkrail.agent.models.langchain import LangChainModel
    from checkrail.agent.models.litellm import LiteLLMModel
    from checkrail.agent.models.openai import OpenAIModel
    from checkrail.agent.tools.mcp import MCPTools, mcp_http, mcp_stdio

_HOME = {
    "AnthropicModel": "checkrail.agent.models.anthropic",
    "build_agent": "checkrail.agent.blueprint",
    "LangChainModel": "checkrail.agent.models.langchain",
    "LiteLLMModel": "checkrail.agent.models.litellm",
    "MCPTools": "checkrail.agent.tools.mcp",
    "OpenAIModel": "checkrail.agent.models.openai",
    "mcp_http": "checkrail.agent.tools.mcp",
    "mcp_stdio": "checkrail.agent.tools.mcp",
}

__all__ = [
    "Agent",
    "AgentStream",
    "AnthropicModel",
    "AssistantResponse",
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
    "tool",
]

__getattr__ = import_on_use(__name__, _HOME)
