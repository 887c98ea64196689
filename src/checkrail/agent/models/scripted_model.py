"""A model that answers from a script: for tests, examples, and work without a network."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from checkrail.agent.models.model import ModelError
from checkrail.engine.frozen import FrozenDict
from checkrail.engine.values import AssistantMessage, ModelRequest, ToolCall
from checkrail.llm.conversation import find_problems, text_of

Reply = str | AssistantMessage | ToolCall | BaseException
Replies = str | Iterable[Reply] | Callable[[ModelRequest], Reply | Awaitable[Reply]]

TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")


class ScriptedModel:
    """Returns one reply after the other, or what a function makes of the request.

    A reply is a text, an `AssistantMessage`, a `ToolCall` that it is to make, or an exception,
    which is raised. `requests` are those that it was sent. It streams token by token and counts
    tokens: a word or a punctuation mark is one.
    """

    provider = "scripted"
    params: Mapping[str, Any] = FrozenDict({})

    def __init__(self, replies: Replies, *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._reply = replies if callable(replies) else None
        script = [replies] if isinstance(replies, str) else replies
        self._script: list[Reply] = [] if callable(script) else [*script]

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the next reply."""
        self.requests.append(request)
        reply = await self._next_reply(request)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, ToolCall):
            reply = AssistantMessage(tool_calls=[reply], stop_reason="tool_calls")
        if isinstance(reply, str):
            reply = AssistantMessage(reply, stop_reason="stop")
        return self._count_tokens(request, reply)  # type: ignore[no-any-return]

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | AssistantMessage]:
        """Yield the next reply token by token, then whole."""
        message = await self.complete(request)
        for token in split_tokens(text_of(message.content)):
            await asyncio.sleep(0)
            yield token
        yield message

    async def _next_reply(self, request: ModelRequest) -> Reply:
        if self._reply is not None:
            reply = self._reply(request)
            return await reply if inspect.isawaitable(reply) else reply
        asked = len(self.requests)
        if asked > len(self._script):
            have = len(self._script)
            told = f"the script has {have} replies, but the model was asked {asked} times"
            raise ModelError(f"{told}: add a reply")
        return self._script[asked - 1]

    def _count_tokens(self, request: ModelRequest, message: Any) -> Any:
        """Fill in the model and the usage of an answer; anything else is returned as it is."""
        if (
            not isinstance(message, AssistantMessage)
            or next(find_problems(message), None) is not None
        ):
            return message
        message = replace(message, model=message.model or self.name)
        if message.usage is not None:
            return message
        read = sum(len(split_tokens(text_of(said.get("content")))) for said in request.messages)
        wrote = len(split_tokens(text_of(message.content))) + sum(
            1 + len(split_tokens(str(dict(call.args)))) for call in message.tool_calls
        )
        usage = {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}
        return replace(message, usage=usage)


def split_tokens(text: str) -> list[str]:
    """Split a text into tokens; joined they are the text again."""
    return TOKEN.findall(text)
