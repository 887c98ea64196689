"""A conversation as OpenAI's chat API takes it: nearly as it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.llm.conversation import is_parts

THINKING = ("thinking", "redacted_thinking")
"""Parts that only the provider who made them can read."""


def openai_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write a conversation for the API: without what is not part of it.

    A tool's result can only be text there: its other parts follow in a user's message, after the
    results of all the calls.
    """
    written: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for message in thaw([*messages]):
        if message.get("role") != "tool":
            written += _wrap_parts(apart)
            apart = []
            written.append(_without_thinking(message))
        else:
            written.append(_render_result(message, apart))
    return written + _wrap_parts(apart)


def _without_thinking(message: dict[str, Any]) -> dict[str, Any]:
    content: Any = message.get("content")
    if is_parts(content):
        content = [part for part in content if part["type"] not in THINKING]
    if not content and message.get("tool_calls"):
        content = None
    return message | {"content": "" if content == [] else content}


def _render_result(message: dict[str, Any], apart: list[dict[str, Any]]) -> dict[str, Any]:
    message.pop("is_error", None)
    content: Any = message.get("content")
    if not is_parts(content):
        return message
    others = [part for part in content if part["type"] != "text"]
    if others:
        told = f"What the tool call {message.get('tool_call_id')} gave besides text:"
        apart += [{"type": "text", "text": told}, *others]
    texts = [part for part in content if part["type"] == "text"]
    return message | {"content": texts or "The result is in the next user message."}


def _wrap_parts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": parts}] if parts else []
