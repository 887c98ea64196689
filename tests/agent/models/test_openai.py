"""What is OpenAI's own: how its chat API is asked, and what its many endpoints answer."""

import json

import pytest

from checkrail.engine.values import ModelRequest, ToolCall
from checkrail.llm.chat.conversation import openai_messages

from .conftest import OPENAI, QUESTION, asked
from .servers.replies import Raw, Say, sent_events

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells it", "parameters": {"type": "object"}},
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "out", "schema": {"type": "object"}, "strict": True},
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def provider():
    return OPENAI


def chunks(*deltas, finish="stop", **last) -> Raw:
    """A stream of these deltas, in the fewest words that an endpoint may use."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    pieces = [{"choices": [choice]} for choice in choices]
    pieces[-1] |= last
    return sent_events("".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces))


def answer(message, finish="stop", **more) -> Raw:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": finish}
    return Raw(json.dumps({"choices": [choice], **more}).encode())


async def test_messages_tools_and_params_go_as_they_are(serve, model_at, way):
    endpoint = serve("Hello")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    params = {"tool_choice": "auto", "response_format": FORMAT}
    request = ModelRequest(messages=messages, tools=[WEATHER], params=params)
    await asked(model_at(endpoint), way, request)
    sent = endpoint.request
    assert sent["messages"] == messages
    assert sent["tools"] == [WEATHER]
    assert sent["tool_choice"] == "auto"
    assert sent["response_format"] == FORMAT
    assert sent.get("stream", False) is (way == "stream")


async def test_a_stream_is_asked_for_its_usage_unless_one_says_otherwise(serve, model_at):
    endpoint = serve("Hello", "Hello")
    usual = await asked(model_at(endpoint), "stream")
    assert endpoint.request["stream_options"] == {"include_usage": True}
    assert usual.message.usage["total_tokens"] == 19
    plain = ModelRequest(messages=QUESTION.messages, params={"stream_options": None})
    unusual = await asked(model_at(endpoint), "stream", plain)
    assert "stream_options" not in endpoint.request
    assert unusual.message.usage is None


async def test_without_tools_nothing_is_said_about_them(serve, model_at, way):
    endpoint = serve("Hello")
    params = {"tool_choice": "auto", "parallel_tool_calls": False}
    await asked(model_at(endpoint), way, ModelRequest(messages=QUESTION.messages, params=params))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & {*endpoint.request}


async def test_cached_and_reasoning_tokens_are_details_of_the_usage(ask):
    usage = (await ask(Say("Hello", usage=(20, 9)))).message.usage
    assert usage == {
        "input_tokens": 20,
        "output_tokens": 9,
        "total_tokens": 29,
        "input_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0},
    }


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}, "much", {"cost": "high"}])
async def test_an_endpoint_need_not_count(serve, model_at, usage):
    replies = answer({"content": "Hello"}, usage=usage), chunks({"content": "Hello"}, usage=usage)
    model = model_at(serve(*replies))
    for way in ("complete", "stream"):
        assert (await asked(model, way)).message.usage is None


async def test_usage_that_comes_with_every_piece_is_the_last_one(serve, model_at):
    pieces = [
        {"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": {"prompt_tokens": 5}},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}},
    ]
    told = sent_events("".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces))
    with pytest.raises(Exception, match="ended before the answer did") as raised:
        await asked(model_at(serve(told)), "stream")
    assert raised.value.usage == {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_kept_beside_the_answer(serve, model_at, field):
    whole = answer({field: "Let me think.", "content": "Yes."})
    streamed = chunks({field: "Let me "}, {field: "think."}, {"content": "Yes."})
    model = model_at(serve(whole, streamed))
    for way in ("complete", "stream"):
        found = await asked(model, way)
        assert found.message.content == "Yes." == "".join(found.texts)
        assert found.message.metadata == {"reasoning": "Let me think."}


async def test_a_refusal_is_the_text_and_the_stop_reason(serve, model_at):
    whole = answer({"content": None, "refusal": "I will not."})
    streamed = chunks({"refusal": "I will "}, {"refusal": "not."})
    model = model_at(serve(whole, streamed))
    for way in ("complete", "stream"):
        found = await asked(model, way)
        assert found.message.content == "I will not." == "".join(found.texts)
        assert found.message.stop_reason == "refusal"


async def test_a_refusal_that_breaks_off_is_no_answer(serve, model_at):
    broken = sent_events('data: {"choices": [{"delta": {"refusal": "I will"}}]}\n\n')
    with pytest.raises(Exception, match="ended before the answer did"):
        await asked(model_at(serve(broken)), "stream")


async def test_content_may_be_parts(serve, model_at):
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Yes."}]
    model = model_at(serve(answer({"content": parts}), chunks({"content": parts})))
    for way in ("complete", "stream"):
        assert (await asked(model, way)).message.content == "Yes."


async def test_calls_without_numbers_and_ids_are_told_apart(serve, model_at):
    written = [
        {"id": "a", "function": {"name": "look", "arguments": '{"n": 1}'}},
        {"id": "b", "function": {"name": "look", "arguments": {"n": 2}}},
    ]
    streamed = chunks(*({"tool_calls": [call]} for call in written), finish="tool_calls")
    model = model_at(serve(answer({"tool_calls": written}), streamed))
    for way in ("complete", "stream"):
        calls = (await asked(model, way)).message.tool_calls
        assert calls == [ToolCall("a", "look", {"n": 1}), ToolCall("b", "look", {"n": 2})]


async def test_a_call_without_an_id_is_given_one(serve, model_at):
    call = {"function": {"name": "look", "arguments": "{}"}}
    found = await asked(model_at(serve(answer({"tool_calls": [call, call]}))), "complete")
    ids = [call.id for call in found.message.tool_calls]
    assert all(own.startswith("call_") for own in ids)
    assert len({*ids}) == 2


async def test_two_calls_with_one_id_keep_their_arguments_apart(serve, model_at):
    call = {"id": "c", "function": {"name": "look", "arguments": "oops"}}
    found = (await asked(model_at(serve(answer({"tool_calls": [call, call]}))), "complete")).message
    assert len({call.id for call in found.tool_calls}) == 2
    assert {*found.metadata["unparsed_arguments"]} == {call.id for call in found.tool_calls}


@pytest.mark.parametrize(
    "call",
    [7, {}, {"function": 7}, {"function": {"name": 7}}, {"id": 7, "function": {"name": "f"}}],
)
async def test_a_call_that_is_none_is_no_answer(serve, model_at, call):
    model = model_at(serve(answer({"tool_calls": [call]}), chunks({"tool_calls": [call]})))
    for way in ("complete", "stream"):
        with pytest.raises(Exception, match="gave no valid answer"):
            await asked(model, way)


async def test_of_several_choices_the_first_is_the_answer(serve, model_at):
    def said(index, word):
        choice = {"index": index, "delta": {"content": word}, "finish_reason": "stop"}
        return f"data: {json.dumps({'choices': [choice]})}\n\n"

    found = await asked(model_at(serve(sent_events(said(1, "no") + said(0, "yes")))), "stream")
    assert found.message.content == "yes"


def test_what_is_not_part_of_the_api_is_not_sent():
    messages = [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}, IMAGE]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": True},
        {"role": "user", "content": "Hi", "name": "ann"},
    ]
    assert openai_messages(ModelRequest(messages=messages).messages) == [
        {"role": "assistant", "content": [IMAGE]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "no"},
        {"role": "user", "content": "Hi", "name": "ann"},
    ]


def test_images_that_tools_give_follow_after_all_the_results():
    text = {"type": "text", "text": "a map"}
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": [text, IMAGE]},
        {"role": "tool", "tool_call_id": "c2", "content": [IMAGE]},
        {"role": "tool", "tool_call_id": "c3", "content": [text]},
    ]
    first, second, third, shown, last = openai_messages(
        [*results, {"role": "user", "content": "?"}]
    )
    assert first["content"] == third["content"] == [text]
    assert second["content"] == "The result is in the next user message."
    assert shown["role"] == "user"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"] * 2
    assert "c1" in shown["content"][0]["text"]
    assert "c2" in shown["content"][2]["text"]
    assert last["content"] == "?"
    assert openai_messages(results)[-1] == shown


def test_a_conversation_is_left_as_it_was():
    messages = [{"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": True}]
    openai_messages(messages)
    assert messages[0]["is_error"] is True
