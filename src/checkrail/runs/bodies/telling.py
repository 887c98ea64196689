"""What a run of our own loop tells, in the words of LangGraph's streams.

`custom` events tell everything in a form of our own; `messages` and `tools` tell it again as
graphs do, for clients that know only those; `values` are the conversation in the end.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from checkrail.agent.agent import Agent
from checkrail.agent.events import HookCalled, StreamEvent, TextDelta, ToolFinished, ToolStarted
from checkrail.agent.messages import content_of
from checkrail.engine.records import HookRecord
from checkrail.engine.values import ToolCall, ToolResult, plain
from checkrail.runs.work import Work

KEPT_RECORDS = 64


class Teller:
    """Tells the events of one run of an agent; `records` are the last that hooks have made."""

    def __init__(self, work: Work, agent: Agent) -> None:
        self.records: deque[HookRecord] = deque(maxlen=KEPT_RECORDS)
        self._emit = work.emit
        self._prefix = f"{work.run_id}:{work.attempt}"
        self._speaking: str | None = None
        self._about = {
            "run_id": work.run_id,
            "thread_id": work.thread_id,
            "langgraph_node": agent.name,
            "ls_provider": agent.model.provider,
            "ls_model_name": agent.model.name,
        }

    def tell(self, event: StreamEvent) -> None:
        """Tell what has happened."""
        if isinstance(event, TextDelta):
            self._text(event)
        elif isinstance(event, ToolStarted):
            self._started(event.call)
        elif isinstance(event, ToolFinished):
            self._finished(event.result)
        elif isinstance(event, HookCalled):
            self.records.append(event.record)

    def end(self, values: dict[str, Any]) -> None:
        """Tell what the conversation is in the end."""
        self._hush()
        self._emit("values", (), values)

    def _text(self, delta: TextDelta) -> None:
        name = f"{self._prefix}:{delta.iteration}"
        if name != self._speaking:
            self._hush()
            self._speaking = name
        self._custom("text_delta", text=delta.text, iteration=delta.iteration)
        self._said(name, delta.text)

    def _hush(self) -> None:
        """Close the message that is being spoken, if one is."""
        if self._speaking is not None:
            name, self._speaking = self._speaking, None
            self._said(name, "", chunk_position="last")

    def _started(self, call: ToolCall) -> None:
        self._hush()
        about = {"tool_call_id": call.id, "tool_name": call.name}
        args = plain(call.args)
        self._custom("tool_started", **about, args=args)
        self._emit("tools", (), {"event": "tool-started", **about, "input": args})

    def _finished(self, result: ToolResult) -> None:
        about = {"tool_call_id": result.id, "tool_name": result.name}
        content = plain(result.content)
        self._custom("tool_finished", **about, content=content, is_error=result.is_error)
        told: dict[str, Any] = {"event": "tool-finished", **about, "output": content}
        if result.is_error:
            message = str(result.error or content_of(result))
            told = {"event": "tool-error", **about, "message": message}
        self._emit("tools", (), told)

    def _custom(self, kind: str, **told: Any) -> None:
        """Tell in our own form; a `name` in it would be taken for the name of a channel."""
        self._emit("custom", (), {"type": kind, **told})

    def _said(self, name: str, text: str, **more: Any) -> None:
        piece = {"type": "AIMessageChunk", "id": name, "content": text, **more}
        self._emit("messages", (), [piece, self._about])
