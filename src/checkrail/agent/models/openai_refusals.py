"""Refusals in streams of OpenAI's SDK, for frameworks that drop them."""

from __future__ import annotations

from typing import Any, Self

REFUSAL = "refusal"


class RefusalsAsText:
    """A stream of chat completion chunks in which a refusal is text, and the finish reason says so.

    LangChain and LiteLLM read the content of a chunk and drop its `refusal`.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self.stream)
        for choice in getattr(chunk, "choices", None) or ():
            self._rewrite_choice(choice)
        return chunk

    async def __aenter__(self) -> Self:
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self.stream.__aexit__(*error)

    def _rewrite_choice(self, choice: Any) -> None:
        delta = getattr(choice, "delta", None)
        refusal = getattr(delta, REFUSAL, None)
        if delta is not None and refusal and isinstance(refusal, str):
            self.refused = True
            delta.content = (delta.content or "") + refusal
            delta.refusal = None
        if self.refused and getattr(choice, "finish_reason", None):
            choice.finish_reason = REFUSAL


class CompletionsWithRefusals:
    """The chat completions of a client of OpenAI's SDK, with refusals as text in its streams."""

    def __init__(self, completions: Any) -> None:
        self._completions = completions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)

    async def create(self, **arguments: Any) -> Any:
        """Request an answer, as the SDK does."""
        answer = await self._completions.create(**arguments)
        return RefusalsAsText(answer) if arguments.get("stream") else answer
