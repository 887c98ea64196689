from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from checkrail.engine.event import Event
from checkrail.engine.points import CONTRACTS, HookPoint
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

EventAt = Callable[..., Awaitable[Event[Any]]]

VALUES = {
    Session: Session("s1", user_id="ann", channel="web", thread_ids=["t1"]),
    InboundMessage: InboundMessage(
        "ann", "web", "hello", "t9", [{"kind": "image"}], {"lang": "en"}
    ),
    OutboundMessage: OutboundMessage("ann", "web", "hi Ann"),
    ModelRequest: ModelRequest("gpt", "openai", [{"role": "user", "content": "hello"}]),
    AssistantMessage: AssistantMessage("hi", [ToolCall("c1", "transfer", {"amount": 5})], "gpt"),
    ToolCall: ToolCall("c1", "transfer", {"amount": 5, "to": "bob", "items": [{"price": 1}]}),
    ToolResult: ToolResult("c1", "transfer", "done"),
    AgentResponse: AgentResponse("bye"),
    RunResult: RunResult("success", {"answer": 42}, {"question": "?"}),
    RunError: RunError("error", "boom", "ValueError", {"question": "?"}),
    object: {"question": "why", "depth": {"n": 1}},
}


@pytest.fixture
def value_at() -> Callable[[str], Any]:
    """Gives a value that can flow through a point."""
    return lambda point: VALUES[CONTRACTS[HookPoint(point)].value]


@pytest.fixture
def event_at(value_at) -> EventAt:
    """Gives an event as a hook at a point is given it."""

    async def fire(point: str, value: Any = ..., *, lane=None, config=None, **context: Any) -> Any:
        seen: list[Event[Any]] = []
        registry = HookRegistry()
        registry.register(seen.append, point, name="seen", lane=lane, config=config or {})
        await registry.fire(point, value_at(point) if value is ... else value, **context)
        return seen[0]

    return fire
