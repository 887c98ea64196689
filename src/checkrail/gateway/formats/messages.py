"""The messages API of Anthropic."""

from __future__ import annotations

from collections.abc import Iterable

from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.formats.base import Body, Reading, Refusal
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.formats.messages_answers import new_answer, read_answer, write_answer
from checkrail.gateway.formats.messages_requests import read_request, write_request
from checkrail.gateway.formats.messages_stream import MessagesReading, written_stream
from checkrail.gateway.sse import event

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


class Messages:
    """Messages: hooks see a conversation as the chat API has it, and tools that are the caller's.

    Tools that run at Anthropic's, and thinking with its signature, are parts as they came.
    """

    name = "messages"
    path = "/v1/messages"
    aside: tuple[str, ...] = ("/v1/messages/count_tokens",)
    keep_alive = event(b'{"type": "ping"}', "ping")

    def read(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        return read_request(body)

    def write(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        return write_request(body, before, after)

    def counting(self, body: Body) -> Body:
        """Ask for the usage of a stream: here it is always told."""
        return body

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
        return written_stream(new_answer(message, request))

    def reading(self, request: ModelRequest) -> Reading:  # noqa: ARG002 - other APIs need it
        """Begin to read a streamed answer."""
        return MessagesReading()

    def error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        usual = "api_error" if refusal.status >= 500 else "invalid_request_error"
        told = {"type": TYPES.get(refusal.status, usual), "message": refusal.message}
        code = {"code": refusal.code} if refusal.code else {}
        return {"type": "error", "error": told | code}

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does."""
        return event(write_json(self.error(refusal)), "error")
