"""The chat completions API of OpenAI, which many others speak."""

from __future__ import annotations

from collections.abc import Iterable

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.chat.request import read_request, write_request
from checkrail.llm.chat.response import build_answer, read_answer, write_answer
from checkrail.llm.chat.stream import (
    ChatStreamReader,
    request_usage,
    requests_usage,
    write_stream,
)
from checkrail.llm.json_bytes import write_json
from checkrail.llm.openai_errors import write_openai_error
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Body, EventStreamFormat, Refusal, StreamReader


class Chat(EventStreamFormat):
    """Chat completions.

    Hooks see all choices of an answer: where there are several, its content is parts that tell
    their `choice`. Calls of custom tools and calls of functions as they once were are tool calls.
    """

    name = "chat"
    path = "/v1/chat/completions"
    aside: tuple[str, ...] = ()
    keep_alive = b": keep-alive\n\n"

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return read_request(body)

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        return write_request(body, before, after)

    def request_usage(self, body: Body) -> Body:
        """Request the usage of a stream; return the same body, if it does so already."""
        return request_usage(body)

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""
        return read_answer(body)

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""
        return write_answer(body, before, after)

    def build_answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that came from no model."""
        return build_answer(message, request)

    def build_stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that came from no model as a whole stream."""
        return write_stream(build_answer(message, request), usage=requests_usage(request.params))

    def open_stream(self, request: ModelRequest) -> StreamReader:
        """Return a reader of a streamed answer."""
        return ChatStreamReader(request)

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        return write_openai_error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""
        return write_event(write_json(write_openai_error(refusal)))
