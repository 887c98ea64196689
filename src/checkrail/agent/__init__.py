"""The agent loop: a model, its tools, and every hook on the way."""

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
from checkrail.agent.streaming import AgentStream
from checkrail.agent.tools.tool import Tool, ToolContext, ToolError, ToolSource

__all__ = [
    "Agent",
    "AgentStream",
    "Conversation",
    "Finished",
    "HookCalled",
    "Model",
    "ModelError",
    "RunFailed",
    "StreamEvent",
    "TextDelta",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolSource",
    "ToolStarted",
]
