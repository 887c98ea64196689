"""The chat completions API of OpenAI, which many others speak."""

from __future__ import annotations

from collections.abc import Iterable

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.formats.base import Body, Reading, Refusal
from checkrail.gateway.formats.chat_answers import new_answer, read_answer, write_answer
from checkrail.gateway.formats.chat_requests import read_request, write_request
from checkrail.gateway.formats.chat_stream import (
    ChatReading,
    asking_usage,
    asks_usage,
    written_stream,
)
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.formats.openai_errors import openai_error
from checkrail.gateway.sse import event


class Chat:
    """Chat completions.

    Hooks see all choices of an answer: where there are several, its content is parts that tell
    their `choice`. Calls of custom tools and calls of functions as they once were are tool calls.
    """

    name = "chat"
    path = "/v1/chat/completions"
    aside: tuple[str, ...] = ()
    keep_alive = b": keep-alive\n\n"

    def read(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return read_request(body)

    def write(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        return write_request(body, before, after)

    def counting(self, body: Body) -> Body:
        """Ask for the usage of a stream; the same body, if it does so already."""
        return asking_usage(body)

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""
        return read_answer(body)

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""
        return write_answer(body, before, after)

    def answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that no model gave."""
        return new_answer(message, request)

    def stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that no model gave as a whole stream."""
        return written_stream(new_answer(message, request), usage=asks_usage(request.params))

    def reading(self, request: ModelRequest) -> Reading:
        """Begin to read a streamed answer."""
        return ChatReading(request)

    def error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        return openai_error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""
        return event(write_json(openai_error(refusal)))
