"""What is Anthropic's own: how its messages API is asked, and what it answers."""

import json

import pytest

from checkrail import Agent
from checkrail.agent.models.model import ModelError
from checkrail.engine.values import ModelRequest, ToolResult
from checkrail.llm.conversation import assistant_message, text_of, tool_message

from .conftest import ANTHROPIC, QUESTION, asked
from .servers.replies import Raw, Say, call, sent_events

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
THOUGHT = {"type": "thinking", "thinking": "Paris, then.", "signature": "EqQBCgIYAg=="}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITATION = {"type": "char_location", "cited_text": "sun", "document_index": 0}


@pytest.fixture
def provider():
    return ANTHROPIC


@pytest.fixture
def sent(serve, model_at):
    """Ask with these params, and give what was sent."""

    async def send(way="complete", tools=(), **params):
        endpoint = serve("Hello")
        request = ModelRequest(messages=QUESTION.messages, tools=tools, params=params)
        await asked(model_at(endpoint), way, request)
        return endpoint.request

    return send


def events(*found) -> Raw:
    return sent_events("".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in found))


def block(index, opened, *deltas):
    start = {"type": "content_block_start", "index": index, "content_block": opened}
    return [start, *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)]


START = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {}}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}


async def test_a_request_has_its_system_prompt_its_turns_and_a_limit(serve, model_at, way):
    endpoint = serve("Hello")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
    ]
    await asked(model_at(endpoint, max_tokens=99), way, ModelRequest(messages=messages))
    assert endpoint.request["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Be kind."},
    ]
    hi = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    assert endpoint.request["messages"] == [hi]
    assert endpoint.request["max_tokens"] == 99
    assert endpoint.request.get("stream", False) is (way == "stream")


def test_the_limit_is_a_param_like_others():
    assert ANTHROPIC.model("grand-1").params == {"max_tokens": 4096}


async def test_a_large_limit_needs_no_stream(sent):
    assert (await sent(max_tokens=64_000))["max_tokens"] == 64_000


async def test_tools_are_written_as_anthropic_has_them(sent):
    strict = {"type": "function", "function": {"name": "time", "strict": True}}
    own = {"type": "web_search_20250305", "name": "web_search"}
    assert (await sent(tools=[WEATHER, strict, own]))["tools"] == [
        {
            "name": "weather",
            "description": "Tells the weather",
            "input_schema": WEATHER["function"]["parameters"],
        },
        {"name": "time", "strict": True, "input_schema": {"type": "object"}},
        own,
    ]


@pytest.mark.parametrize(
    ("params", "choice"),
    [
        ({}, None),
        ({"tool_choice": None}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "any"}}, {"type": "any"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
            {"type": "tool", "name": "weather"},
        ),
        ({"parallel_tool_calls": True}, None),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"parallel_tool_calls": False, "tool_choice": "required"},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"type": "none"}),
    ],
)
async def test_the_choice_of_tools_is_written_as_anthropic_has_it(sent, params, choice):
    found = await sent(tools=[WEATHER], **params)
    assert found.get("tool_choice") == choice
    assert "parallel_tool_calls" not in found


async def test_without_tools_nothing_is_said_about_them(sent):
    found = await sent(tool_choice="auto", parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & {*found}


def wants(schema):
    return {"type": "json_schema", "json_schema": {"name": "out", "schema": schema}}


async def test_structured_output_is_asked_for_as_anthropic_has_it(sent, way):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    found = await sent(way, response_format=wants(schema), output_config={"effort": "low"})
    assert "response_format" not in found
    assert found["output_config"]["effort"] == "low"
    wanted = found["output_config"]["format"]
    assert wanted["type"] == "json_schema"
    assert wanted["schema"]["additionalProperties"] is False
    assert "minimum: 1" in wanted["schema"]["properties"]["n"]["description"]


@pytest.mark.parametrize(
    "schema", [{"type": ["object", "null"]}, {}, {"type": "object", "properties": 7}]
)
async def test_a_schema_that_the_sdk_does_not_know_goes_as_it_is(sent, schema):
    found = await sent(response_format=wants(schema))
    assert found["output_config"]["format"]["schema"] == schema


async def test_plain_text_is_nothing_to_ask_for(sent):
    assert not {"response_format", "output_config"} & {
        *await sent(response_format={"type": "text"})
    }


async def test_a_format_that_anthropic_does_not_have_is_refused(sent):
    with pytest.raises(ModelError, match="no response_format 'json_object': ask for a json_schema"):
        await sent(response_format={"type": "json_object"})


@pytest.mark.parametrize("stop", ["END", ["END"]])
async def test_stop_is_a_list_of_stop_sequences(sent, stop):
    found = await sent(stop=stop)
    assert found["stop_sequences"] == ["END"]
    assert "stop" not in found


async def test_thinking_is_kept_and_given_back_with_the_tools_result(serve, model_at, way):
    thinks = Say("Let me look.", (call("weather", city="Paris"),), thinking="Paris, then.")
    endpoint = serve(thinks, "Sunny.")
    model = model_at(endpoint)
    first = await asked(model, way)
    assert first.message.content == [THOUGHT, {"type": "text", "text": "Let me look."}]
    if way == "stream":
        assert "".join(first.texts) == "Let me look." == text_of(first.message.content)
    result = tool_message(ToolResult(first.message.tool_calls[0].id, "weather", "sun"))
    history = [*QUESTION.messages, assistant_message(first.message), result]
    await asked(model, way, ModelRequest(messages=history))
    _, said, given = endpoint.request["messages"]
    assert [part["type"] for part in said["content"]] == ["thinking", "text", "tool_use"]
    assert said["content"][0] == THOUGHT
    assert given["content"][0]["tool_use_id"] == said["content"][2]["id"]


async def test_redacted_thinking_and_searches_stay_in_the_content(serve, model_at):
    hidden = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    text = {"type": "text", "text": "Sunny.", "citations": None}
    whole = {"model": "m", "content": [hidden, SEARCH, FOUND, text], "stop_reason": "end_turn"}
    asks = {"type": "input_json_delta", "partial_json": '{"query": "sun"}'}
    streamed = events(
        START, *block(0, hidden), *block(1, SEARCH, asks), *block(2, FOUND), *block(3, text), END
    )
    model = model_at(serve(Raw(json.dumps(whole).encode()), streamed))
    for way, query in (("complete", {}), ("stream", {"query": "sun"})):
        content = (await asked(model, way)).message.content
        asked_for = SEARCH | {"input": query}
        assert content == [hidden, asked_for, FOUND, {"type": "text", "text": "Sunny."}]


async def test_citations_stay_with_their_text(serve, model_at):
    says = {"type": "text_delta", "text": "Sunny."}
    cites = {"type": "citations_delta", "citation": CITATION}
    opened = block(0, {"type": "text", "text": ""}, says, cites, cites, {"type": "new_delta"})
    answer = await asked(model_at(serve(events(START, *opened, END))), "stream")
    assert answer.texts == ["Sunny."]
    cited = {"type": "text", "text": "Sunny.", "citations": [CITATION, CITATION]}
    assert answer.message.content == [cited]


async def test_texts_without_more_are_one_text(serve, model_at):
    texts = [*block(0, {"type": "text", "text": "Sun"}), *block(1, {"type": "text", "text": "ny."})]
    answer = await asked(model_at(serve(events(START, *texts, END))), "stream")
    assert answer.texts == ["Sun", "ny."]
    assert answer.message.content == "Sunny."


async def test_why_it_refused_is_told_beside_the_answer(serve, model_at):
    details = {"type": "refusal", "category": "cyber", "explanation": "It may not."}
    ended = {"stop_reason": "refusal", "stop_details": details}
    whole = {"model": "m", "content": [], **ended}
    model = model_at(serve(Raw(json.dumps(whole).encode()), events(START, END | {"delta": ended})))
    for way in ("complete", "stream"):
        answer = (await asked(model, way)).message
        assert answer.stop_reason == "refusal"
        assert answer.metadata == {"stop_details": details}


async def test_all_that_was_sent_is_input_and_the_cache_is_a_detail(serve, model_at):
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
        "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
        "service_tier": "standard",
    }
    whole = {"model": "m", "content": [], "stop_reason": "end_turn", "usage": usage}
    start = {"type": "message_start", "message": {"model": "m", "usage": usage}}
    final = {"output_tokens": 50, "input_tokens": None, "output_tokens_details": None}
    model = model_at(serve(Raw(json.dumps(whole).encode()), events(start, END | {"usage": final})))
    for way, answered in (("complete", 5), ("stream", 50)):
        assert (await asked(model, way)).message.usage == {
            "input_tokens": 1110,
            "output_tokens": answered,
            "total_tokens": 1110 + answered,
            "input_tokens_details": {"cached_tokens": 100, "cache_creation_tokens": 1000},
            "output_tokens_details": {"reasoning_tokens": 3},
            "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
        }


async def test_a_stream_is_over_when_it_says_so(serve, model_at):
    text = block(0, {"type": "text", "text": "Hi"})
    endpoint = serve(events(START, *text, {"type": "message_stop"}), events(START, *text, END))
    model = model_at(endpoint)
    for stop in (None, "stop"):
        answer = (await asked(model, "stream")).message
        assert (answer.content, answer.stop_reason) == ("Hi", stop)
        assert answer.usage is None


TEXT = {"type": "text", "text": "Hi"}
NAMELESS = {"type": "tool_use", "id": "t1", "input": {}}


@pytest.mark.parametrize(
    "broken",
    [
        [START, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}],
        [START, *block(0, 7)],
        [START, *block(0, {"type": 7})],
        [START, *block(0, TEXT, {"type": "text_delta", "text": 7})],
        [START, *block(0, TEXT, 7)],
        [START, *block(0, NAMELESS), END],
        [START, *block(0, SEARCH, {"type": "input_json_delta", "partial_json": "{"}), END],
        [START, END | {"delta": 7}],
        [START, END | {"delta": {"stop_reason": 7}}],
    ],
)
async def test_a_stream_of_the_wrong_shape_is_no_answer(serve, model_at, broken):
    with pytest.raises(ModelError, match="gave no valid answer") as raised:
        await asked(model_at(serve(events(*broken))), "stream")
    assert raised.value.kind == "invalid"


async def test_a_paused_turn_goes_on_with_what_was_said(serve, model_at, way):
    """Through the official SDK, and the loop: the paused answer is sent back as it came."""
    said = {"type": "text", "text": "Let me look. "}
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {}}
    if way == "stream":
        pieces = {"type": "input_json_delta", "partial_json": '{"query": "rails"}'}
        opened = [
            *block(0, {**said, "text": ""}, {"type": "text_delta", "text": said["text"]}),
            {"type": "content_block_stop", "index": 0},
            *block(1, SEARCH, pieces),
            {"type": "content_block_stop", "index": 1},
        ]
        paused = {**END, "delta": {"stop_reason": "pause_turn"}}
        first = events(START, *opened, paused, {"type": "message_stop"})
    else:
        search = {**SEARCH, "input": {"query": "rails"}}
        whole |= {"content": [said, search], "stop_reason": "pause_turn"}
        first = Raw(json.dumps(whole).encode())
    endpoint = serve(first, "Found.")
    agent = Agent(model_at(endpoint))
    if way == "stream":
        *_, finished = [event async for event in agent.stream("Look")]
        response = finished.response
    else:
        response = await agent.run("Look")
    assert (response.content, response.stop_reason) == ("Found.", "answer")
    (asked_again,) = endpoint.request["messages"][1:]
    assert asked_again["role"] == "assistant"
    assert [part["type"] for part in asked_again["content"]] == ["text", "server_tool_use"]
    assert asked_again["content"][1]["input"] == {"query": "rails"}
