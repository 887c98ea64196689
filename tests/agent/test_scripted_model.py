import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail import AssistantMessage, ModelRequest, ToolCall
from checkrail.agent import Model, ModelError
from checkrail.agent.models.scripted_model import split_tokens
from checkrail.testing import ScriptedModel

REQUEST = ModelRequest(messages=[{"role": "user", "content": "How are you?"}])


async def streamed(model, request=REQUEST):
    return [piece async for piece in model.stream(request)]


def test_it_is_a_model():
    assert isinstance(ScriptedModel(["hi"]), Model)
    assert (ScriptedModel([]).name, ScriptedModel([], name="fast").name) == ("scripted", "fast")


async def test_it_gives_one_reply_after_the_other_and_keeps_the_requests():
    model = ScriptedModel(["one", AssistantMessage("two"), ToolCall("1", "echo", {"a": 1})])
    answers = [await model.complete(REQUEST) for _ in range(3)]
    assert [answer.content for answer in answers] == ["one", "two", ""]
    assert answers[2].tool_calls == [ToolCall("1", "echo", {"a": 1})]
    assert [answer.stop_reason for answer in answers] == ["stop", None, "tool_calls"]
    assert model.requests == [REQUEST] * 3


async def test_an_exception_is_raised():
    model = ScriptedModel([ModelError("overloaded", kind="unreachable"), "better now"])
    with pytest.raises(ModelError, match="overloaded"):
        await model.complete(REQUEST)
    assert (await model.complete(REQUEST)).content == "better now"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_replies_to_the_request(kind):
    def reply(request):
        return f"You said: {request.messages[-1]['content']}"

    async def reply_later(request):
        await asyncio.sleep(0)
        return reply(request)

    model = ScriptedModel(reply if kind == "sync" else reply_later)
    for _ in range(2):
        assert (await model.complete(REQUEST)).content == "You said: How are you?"


async def test_when_the_script_is_over_it_says_what_to_do():
    model = ScriptedModel(["one"])
    await model.complete(REQUEST)
    with pytest.raises(ModelError, match="the script has 1 replies, but the model was asked 2 ti"):
        await model.complete(REQUEST)


async def test_it_counts_words_and_marks_as_tokens():
    usage = (await ScriptedModel(["Fine, thanks."]).complete(REQUEST)).usage
    assert usage == {"input_tokens": 4, "output_tokens": 4, "total_tokens": 8}
    call = await ScriptedModel([ToolCall("1", "echo", {"a": 1})]).complete(REQUEST)
    assert call.usage["output_tokens"] > 1


async def test_a_usage_that_is_given_is_kept_and_its_name_is_on_every_answer():
    given = AssistantMessage("hi", usage={"total_tokens": 7})
    answer = await ScriptedModel([given], name="fast").complete(REQUEST)
    assert (answer.usage, answer.model) == ({"total_tokens": 7}, "fast")
    assert (await ScriptedModel(["hi"], name="fast").complete(REQUEST)).model == "fast"


async def test_it_streams_token_by_token_and_then_gives_the_whole():
    *pieces, whole = await streamed(ScriptedModel(["Fine, thanks. \n"]))
    assert pieces == ["Fine", ",", " thanks", ".", " \n"]
    assert whole.content == "Fine, thanks. \n"
    assert whole.usage["total_tokens"] > 0


async def test_streams_and_whole_answers_share_one_script():
    model = ScriptedModel(["one", ToolCall("1", "echo"), "three"])
    assert (await model.complete(REQUEST)).content == "one"
    (call,) = await streamed(model)
    assert call.tool_calls
    assert (await model.complete(REQUEST)).content == "three"


async def test_an_exception_in_a_stream_is_raised_too():
    with pytest.raises(ModelError, match="overloaded"):
        await streamed(ScriptedModel([ModelError("overloaded")]))


@given(st.text())
def test_tokens_joined_are_the_text_again(text):
    assert "".join(split_tokens(text)) == text
