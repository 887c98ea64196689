"""Answers as LiteLLM gives them: OpenAI's, with Anthropic's thinking beside the text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from checkrail.agent.messages import is_parts
from checkrail.agent.models.checked import list_in, object_in, text_in
from checkrail.agent.models.openai_answer import OpenAIDraft
from checkrail.agent.models.openai_messages import THINKING
from checkrail.engine.values import AssistantMessage

BLOCKS = "thinking_blocks"


class LiteLLMDraft(OpenAIDraft):
    """An answer on its way; thinking is kept as parts of its content, to be given back."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._thinking: list[dict[str, Any]] = []

    def whole(self, answer: Mapping[str, Any]) -> AssistantMessage:
        """Read an answer that came at once."""
        self._think(answer, "message")
        return self._thought(super().whole(answer))

    def add(self, piece: Mapping[str, Any]) -> str:
        """Take a piece of a stream, and give the text in it."""
        self._think(piece, "delta")
        return super().add(piece)

    def finished(self) -> AssistantMessage:
        """Return the answer, if the stream came to its end."""
        return self._thought(super().finished())

    def _refusal(self, said: Mapping[str, Any]) -> Any:
        own = object_in(said.get("provider_specific_fields"), "what its provider adds")
        return said.get("refusal") or own.get("refusal")

    def _think(self, answer: Mapping[str, Any], where: str) -> None:
        for choice in list_in(answer.get("choices"), "its choices")[:1]:
            said = object_in(object_in(choice, "a choice").get(where), f"its {where}")
            for block in list_in(said.get(BLOCKS), "its thinking"):
                self._add_block(dict(object_in(block, "a block of its thinking")))

    def _add_block(self, block: dict[str, Any]) -> None:
        thought = text_in(block.get("thinking"), "a thought")
        last = self._thinking[-1] if self._thinking else {}
        if block.get("type") != last.get("type") or "thinking" not in last or last.get("signature"):
            self._thinking.append(block)
            return
        last["thinking"] += thought
        last["signature"] = block.get("signature") or ""

    def _thought(self, message: AssistantMessage) -> AssistantMessage:
        if not self._thinking:
            return message
        said = [{"type": "text", "text": message.content}] if message.content else []
        return dataclasses.replace(message, content=[*self._thinking, *said])


def with_thinking_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the thinking in a message where LiteLLM looks for it."""
    content: Any = message.get("content")
    if message.get("role") != "assistant" or not is_parts(content):
        return message
    thinking = [part for part in content if part["type"] in THINKING]
    return {**message, BLOCKS: thinking} if thinking else message
