"""One hook engine for the whole life of an AI agent."""

from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import Event
from checkrail.engine.hook import Hook
from checkrail.engine.outcomes import Ask, Block, Continue, Fail, Reject, Replace, Retry, Stop
from checkrail.engine.points import HookPoint
from checkrail.engine.records import HookRecord
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import (
    AgentResponse,
    AssistantMessage,
    InboundMessage,
    ModelRequest,
    OutboundMessage,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
)
from checkrail.engine.verdict import Verdict

__all__ = [
    "AgentResponse",
    "Ask",
    "AssistantMessage",
    "Block",
    "CheckrailError",
    "Continue",
    "Event",
    "Fail",
    "Hook",
    "HookPoint",
    "HookRecord",
    "HookRegistry",
    "InboundMessage",
    "ModelRequest",
    "OutboundMessage",
    "Reject",
    "Replace",
    "Retry",
    "RunError",
    "RunResult",
    "Session",
    "Stop",
    "ToolCall",
    "ToolResult",
    "Verdict",
]
