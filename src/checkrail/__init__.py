"""One hook engine for the whole life of an AI agent.

The names are imported when they are first used, so that `checkrail --help` is quick.
"""

from typing import TYPE_CHECKING

from checkrail.lazy import import_on_use

if TYPE_CHECKING:
    from checkrail.agent.agent import Agent
    from checkrail.agent.tools.function import tool
    from checkrail.engine.asks import Approval
    from checkrail.engine.errors import CheckrailError, UnreachableError
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
    from checkrail.styles.decorators import Hooks

_HOMES = {
    "agent.agent": ("Agent",),
    "agent.tools.function": ("tool",),
    "engine.asks": ("Approval",),
    "engine.errors": ("CheckrailError", "UnreachableError"),
    "engine.event": ("Event",),
    "engine.hook": ("Hook",),
    "engine.outcomes": (
        "Ask",
        "Block",
        "Continue",
        "Fail",
        "Reject",
        "Replace",
        "Retry",
        "Stop",
    ),
    "engine.points": ("HookPoint",),
    "engine.records": ("HookRecord",),
    "engine.registry": ("HookRegistry",),
    "engine.values": (
        "AgentResponse",
        "AssistantMessage",
        "InboundMessage",
        "ModelRequest",
        "OutboundMessage",
        "RunError",
        "RunResult",
        "Session",
        "ToolCall",
        "ToolResult",
    ),
    "engine.verdict": ("Verdict",),
    "styles.decorators": ("Hooks",),
}
_HOME = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentResponse",
    "Approval",
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
    "Hooks",
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
    "UnreachableError",
    "Verdict",
    "tool",
]

__getattr__ = import_on_use(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
