"""The Responses API of OpenAI."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.gateway.formats.base import Body, Reading, Refusal
from checkrail.gateway.formats.json_bytes import write_json
from checkrail.gateway.formats.openai_errors import openai_error
from checkrail.gateway.formats.responses_draft import items_in
from checkrail.gateway.formats.responses_events import EventWriter
from checkrail.gateway.formats.responses_input import InputWriter, messages_of
from checkrail.gateway.formats.responses_output import (
    Changing,
    ending,
    message_of,
    new_id,
    same,
    written_response,
    written_usage,
)
from checkrail.gateway.formats.responses_parts import shown_tool, written_tools
from checkrail.gateway.formats.responses_stream import ResponsesReading
from checkrail.gateway.formats.top_level import objects_in, opened, params_of, with_params
from checkrail.gateway.sse import event

APART = frozenset({"input", "instructions", "tools"})

DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What the API tells of a request with its answer, where the request does not say."""


class Responses:
    """The API at `/v1/responses`."""

    name = "responses"
    path = "/v1/responses"
    aside: tuple[str, ...] = ("/v1/responses/input_tokens", "/v1/responses/compact")
    keep_alive = b": keep-alive\n\n"

    def read(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        raw = opened(body)
        return ModelRequest(
            model=raw.get("model"),
            messages=messages_of(raw),
            tools=[shown_tool(tool) for tool in objects_in(raw, "tools")],
            params=params_of(raw, APART),
            stream=bool(raw.get("stream")),
            raw=raw,
        )

    def write(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        written = with_params(body, before, after)
        if after.tools != before.tools:
            written["tools"] = thaw(written_tools(after.tools, body.get("tools") or ()))
        if after.messages != before.messages:
            tools = written.get("tools") or ()
            for name, value in InputWriter(body, tools).write(after.messages).items():
                if value is not None:
                    written[name] = value
                else:
                    written.pop(name, None)
        return written

    def counting(self, body: Body) -> Body:
        """Ask for the usage of a stream: here it is always told."""
        return body

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""
        return message_of(body, [*items_in(body)])

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""
        if same(before, after):
            return body
        change = Changing([*items_in(body)], before, after, body.get("tools") or ())
        output = [item for item in change.output() if item is not None]
        return written_response(body, change, output)

    def answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that no model gave."""
        tools = written_tools(request.tools)
        asked = {**(request.raw or {}), **request.params, "tools": tools}
        given = {name: asked.get(name) for name in DEFAULTS if asked.get(name) is not None}
        output = Changing((), AssistantMessage(), message, tools).output()
        return {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": message.model or request.model or "",
            **ending(message),
            "output": [thaw(item) for item in output],
            "usage": written_usage(message.usage),
            **DEFAULTS,
            **thaw(given),
        }

    def stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that no model gave as a whole stream."""
        return _stream(self.answer(message, request))

    def reading(self, request: ModelRequest) -> Reading:
        """Begin to read a streamed answer."""
        return ResponsesReading(written_tools(request.tools))

    def error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        return openai_error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does.

        The API is documented to tell an error at the top of the event, and tells it one level
        deeper: clients look for it in either place.
        """
        error = openai_error(refusal)["error"]
        top = {"code": error["code"], "message": error["message"], "param": None}
        data = {"type": "error", "sequence_number": 0, **top, "error": error}
        return event(write_json(data), "error")


def _stream(response: Body) -> Iterator[bytes]:
    writer = EventWriter(0)
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    yield writer.write("response.created", response=begun)
    yield writer.write("response.in_progress", response=begun)
    for index, item in enumerate(response["output"]):
        yield from writer.item(index, item)
    yield writer.write(f"response.{response['status']}", response=response)
