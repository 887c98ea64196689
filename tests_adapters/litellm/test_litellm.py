import json
import sys
from contextlib import ExitStack

import pytest
from tests.agent.models.conftest import KEY, asked
from tests.agent.models.servers.anthropic_wire import AnthropicWire
from tests.agent.models.servers.openai_wire import OpenAIWire
from tests.agent.models.servers.replies import Call, Raw, Refuse, Say, call, calling
from tests.agent.models.servers.server import serving

from checkrail import Agent, tool
from checkrail.agent.models.litellm import LiteLLMModel
from checkrail.agent.models.model import Model, ModelError
from checkrail.engine.values import ModelRequest, ToolCall
from checkrail.extras import MissingExtraError
from checkrail.llm.conversation import assistant_message

QUESTION = {"role": "user", "content": "What is the weather?"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
THOUGHT = {"type": "thinking", "thinking": "Paris, I think.", "signature": "EqQBCgIYAg=="}
BUSY = Refuse(429, "slow down", {"retry-after": "0.005"})


@pytest.fixture
def openai_at():
    """Serve these replies as OpenAI does, and give the server."""
    with ExitStack() as stack:
        yield lambda *replies: stack.enter_context(serving(OpenAIWire(), replies))


@pytest.fixture
def anthropic_at():
    """Serve these replies as Anthropic does, and give the server."""
    with ExitStack() as stack:
        yield lambda *replies: stack.enter_context(serving(AnthropicWire(), replies))


def gpt(endpoint, **options):
    given = {"max_retries": 0} | options
    return LiteLLMModel("openai/grand-1", base_url=endpoint.base_url, api_key=KEY, **given)


def claude(endpoint, **options):
    given = {"max_retries": 0} | options
    name = "anthropic/claude-sonnet-5"
    return LiteLLMModel(name, base_url=endpoint.base_url, api_key=KEY, **given)


def request(*more, **fields):
    return ModelRequest(messages=[QUESTION, *more], **fields)


async def failure(model, way, asked_for=None):
    with pytest.raises(ModelError) as caught:
        await asked(model, way, asked_for or request())
    return caught.value


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("anthropic/claude-sonnet-5", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-5", "openrouter"),
        ("gpt-4o", "openai"),
        ("acme/grand-1", "acme"),
    ],
)
def test_the_provider_is_the_one_that_litellm_sees_in_the_name(name, provider):
    model = LiteLLMModel(name, temperature=0.5)
    assert isinstance(model, Model)
    assert (model.name, model.provider, model.params) == (name, provider, {"temperature": 0.5})


def test_the_provider_can_be_given():
    assert LiteLLMModel("openai/grand-1", provider="acme").provider == "acme"


def test_the_key_is_not_shown():
    assert repr(LiteLLMModel("gpt-4o", api_key=KEY)) == "LiteLLMModel('gpt-4o')"


def test_without_litellm_the_error_says_what_to_install(monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "litellm", None)
        with pytest.raises(MissingExtraError, match="pip install litellm"):
            LiteLLMModel("gpt-4o")


async def test_a_package_that_litellm_lacks_is_named(openai_at, way, monkeypatch):
    for name in [*sys.modules]:
        if name.startswith("litellm.responses.mcp"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    endpoint = openai_at("Hello")
    error = await failure(gpt(endpoint), way, request(tools=[TOOL]))
    assert "LiteLLM needs the package 'mcp'" in str(error)
    assert "pip install mcp" in str(error)
    assert endpoint.requests == []


async def test_a_request_is_sent_as_it_says(openai_at, way):
    endpoint = openai_at("Hello")
    params = {"temperature": 0.2, "response_format": {"type": "json_object"}}
    failed = {"role": "tool", "tool_call_id": "c1", "content": "no network", "is_error": True}
    made = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    called = {"role": "assistant", "content": "", "tool_calls": [made]}
    wanted = request(called, failed, model="openai/small-2", tools=[TOOL], params=params)
    answer = (await asked(gpt(endpoint), way, wanted)).message
    sent = endpoint.request
    assert answer.content == "Hello"
    assert (sent["model"], sent["tools"]) == ("small-2", [TOOL])
    assert {name: sent[name] for name in params} == params
    assert sent["messages"][1]["tool_calls"] == [made]
    assert sent["messages"][2] == {name: failed[name] for name in failed if name != "is_error"}
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_an_answer_has_its_usage_also_as_a_stream(openai_at, way):
    answer = (await asked(gpt(openai_at(Say("Sunny.", usage=(12, 7)))), way)).message
    assert (answer.content, answer.stop_reason) == ("Sunny.", "stop")
    assert (answer.usage["input_tokens"], answer.usage["output_tokens"]) == (12, 7)
    assert answer.usage["input_tokens_details"]["cached_tokens"] == 2


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("moon_phase", "stop"),  # LiteLLM takes what it does not know for a plain end
    ],
)
async def test_the_stop_reason_is_in_our_words(openai_at, way, theirs, ours):
    answer = (await asked(gpt(openai_at(Say("So lo", stop=theirs))), way)).message
    assert answer.stop_reason == ours


@pytest.mark.parametrize("written", ['{"city": "Par', "{city: Paris}"])
async def test_arguments_that_are_no_json_are_kept_as_they_were_written(openai_at, way, written):
    endpoint = openai_at(calling(Call("weather", written, id="c1")))
    answer = (await asked(gpt(endpoint), way, request(tools=[TOOL]))).message
    assert answer.tool_calls == [ToolCall("c1", "weather", {})]
    assert answer.metadata == {"unparsed_arguments": {"c1": written}}


@pytest.mark.parametrize("model", [gpt, claude])
@pytest.mark.parametrize("arguments", ['{"amount": 10', '{"amount": 10}'])
async def test_a_call_that_a_stream_cut_off_is_not_made_although_litellm_ends_it(
    openai_at, anthropic_at, model, arguments
):
    reply = Say(calls=(Call("pay", arguments, id="c1"),), ends="early")
    endpoint = (openai_at if model is gpt else anthropic_at)(reply)
    error = await failure(model(endpoint), "stream", request(tools=[TOOL]))
    assert error.kind == "invalid"
    assert "its stream ended before the answer did" in str(error)


@pytest.mark.parametrize(
    ("ends", "kind", "told"),
    [
        ("error", "unreachable", "reported an error: The engine fell over"),
        ("cut", "unreachable", "Response payload is not completed"),
    ],
)
async def test_a_stream_that_breaks_gives_its_text_and_then_the_error(openai_at, ends, kind, told):
    texts = []

    async def read(stream):
        async for piece in stream:
            texts.append(piece)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ModelError) as caught:
        await read(gpt(openai_at(Say("It is sunny.", ends=ends))).stream(request()))
    assert "".join(texts) == "It is sunny."
    assert caught.value.kind == kind
    assert told in str(caught.value)


async def test_an_error_in_place_of_an_answer_is_an_error(openai_at):
    body = json.dumps({"error": {"message": "there is no room", "code": 502}}).encode()
    error = await failure(gpt(openai_at(Raw(body))), "complete")
    assert (error.kind, error.status) == ("unreachable", 502)
    assert "there is no room" in str(error)


@pytest.mark.parametrize("model", [gpt, claude])
async def test_what_may_pass_is_tried_again_with_every_provider(
    openai_at, anthropic_at, model, way
):
    endpoint = (openai_at if model is gpt else anthropic_at)(BUSY, BUSY, "Hello", BUSY, BUSY)
    answer = await asked(model(endpoint, max_retries=2), way)
    assert answer.message.content == "Hello"
    assert len(endpoint.requests) == 3
    error = await failure(model(endpoint, max_retries=1), way)
    assert (error.kind, error.status) == ("unreachable", 429)
    assert len(endpoint.requests) == 5


async def test_what_was_wrong_before_is_not_taken_for_what_is_wrong_now(openai_at, way):
    endpoint = openai_at(Raw(b"<title>Welcome to nginx!</title>", "text/html"))
    try:
        raise OSError("the first provider is gone")
    except OSError:
        error = await failure(gpt(endpoint), way)
    assert error.kind == "invalid"
    assert "the first provider" not in str(error)


async def test_a_name_without_a_provider_is_told_as_litellm_tells_it(way):
    error = await failure(LiteLLMModel("grand-1"), way)
    assert (error.kind, error.status) == ("error", 400)
    assert "LLM Provider NOT provided" in str(error)


async def test_litellm_prints_nothing(openai_at, way, capsys):
    await failure(gpt(openai_at(Refuse(400, "no"))), way)
    assert capsys.readouterr() == ("", "")


async def test_thoughts_of_claude_are_kept_and_given_back(anthropic_at, way):
    thinking = Say("Let me look.", (call("weather", city="Paris"),), thinking=THOUGHT["thinking"])
    endpoint = anthropic_at(thinking, "It is sunny.")
    model = claude(endpoint)
    params = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    answer = await asked(model, way, request(tools=[TOOL], params=params))
    said = {"type": "text", "text": "Let me look."}
    assert answer.message.content == [THOUGHT, said]
    if way == "stream":
        assert "".join(answer.texts) == "Let me look."
    used = answer.message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": used.id, "content": "sunny"}
    again = request(assistant_message(answer.message), result, tools=[TOOL], params=params)
    await asked(model, way, again)
    use = {"type": "tool_use", "id": used.id, "name": "weather", "input": {"city": "Paris"}}
    assert endpoint.request["messages"][1] == {"role": "assistant", "content": [THOUGHT, said, use]}


async def test_thoughts_of_claude_are_not_sent_to_others(openai_at, way):
    endpoint = openai_at("It is sunny.")
    said = {"type": "text", "text": "Sunny."}
    thought = {"role": "assistant", "content": [THOUGHT, said]}
    await asked(gpt(endpoint), way, request(thought, QUESTION))
    assert endpoint.request["messages"][1] == {"role": "assistant", "content": [said]}


@pytest.mark.parametrize("model", [gpt, claude])
async def test_an_agent_runs_on_it(openai_at, anthropic_at, model):
    @tool
    def weather(city: str) -> str:
        """Look outside."""
        return f"sunny in {city}"

    replies = [Say("Let me look.", (call("weather", city="Paris"),)), "It is sunny."]
    endpoint = (openai_at if model is gpt else anthropic_at)(*replies)
    response = await Agent(model(endpoint), tools=[weather]).run("How is the weather in Paris?")
    assert (response.content, response.stop_reason) == ("It is sunny.", "answer")
    assert response.usage["total_tokens"] == 38
    assert "sunny in Paris" in json.dumps(endpoint.request["messages"][-1])
