"""`AgentStatus`: what the fluent style's functions see of an agent at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import LIVE, Event
from checkrail.engine.frozen import freeze, thaw
from checkrail.engine.points import HookPoint
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall, ToolResult


class AgentEvent(StrEnum):
    """The moments of an agent loop, as the fluent style names them; each is a point."""

    BEFORE_LLM_CALL = "before_llm_call"
    AFTER_LLM_CALL = "after_llm_call"
    BEFORE_TOOL_EXECUTION = "before_tool_execution"
    AFTER_TOOL_EXECUTION = "after_tool_execution"
    ON_TOOL_ERROR = "on_tool_error"
    BEFORE_FINAL_RESPONSE = "before_final_response"
    QUERY_END = "query_end"


class Live:
    """The state of one run of an agent loop, passed on as it is: effects act on it.

    `history` is the conversation, or a function that returns it for the value at a point.
    """

    __slots__ = ("agent", "flags", "history")

    def __init__(
        self,
        agent: Any = None,
        flags: dict[str, Any] | None = None,
        history: Sequence[Any] | Callable[[Any], Sequence[Any]] = (),
    ) -> None:
        self.agent = agent
        self.flags: dict[str, Any] = {} if flags is None else flags
        self.history = history


@dataclass(slots=True)
class AgentStatus:
    """Where an agent stands. What does not belong to the event is None.

    `flags` is kept for the whole run; `agent` is the live one. Both need an agent loop: without
    one, `agent` is None and `flags` lasts for one call. `conversation_history` is a copy, and
    what is appended to it goes into the conversation.
    """

    event: AgentEvent | HookPoint
    agent: Any = None
    iteration: int | None = None
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    assistant_message: AssistantMessage | None = None
    error: str | None = None
    conversation_history: list[Any] = field(default_factory=list)
    flags: dict[str, Any] = field(default_factory=dict)


_EVENTS = {
    HookPoint.BEFORE_TOOL_CALL: AgentEvent.BEFORE_TOOL_EXECUTION,
    HookPoint.AFTER_TOOL_CALL: AgentEvent.AFTER_TOOL_EXECUTION,
    **{HookPoint(event): event for event in AgentEvent if event in [*HookPoint]},
}


def status_of(event: Event[Any], history: Sequence[Any] | None = None) -> AgentStatus:
    """Return how an agent stands at an event; `history` is its conversation, if it was read."""
    live = _live_state(event)
    status = AgentStatus(
        event=_EVENTS.get(event.point, event.point),
        agent=live.agent,
        iteration=event.iteration,
        conversation_history=thaw(history_of(event) if history is None else history),
        flags=live.flags,
    )
    _fill_value(status, event.value)
    return status


def appended_messages(status: AgentStatus, known: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    """Return the messages that were added to a status's conversation after `known`."""
    now = status.conversation_history
    if now[: len(known)] != known:
        raise InvalidOutcomeError(
            "it changed earlier messages of conversation_history, which is only appended to: "
            "change what is sent with a value at before_llm_call",
        )
    return now[len(known) :]


def _live_state(event: Event[Any]) -> Live:
    live = event.metadata.get(LIVE)
    return live if isinstance(live, Live) else Live()


def history_of(event: Event[Any]) -> list[Any]:
    """Return the conversation at an event: what is sent, or what the agent loop has so far."""
    value = event.value
    found = value.messages if isinstance(value, ModelRequest) else _live_state(event).history
    return freeze(list(found(value) if callable(found) else found))  # type: ignore[no-any-return]


def _fill_value(status: AgentStatus, value: Any) -> None:
    if isinstance(value, AssistantMessage):
        status.assistant_message = value
    elif isinstance(value, ToolCall):
        status.tool_call = value
    elif isinstance(value, ToolResult):
        status.tool_result = value
        if status.event is AgentEvent.ON_TOOL_ERROR:
            status.error = value.error or str(value.content)
