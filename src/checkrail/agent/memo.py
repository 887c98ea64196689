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
class Handled:
    """A tool call that is over: as it was let pass, its result, and what hooks inject after it."""

    call: ToolCall
    result: ToolResult
    inject: Sequence[Message] = ()


@dataclass(slots=True)
class Memo:
    """One iteration of a loop, as far as it has come."""

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
    handled: Sequence[Handled] = ()
    sent: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    mismatches: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Give it as JSON."""
        return plain(self)  # type: ignore[no-any-return]


def read(data: Mapping[str, Any]) -> Memo:
    """Read what `as_data` gave."""
    data = {"paused": 0, **data}  # a loop that was left by an older version could not pause
    known = {each.name: data[each.name] for each in fields(Memo)}
    known["answer"] = None if data["answer"] is None else _answer(data["answer"])
    known["messages"] = [freeze(message) for message in data["messages"]]
    known["handled"] = [
        Handled(ToolCall(**one["call"]), ToolResult(**one["result"]), one["inject"])
        for one in data["handled"]
    ]
    return Memo(**known)


def _answer(data: Mapping[str, Any]) -> AssistantMessage:
    calls = [ToolCall(**call) for call in data["tool_calls"]]
    return AssistantMessage(**{**data, "tool_calls": calls})
