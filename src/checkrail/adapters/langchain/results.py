"""What tools give back, in every form that LangChain allows, as the result that hooks see."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from checkrail.adapters.langchain.endings import ToolBlocked
from checkrail.agent.messages import content_of, is_parts
from checkrail.engine.errors import told
from checkrail.engine.frozen import thaw
from checkrail.engine.values import ToolCall, ToolResult, plain


class Raised:
    """A tool that raised: if hooks leave it so, it is raised again as it was."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def result_of(call: ToolCall, output: Any, duration_ms: float) -> ToolResult:
    """Read what a tool gave back."""
    if isinstance(output, Raised):
        reason = told(output.error)
        return ToolResult(
            call.id, call.name, reason, is_error=True, error=reason, duration_ms=duration_ms
        )
    message = _message(output, call.id)
    if message is not None:
        bad, content = message.status == "error", message.content
    else:
        bad, content = False, _update(output) if isinstance(output, Command) else output
    error = content if bad and isinstance(content, str) else None
    content = _readable(content)
    return ToolResult(
        call.id, call.name, content, is_error=bad, error=error, duration_ms=duration_ms
    )


def _readable(content: Any) -> Any:
    if content is None:
        return ""
    return content if isinstance(content, str) or is_parts(content) else plain(content)


def failed(call: ToolCall, reason: str) -> ToolResult:
    """Make the result of a call that was refused."""
    return ToolResult(call.id, call.name, reason, is_error=True, error=reason)


def output_of(call: ToolCall, id: str | None, output: Any, result: ToolResult) -> Any:
    """Write a result anew, in the form in which it came; what it came with is not kept.

    Without an id the tool was called by code, which takes what the tool returns, or an exception.
    """
    if id is None and result.is_error:
        raise ToolBlocked(str(result.error or content_of(result)))
    written = None if result.is_error else _rewritten(output, call.id, result)
    if written is not None and not isinstance(output, ToolMessage):
        return written
    if id is None:
        return thaw(result.content)
    return _told(call, result)


def _told(call: ToolCall, result: ToolResult) -> ToolMessage:
    return ToolMessage(
        content=thaw(content_of(result)),
        name=call.name,
        tool_call_id=call.id,
        status="error" if result.is_error else "success",
    )


def _message(output: Any, id: str) -> ToolMessage | None:
    """Find the message that tells the model of this call."""
    if isinstance(output, ToolMessage):
        return output
    if isinstance(output, Command):
        return next((said for said in _said(output) if _answers(said, id)), None)
    if isinstance(output, list):
        found = (_message(item, id) for item in output if isinstance(item, (ToolMessage, Command)))
        return next((message for message in found if message is not None), None)
    return None


def _answers(said: Any, id: str) -> bool:
    return isinstance(said, ToolMessage) and said.tool_call_id == id


def _update(command: Command[Any]) -> Any:
    return command.update if isinstance(command.update, Mapping) else plain(command.update)


def _said(command: Command[Any]) -> Sequence[Any]:
    update = command.update
    said = update.get("messages") if isinstance(update, Mapping) else update
    return said if isinstance(said, (list, tuple)) else [said]


def _rewritten(output: Any, id: str, result: ToolResult) -> Any:
    """Return a command, or several outputs, with another message for the model."""
    message = _message(output, id)
    if isinstance(output, list):
        return [_rewritten(item, id, result) or item for item in output] if message else None
    if isinstance(output, ToolMessage):
        return _with(output, result) if output is message else None
    if not isinstance(output, Command):
        return None
    if message is None:
        fits = isinstance(result.content, Mapping) and isinstance(output.update, Mapping)
        return dataclasses.replace(output, update=thaw(result.content)) if fits else None
    said = [_with(one, result) if one is message else one for one in _said(output)]
    update = {**output.update, "messages": said} if isinstance(output.update, Mapping) else said
    return dataclasses.replace(output, update=update)


def _with(message: ToolMessage, result: ToolResult) -> ToolMessage:
    """Write a message anew; an artifact would repeat what hooks have changed."""
    return ToolMessage(
        content=thaw(content_of(result)),
        name=message.name,
        tool_call_id=message.tool_call_id,
        id=message.id,
        status="success",
    )
