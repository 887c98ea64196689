"""The messages API of Anthropic."""

from __future__ import annotations

from collections.abc import Iterable

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.json_bytes import write_json
from checkrail.llm.messages.request import read_request, write_request
from checkrail.llm.messages.response import build_answer, read_answer, write_answer
from checkrail.llm.messages.stream import MessagesStreamReader, write_stream
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Body, EventStreamFormat, Refusal, StreamReader

TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Messages(EventStreamFormat):
    """Messages: hooks see a conversation as the chat API has it, and the caller's own tools.

    Tools that run at Anthropic's, and thinking with its signature, are parts as they came.
    """

    name = "messages"
    path = "/v1/messages"
    aside: tuple[str, ...] = ("/v1/messages/count_tokens",)
    keep_alive = write_event(b'{"type": "ping"}', "ping")

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return read_request(body)

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        return write_request(body, before, after)

    def request_usage(self, body: Body) -> Body:
        """Return the body as it is: usage is always reported here."""
        return body

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
        return write_stream(build_answer(message, request))

    def open_stream(self, request: ModelRequest) -> StreamReader:  # noqa: ARG002 - other APIs need it
        """Return a reader of a streamed answer."""
        return MessagesStreamReader()

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        usual = "api_error" if refusal.status >= 500 else "invalid_request_error"
        told = {"type": TYPES.get(refusal.status, usual), "message": refusal.message}
        code = {"code": refusal.code} if refusal.code else {}
        return {"type": "error", "error": told | code}

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""
        return write_event(write_json(self.write_error(refusal)), "error")
