"""LangChain's own integration of OpenAI, held to what the tests of the SDK models ask of those."""

import pytest
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient

from checkrail import Agent, tool
from checkrail.agent.models.langchain import LangChainModel
from checkrail.agent.models.model import ModelError
from checkrail.engine.values import ModelRequest

from .conftest import KEY, Provider, asked
from .servers.openai_wire import OpenAIWire
from .servers.replies import Refuse, Say, call, calling
from .servers.server import PATIENCE
from .test_openai import (  # noqa: F401 - the same has to hold here
    test_a_refusal_is_the_text_and_the_stop_reason,
    test_a_refusal_that_breaks_off_is_no_answer,
)
from .test_sdk_answers import (  # noqa: F401 - the same has to hold here
    test_a_provider_that_is_busy_is_asked_again_as_it_says,
    test_a_text_comes_with_its_model_its_usage_and_its_stop_reason,
    test_a_tool_call_has_its_id_its_name_and_its_arguments,
    test_an_answer_may_be_empty,
    test_arguments_that_are_no_json_are_kept_as_they_were_written,
    test_no_arguments_at_all_are_an_empty_object,
    test_parallel_tool_calls_stay_apart_and_in_order,
    test_text_may_come_before_tool_calls,
    test_the_stop_reason_is_in_our_words,
    test_the_text_of_a_stream_comes_in_pieces_that_add_up,
)
from .test_sdk_clients import (  # noqa: F401
    test_a_closed_model_hangs_up_and_can_be_asked_again,
    test_a_loop_that_was_just_closed_does_no_harm,
    test_a_model_can_be_closed_while_its_loop_is_ending,
    test_loops_side_by_side_do_not_meet,
    test_many_may_ask_at_once,
    test_one_loop_has_one_connection,
    test_one_model_serves_one_event_loop_after_another,
    test_the_connections_of_a_loop_are_closed_at_its_end,
)
from .test_sdk_failures import (  # noqa: F401
    failure,
    test_a_broken_stream_tells_the_usage_that_is_known,
    test_a_cancellation_gets_through_and_hangs_up,
    test_a_provider_that_is_not_there_is_unreachable,
    test_a_request_that_cannot_be_written_is_an_error,
    test_a_stream_that_nobody_reads_on_is_hung_up,
    test_a_stream_without_its_end_is_no_answer,
    test_an_answer_that_breaks_off_is_a_failure_of_the_connection,
    test_an_answer_that_does_not_come_is_a_timeout,
    test_garbage_is_no_answer,
    test_no_key_is_told_although_the_provider_tells_it,
    test_what_may_pass_is_tried_again_before_it_is_a_failure,
    test_what_will_not_pass_is_not_tried_again,
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Look outside",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "report", "schema": {"type": "object"}}}


def chat(name, *, params=None, **options):
    return LangChainModel(ChatOpenAI(model=name, **options), **params or {})


@pytest.fixture
def provider():
    return Provider("openai", OpenAIWire(), chat)


async def test_the_conversation_is_sent_as_it_is_and_errors_of_tools_as_results(
    serve, model_at, way
):
    endpoint = serve("It is sunny.")
    used = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, picture]},
        {"role": "assistant", "content": "", "tool_calls": [used]},
        {"role": "tool", "tool_call_id": "c1", "content": "no network", "is_error": True},
    ]
    await asked(model_at(endpoint), way, ModelRequest(messages=messages, tools=[TOOL]))
    assert endpoint.request["tools"] == [TOOL]
    *sent, answered, result = endpoint.request["messages"]
    assert sent == messages[:2]
    assert answered == {"role": "assistant", "content": None, "tool_calls": [used]}
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "no network"}


async def test_thoughts_of_another_provider_are_left_out(serve, model_at, way):
    endpoint = serve("It is sunny.")
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = {"type": "text", "text": "Sunny."}
    messages = [
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": [thought, said]},
        {"role": "user", "content": "Sure?"},
    ]
    await asked(model_at(endpoint), way, ModelRequest(messages=messages))
    assert endpoint.request["messages"][1] == {"role": "assistant", "content": [said]}


@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_a_response_format_is_sent_as_it_is_whatever_the_tools_are(
    serve, model_at, way, tools
):
    endpoint = serve('{"sunny": true}')
    params = {"response_format": FORMAT, "temperature": 0.5, "extra_body": {"top_k": 3}}
    question = [{"role": "user", "content": "Sunny?"}]
    request = ModelRequest(messages=question, tools=tools, params=params)
    answer = await asked(model_at(endpoint), way, request)
    assert answer.message.content == '{"sunny": true}'
    assert endpoint.request["response_format"] == FORMAT
    assert endpoint.request.get("tools", []) == tools
    assert (endpoint.request["temperature"], endpoint.request["top_k"]) == (0.5, 3)


async def test_an_answer_in_a_format_may_be_cut_off_by_its_length(serve, model_at, way):
    params = {"response_format": FORMAT}
    request = ModelRequest(messages=[{"role": "user", "content": "Sunny?"}], params=params)
    answer = await asked(model_at(serve(Say('{"sun', stop="length"))), way, request)
    assert (answer.message.content, answer.message.stop_reason) == ('{"sun', "length")


async def test_another_model_can_be_asked_for(serve, model_at, way):
    endpoint = serve("Hello")
    request = ModelRequest("small-2", messages=[{"role": "user", "content": "Hi"}])
    answer = await asked(model_at(endpoint), way, request)
    assert endpoint.request["model"] == "small-2"
    assert answer.message.model.startswith("small-2-")


async def test_calls_that_langchain_puts_into_parts_too_are_there_once(serve, model_at, way):
    endpoint = serve(calling(call("weather", city="Paris")))
    model = LangChainModel(
        ChatOpenAI(model="grand-1", base_url=endpoint.base_url, api_key=KEY, output_version="v1"),
    )
    answer = (await asked(model, way)).message
    assert [one.args for one in answer.tool_calls] == [{"city": "Paris"}]
    assert answer.content == ""


async def test_a_refused_request_is_told_with_its_status(failure):  # noqa: F811
    error = await failure(Refuse(404, "no such model"))
    assert (error.kind, error.status) == ("error", 404)
    assert str(error).startswith("openai model 'grand-1' answered 404: ")


async def test_a_http_client_of_the_users_is_used_and_stays_open(serve, way):
    endpoint = serve("one", "two")
    async with DefaultAsyncHttpxClient(headers={"x-team": "rail"}) as http:
        model = chat("grand-1", base_url=endpoint.base_url, api_key=KEY, http_async_client=http)
        await asked(model, way)
        await model.aclose()
        assert (await asked(model, way)).message.content == "two"
    assert endpoint.requests[-1].headers["x-team"] == "rail"
    assert endpoint.connections == 1


def test_an_agent_runs_in_one_event_loop_after_another(serve, model_at):
    endpoint = serve("one", "two")
    agent = Agent(model_at(endpoint))
    assert [agent.run_sync("?").content for _ in range(2)] == ["one", "two"]
    assert endpoint.idle.wait(PATIENCE)


async def test_an_agent_runs_on_it(serve, model_at):
    @tool
    def weather(city: str, day: str = "today") -> str:
        """Look outside."""
        return f"sunny in {city} {day}"

    endpoint = serve(calling(call("weather", city="Paris")), '{"sunny": true}')
    schema = {"type": "object", "required": ["sunny"]}
    agent = Agent(model_at(endpoint), tools=[weather], output_schema=schema)
    response = await agent.run("How is the weather in Paris?")
    assert response.output == {"sunny": True}
    assert response.usage["total_tokens"] == 38
    assert endpoint.request["messages"][-1]["content"] == "sunny in Paris today"


async def test_where_the_responses_api_is_used_a_format_is_asked_for_in_its_way(serve):
    endpoint = serve("the server has nothing at this path")
    model = chat("grand-1", base_url=endpoint.base_url, api_key=KEY, use_responses_api=True)
    question = [{"role": "user", "content": "Sunny?"}]
    request = ModelRequest(messages=question, tools=[TOOL], params={"response_format": FORMAT})
    with pytest.raises(ModelError, match="nothing at /v1/responses"):
        await model.complete(request)
    assert endpoint.request["text"]["format"]["name"] == "report"
