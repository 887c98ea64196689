"""What is written for the Responses API, read by the SDK of those who made it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from checkrail.engine.values import AssistantMessage, ToolCall
from checkrail.llm.responses.api import Responses
from checkrail.llm.wire_format import Refusal

from ..provider import Provider, Raw  # noqa: TID252 - the provider of other tests
from .responses_wire import (
    SEARCH,
    answer,
    call_item,
    custom_item,
    pieces_of,
    stream,
    text_item,
    thought_item,
)

API = Responses()
ASKED = API.read_request(
    {
        "model": "m",
        "input": "Hi",
        "tools": [{"type": "function", "name": "transfer", "parameters": {}, "strict": False}],
    }
)
GIVEN = AssistantMessage("Hello", [ToolCall("call_1", "transfer", {"amount": 5})])
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


@contextmanager
def client_of(provider: Provider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="sk-1", max_retries=0) as client:
        yield client


@pytest.fixture
def served() -> Iterator[Callable[..., openai.OpenAI]]:
    with ExitStack() as stack:

        def serve(data: bytes, status: int = 200) -> openai.OpenAI:
            headers = JSON if data.startswith(b"{") else STREAM
            provider = stack.enter_context(Provider(Raw([data], status, headers)))
            return stack.enter_context(client_of(provider))

        yield serve


def asked(client: openai.OpenAI) -> Any:
    return client.responses.create(model="m", input="Hi")


def final(client: openai.OpenAI) -> Any:
    with client.responses.stream(model="m", input="Hi") as events:
        return events.get_final_response()


def events_of(client: openai.OpenAI) -> list[Any]:
    return [*client.responses.create(model="m", input="Hi", stream=True)]


def body(written: dict[str, Any]) -> bytes:
    return json.dumps(written).encode()


def test_an_answer_that_no_model_gave_is_read(served):
    written = API.build_answer(GIVEN, ASKED)
    Response.model_validate(written)
    response = asked(served(body(written)))
    assert response.output_text == "Hello"
    call = response.output[1]
    assert (call.type, call.name, call.arguments) == ("function_call", "transfer", '{"amount":5}')
    assert response.usage.total_tokens == 0


def test_a_stream_that_no_model_gave_is_read(served):
    data = b"".join(API.build_stream(GIVEN, ASKED))
    for piece in pieces_of(data):
        EVENT.validate_json(piece.data)
    found = events_of(served(data))
    assert found[0].type == "response.created"
    assert (
        "".join(one.delta for one in found if one.type == "response.output_text.delta") == "Hello"
    )
    assert found[-1].response.output[1].arguments == '{"amount":5}'
    response = final(served(data))
    assert response.output_text == "Hello"
    assert [item.type for item in response.output] == ["message", "function_call"]


async def test_a_stream_is_read_by_the_async_client():
    data = b"".join(API.build_stream(GIVEN, ASKED))
    with Provider(Raw([data], 200, STREAM)) as provider:
        url = f"{provider.url}/v1"
        async with (
            openai.AsyncOpenAI(base_url=url, api_key="sk-1", max_retries=0) as client,
            client.responses.stream(model="m", input="Hi") as events,
        ):
            response = await events.get_final_response()
    assert response.output_text == "Hello"


def test_a_changed_answer_is_read(served):
    came = answer(thought_item("Hm"), SEARCH, text_item(), call_item(), custom_item())
    before = API.read_answer(came)
    content = [*before.content, {"type": "text", "text": "No."}]
    written = API.write_answer(came, before, replace(before, content=content, tool_calls=[]))
    Response.model_validate(written)
    response = asked(served(body(written)))
    assert response.output_text == "HelloNo."
    assert [item.type for item in response.output] == [
        "reasoning",
        "web_search_call",
        "message",
        "message",
    ]


def test_a_stream_whose_call_was_blocked_is_read(served):
    reading = API.open_stream(ASKED)
    sent = b""
    kept_back = False
    for piece in pieces_of(stream(thought_item("Hm"), text_item(), call_item(), custom_item())):
        kept_back = reading.read_piece(piece) in ("tool", "end") or kept_back
        if not kept_back:
            reading.mark_sent()
            sent += piece.raw
    before = reading.message
    content = [*before.content, {"type": "text", "text": "No."}]
    after = replace(before, content=content, tool_calls=before.tool_calls[1:])
    data = sent + API.keep_alive * 2 + b"".join(reading.write_rest(after))
    for piece in pieces_of(data):
        if piece.data:
            EVENT.validate_json(piece.data)
    found = events_of(served(data))
    assert [one.sequence_number for one in found] == [*range(len(found))]
    response = final(served(data))
    assert response.output_text == "HelloNo."
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "message",
        "custom_tool_call",
    ]


def test_a_changed_text_is_read_in_every_way_that_the_sdk_has(served):
    reading = API.open_stream(ASKED)
    for piece in pieces_of(stream(text_item("The key is sk-1"))):
        reading.read_piece(piece)
    data = b"".join(reading.write_rest(replace(reading.message, content="The key is ***")))
    found = events_of(served(data))
    assert (
        "".join(one.delta for one in found if one.type.endswith("text.delta")) == "The key is ***"
    )
    assert final(served(data)).output_text == "The key is ***"


def test_a_refusal_before_the_answer_is_an_error_of_its_status(served):
    client = served(body(API.write_error(Refusal(403, "Not today", "not_today"))), 403)
    with pytest.raises(openai.PermissionDeniedError, match="Not today") as caught:
        asked(client)
    assert caught.value.code == "not_today"


@pytest.mark.parametrize("read", [events_of, final])
def test_a_refusal_within_a_stream_is_an_error(served, read):
    begun = b"".join(piece.raw for piece in pieces_of(stream(text_item()))[:6])
    client = served(begun + API.error_event(Refusal(403, "Not today", "not_today")))
    with pytest.raises(openai.APIError, match="Not today") as caught:
        read(client)
    assert caught.value.code == "not_today"
