"""What a stream of an agent's run tells, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkrail.engine.records import HookRecord
from checkrail.engine.values import AgentResponse, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text, as far as the hooks that may act on it have let it pass."""

    text: str
    iteration: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool was let through and is being called, with these arguments."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call is settled: this is what the model is given."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class HookCalled:
    """A hook was called, here or in an agent beneath: its record."""

    record: HookRecord


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over, and this came of it. It is the last event."""

    response: AgentResponse


StreamEvent = TextDelta | ToolStarted | ToolFinished | HookCalled | Finished
Emit = Callable[[StreamEvent], None]
