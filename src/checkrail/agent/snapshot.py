"""Where a loop was left: all that it takes to enter it again there, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from checkrail.engine.frozen import freeze
from checkrail.engine.values import AssistantMessage, ToolCall, ToolResult, plain

Message = Mapping[str, Any]
Stage = Literal["request", "answer", "tools", "final"]
"""Which hooks are asked next: about the request, the answer, its tool calls, or the last word."""


@dataclass(slots=True)
class FinishedToolCall:
    """A finished tool call: as hooks passed it, its result, and the messages they inject."""

    call: ToolCall
    result: ToolResult
    inject: Sequence[Message] = ()


@dataclass(slots=True)
class LoopSnapshot:
    """The state of one iteration of a loop, from which it can be resumed."""

    iteration: int = 1
    stage: Stage = "request"
    messages: Sequence[Message] = ()
    system: Message | None = None
    answer: AssistantMessage | None = None
    stopped: bool = False
    offered: Sequence[str] = ()
    later: Sequence[Message] = ()
    paused: int = 0
    unparsed: Mapping[str, str] = field(default_factory=dict)
    handled: Sequence[FinishedToolCall] = ()
    sent: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    mismatches: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot as JSON data."""
        return plain(self)  # type: ignore[no-any-return]


def parse_snapshot(data: Mapping[str, Any]) -> LoopSnapshot:
    """Parse what `to_json` returned."""
    data = {"paused": 0, **data}  # a loop that was left by an older version could not pause
    known = {each.name: data[each.name] for each in fields(LoopSnapshot)}
    known["answer"] = None if data["answer"] is None else _parse_answer(data["answer"])
    known["messages"] = [freeze(message) for message in data["messages"]]
    known["handled"] = [
        FinishedToolCall(ToolCall(**one["call"]), ToolResult(**one["result"]), one["inject"])
        for one in data["handled"]
    ]
    return LoopSnapshot(**known)


def _parse_answer(data: Mapping[str, Any]) -> AssistantMessage:
    calls = [ToolCall(**call) for call in data["tool_calls"]]
    return AssistantMessage(**{**data, "tool_calls": calls})
