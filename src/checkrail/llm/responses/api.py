"""The Responses API of OpenAI."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkrail.engine.frozen import thaw
from checkrail.engine.values import AssistantMessage, ModelRequest
from checkrail.llm.json_bytes import write_json
from checkrail.llm.openai_errors import write_openai_error
from checkrail.llm.request_fields import (
    find_objects,
    freeze_request,
    read_params,
    write_params,
)
from checkrail.llm.responses.events import EventWriter
from checkrail.llm.responses.parts import show_tool, write_tools
from checkrail.llm.responses.request import InputWriter, read_messages
from checkrail.llm.responses.response import (
    OutputChange,
    end_fields,
    is_same_answer,
    new_id,
    read_message,
    write_response,
    write_usage,
)
from checkrail.llm.responses.stream import ResponsesStreamReader
from checkrail.llm.responses.stream_draft import iter_items
from checkrail.llm.sse import write_event
from checkrail.llm.wire_format import Body, EventStreamFormat, Refusal, StreamReader

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


FINAL_CODE = "invalid_prompt"
"""The code of a failed response on which clients do not call again."""

TOO_MANY = 429


class Responses(EventStreamFormat):
    """The API at `/v1/responses`."""

    name = "responses"
    path = "/v1/responses"
    aside: tuple[str, ...] = ("/v1/responses/input_tokens", "/v1/responses/compact")
    keep_alive = b": keep-alive\n\n"

    def read_request(self, body: Body) -> ModelRequest:
        """Read a request; `raw` is the body. Raises `UnreadableError`."""
        raw = freeze_request(body)
        return ModelRequest(
            model=raw.get("model"),
            messages=read_messages(raw),
            tools=[show_tool(tool) for tool in find_objects(raw, "tools")],
            params=read_params(raw, APART),
            stream=bool(raw.get("stream")),
            raw=raw,
        )

    def write_request(self, body: Body, before: ModelRequest, after: ModelRequest) -> Body:
        """Write a request that hooks changed; what they left alone stays as it came."""
        written = write_params(body, before, after)
        if after.tools != before.tools:
            written["tools"] = thaw(write_tools(after.tools, body.get("tools") or ()))
        if after.messages != before.messages:
            tools = written.get("tools") or ()
            for name, value in InputWriter(body, tools).write(after.messages).items():
                if value is not None:
                    written[name] = value
                else:
                    written.pop(name, None)
        return written

    def request_usage(self, body: Body) -> Body:
        """Return the body as it is: usage is always reported here."""
        return body

    def read_answer(self, body: Body) -> AssistantMessage:
        """Read an answer that came at once. Raises `UnreadableError`."""
        return read_message(body, [*iter_items(body)])

    def write_answer(self, body: Body, before: AssistantMessage, after: AssistantMessage) -> Body:
        """Write an answer that hooks changed; what they left alone stays as it came."""
        if is_same_answer(before, after):
            return body
        change = OutputChange([*iter_items(body)], before, after, body.get("tools") or ())
        output = [item for item in change.write_items() if item is not None]
        return write_response(body, change, output)

    def build_answer(self, message: AssistantMessage, request: ModelRequest) -> Body:
        """Write an answer that came from no model."""
        tools = write_tools(request.tools)
        asked = {**(request.raw or {}), **request.params, "tools": tools}
        given = {name: asked.get(name) for name in DEFAULTS if asked.get(name) is not None}
        output = OutputChange((), AssistantMessage(), message, tools).write_items()
        return {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": message.model or request.model or "",
            **end_fields(message),
            "output": [thaw(item) for item in output],
            "usage": write_usage(message.usage),
            **DEFAULTS,
            **thaw(given),
        }

    def build_stream(self, message: AssistantMessage, request: ModelRequest) -> Iterable[bytes]:
        """Write an answer that came from no model as a whole stream."""
        return _write_stream(self.build_answer(message, request))

    def open_stream(self, request: ModelRequest) -> StreamReader:
        """Return a reader of a streamed answer."""
        return ResponsesStreamReader(write_tools(request.tools))

    def write_error(self, refusal: Refusal) -> Body:
        """Write an error as this API does."""
        return write_openai_error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        """Write an error that ends a stream as this API does.

        The API is documented to tell an error at the top of the event, and tells it one level
        deeper: clients look for it in either place. Codex looks for a response that failed, and
        calls again unless that is for a reason which it takes as final.
        """
        error = write_openai_error(refusal)["error"]
        top = {"code": error["code"], "message": error["message"], "param": None}
        data = {"type": "error", "sequence_number": 0, **top, "error": error}
        told = write_event(write_json(data), "error")
        if refusal.status >= 500 or refusal.status == TOO_MANY:
            return told
        reason = {"code": FINAL_CODE, "message": refusal.message}
        response = {"object": "response", "status": "failed", "error": reason, "output": []}
        failed = {"type": "response.failed", "sequence_number": 1, "response": response}
        return told + write_event(write_json(failed), "response.failed")


def _write_stream(response: Body) -> Iterator[bytes]:
    writer = EventWriter(0)
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    yield writer.write("response.created", response=begun)
    yield writer.write("response.in_progress", response=begun)
    for index, item in enumerate(response["output"]):
        yield from writer.write_item(index, item)
    yield writer.write(f"response.{response['status']}", response=response)
