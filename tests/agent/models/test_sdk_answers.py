"""What both SDK models answer, whole and streamed: the same things for the same answers."""

import pytest

from checkrail.engine.values import ModelRequest, ToolCall

from .conftest import QUESTION, asked
from .servers.replies import Call, Refuse, Say, call, calling


async def test_a_text_comes_with_its_model_its_usage_and_its_stop_reason(ask, provider):
    answer = (await ask(Say("It is sunny.", usage=(12, 7)))).message
    assert answer.content == "It is sunny."
    assert answer.tool_calls == []
    assert answer.model.startswith("grand-1-")
    assert answer.stop_reason == "stop"
    assert answer.usage["input_tokens"] == 12
    assert answer.usage["output_tokens"] == 7
    assert answer.usage["total_tokens"] == 19
    assert answer.usage["input_tokens_details"]["cached_tokens"] == 2
    assert answer.metadata == {}


async def test_the_text_of_a_stream_comes_in_pieces_that_add_up(serve, model_at):
    said = "Grüße aus Köln, 東京 und 🚆!"
    answer = await asked(model_at(serve(said)), "stream")
    assert len(answer.texts) > 3
    assert "".join(answer.texts) == said == answer.message.content


async def test_a_tool_call_has_its_id_its_name_and_its_arguments(ask, provider):
    args = {"city": "Köln", "days": [1, 2], "deep": {"units": "metric"}}
    answer = await ask(calling(Call("weather", call("", **args).arguments, id="call_77")))
    assert answer.message.tool_calls == [ToolCall("call_77", "weather", args)]
    assert answer.message.content == ""
    assert answer.message.stop_reason == "tool_calls"


async def test_parallel_tool_calls_stay_apart_and_in_order(ask):
    wanted = calling(call("weather", city="Paris"), call("time"), call("weather", city="Rome"))
    calls = (await ask(wanted)).message.tool_calls
    assert [(one.name, one.args) for one in calls] == [
        ("weather", {"city": "Paris"}),
        ("time", {}),
        ("weather", {"city": "Rome"}),
    ]
    assert len({one.id for one in calls}) == 3


async def test_text_may_come_before_tool_calls(ask):
    answer = await ask(Say("Let me look.", (call("weather", city="Paris"),)))
    assert answer.message.content == "Let me look." == "".join(answer.texts)
    assert [one.name for one in answer.message.tool_calls] == ["weather"]


@pytest.mark.parametrize("written", ["[1, 2]", "7", '"Paris"', "null"])
async def test_arguments_that_are_no_object_are_kept_as_they_were_written(ask, written):
    answer = (await ask(calling(Call("weather", written, id="call_1")))).message
    assert answer.tool_calls == [ToolCall("call_1", "weather", {})]
    assert answer.metadata["unparsed_arguments"] == {"call_1": written}


@pytest.mark.parametrize("written", ['{"city": "Par', "{city: Paris}", "[" * 5000])
async def test_arguments_that_are_no_json_are_kept_as_they_were_written(ask, written):
    wanted = calling(call("time"), Call("weather", written, id="call_1"))
    answer = (await ask(wanted)).message
    assert answer.tool_calls[1] == ToolCall("call_1", "weather", {})
    assert answer.metadata["unparsed_arguments"] == {"call_1": written}


async def test_no_arguments_at_all_are_an_empty_object(ask):
    answer = (await ask(calling(Call("time", "")))).message
    assert answer.tool_calls[0].args == {}
    assert answer.metadata == {}


async def test_an_answer_may_be_empty(ask, provider):
    answer = await ask(Say(""))
    assert answer.message.content == ""
    assert answer.message.stop_reason == "stop"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("stop_sequence", "stop"),
        ("content_filter", "content_filter"),
        ("pause_turn", "pause"),
        ("moon_phase", "moon_phase"),
    ],
)
async def test_the_stop_reason_is_in_our_words(ask, theirs, ours):
    assert (await ask(Say("So lo", stop=theirs))).message.stop_reason == ours


async def test_the_request_decides_what_is_asked_for(serve, model_at, way):
    endpoint = serve("Hello")
    model = model_at(endpoint, temperature=0.9)
    params = {"temperature": 0.2, "max_tokens": 55, "mirostat": {"tau": 5}}
    request = ModelRequest("small-2", messages=[{"role": "user", "content": "Hi"}], params=params)
    answer = await asked(model, way, request)
    assert answer.message.model.startswith("small-2-")
    assert endpoint.request["model"] == "small-2"
    assert endpoint.request["max_tokens"] == 55
    assert endpoint.request["temperature"] == 0.2
    assert endpoint.request["mirostat"] == {"tau": 5}


async def test_what_the_request_has_of_its_own_is_no_param(serve, model_at, way):
    endpoint = serve("Hello")
    params = {"stream": way == "complete", "model": "other", "messages": []}
    await asked(model_at(endpoint), way, ModelRequest(messages=QUESTION.messages, params=params))
    assert endpoint.request["stream"] is (way == "stream")
    assert endpoint.request["model"] == "grand-1"
    assert len(endpoint.request["messages"]) == 1


async def test_the_params_of_a_model_are_there_for_requests_to_take(provider):
    model = provider.model("grand-1", api_key="k", temperature=0.5, stop=["END"])
    assert (model.name, model.provider) == ("grand-1", provider.name)
    assert model.params["temperature"] == 0.5
    assert model.params["stop"] == ["END"]
    with pytest.raises(TypeError, match="frozen"):
        model.params["temperature"] = 1


async def test_what_goes_into_the_body_can_be_said_the_sdks_way_too(serve, model_at, way):
    endpoint = serve("Hello")
    params = {"extra_body": {"top_k": 3}, "min_p": 0.1, "extra_headers": {"x-team": "rail"}}
    request = ModelRequest(messages=[{"role": "user", "content": "Hi"}], params=params)
    await asked(model_at(endpoint), way, request)
    assert (endpoint.request["top_k"], endpoint.request["min_p"]) == (3, 0.1)
    assert endpoint.requests[0].headers["x-team"] == "rail"


async def test_a_provider_that_is_busy_is_asked_again_as_it_says(serve, model_at, way):
    busy = Refuse(429, "slow down", {"retry-after": "1", "retry-after-ms": "5"})
    endpoint = serve(busy, Refuse(500, "oops", {"retry-after-ms": "5"}), "Hello")
    answer = await asked(model_at(endpoint, max_retries=2), way)
    assert answer.message.content == "Hello"
    assert len(endpoint.requests) == 3


async def test_a_client_of_the_users_is_used_and_stays_open(serve, provider, way):
    import anthropic
    import openai

    made = {"openai": openai.AsyncOpenAI, "anthropic": anthropic.AsyncAnthropic}[provider.name]
    endpoint = serve("Hello", "Hello again")
    async with made(base_url=endpoint.base_url, api_key="key-of-the-users") as client:
        model = provider.model("grand-1", client=client)
        assert (await asked(model, way)).message.content == "Hello"
        await model.aclose()
        assert (await asked(model, way)).message.content == "Hello again"
    assert "key-of-the-users" in str(endpoint.requests[0].headers)
