import asyncio
import contextlib
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import SecretStr

from checkrail.agent.models.langchain import LangChainModel
from checkrail.agent.models.model import Model, ModelError
from checkrail.engine.values import AssistantMessage, ModelRequest

ASKED = [{"role": "user", "content": "How is the weather?"}]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Look outside", "parameters": {}},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "report", "schema": {"type": "object"}}}


class Provider(BaseChatModel):
    """A chat model whose provider answers with what `replies` has, and notes what it was asked."""

    model: str = "small"
    api_key: SecretStr = SecretStr("sk-very-secret")
    replies: list[Any]
    asked: list[Any]

    @property
    def _llm_type(self):
        return "provider"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, kwargs))])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in self._reply(messages, kwargs):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            elif isinstance(piece, asyncio.Event):
                await self._swallow_cancellation(piece)
            else:
                yield ChatGenerationChunk(message=piece)

    async def _swallow_cancellation(self, waiting):
        waiting.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    def _reply(self, messages, kwargs):
        self.asked.append({"model": self.model, "messages": messages, **kwargs})
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class Whole(BaseChatModel):
    """A chat model that has neither streams nor tools, nor a name."""

    reply: Any = AIMessage("Sunny.")

    @property
    def _llm_type(self):
        return "whole"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self.reply)])


class Count(AsyncCallbackHandler):
    def __init__(self):
        self.started = self.ended = 0

    async def on_chat_model_start(self, *args, **kwargs):
        self.started += 1

    async def on_llm_end(self, *args, **kwargs):
        self.ended += 1


def provider(*replies, kind=Provider, **fields):
    return kind(replies=[*replies], asked=[], **fields)


def request(**fields):
    return ModelRequest(**{"messages": ASKED} | fields)


async def streamed(model, asked):
    return [piece async for piece in model.stream(asked)]


async def failure(model, asked, *, stream=False):
    with pytest.raises(ModelError) as caught:
        await (streamed(model, asked) if stream else model.complete(asked))
    return caught.value


def test_it_is_a_model_with_the_name_and_provider_of_the_chat_model():
    model = LangChainModel(provider(), temperature=0.5)
    assert isinstance(model, Model)
    assert (model.name, model.provider, model.params) == ("small", "provider", {"temperature": 0.5})
    assert repr(model) == "LangChainModel('small')"


def test_it_can_be_given_another_name_and_provider():
    model = LangChainModel(provider(), name="main", provider="acme")
    assert (model.name, model.provider) == ("main", "acme")


def test_a_chat_model_without_a_name_goes_by_its_class():
    assert LangChainModel(Whole()).name == "Whole"


def test_what_is_no_chat_model_is_refused_with_what_to_give_instead():
    with pytest.raises(TypeError, match=r"not _ChatModelBinding: give it the chat model itself"):
        LangChainModel(provider().bind(temperature=0))


async def test_a_fake_of_langchains_own_answers_whole_and_as_a_stream():
    model = LangChainModel(GenericFakeChatModel(messages=iter(["It is sunny."] * 2)))
    whole = await model.complete(request())
    assert (whole.content, whole.model) == ("It is sunny.", "GenericFakeChatModel")
    *texts, last = await streamed(model, request())
    assert texts == ["It", " ", "is", " ", "sunny."]
    assert last.content == "It is sunny."


async def test_a_chat_model_that_cannot_stream_gives_its_answer_at_once():
    *texts, last = await streamed(LangChainModel(Whole()), request())
    assert texts == ["Sunny."]
    assert last == await LangChainModel(Whole()).complete(request())


async def test_tools_and_params_are_bound_to_the_call():
    chat = provider(AIMessage("Yes."))
    await LangChainModel(chat).complete(
        request(tools=[WEATHER], params={"temperature": 0.5, "tool_choice": "auto"}),
    )
    (asked,) = chat.asked
    assert asked["tools"] == [WEATHER]
    assert type(asked["tools"]) is list
    assert (asked["temperature"], asked["tool_choice"]) == (0.5, "auto")


async def test_without_tools_nothing_is_said_of_them():
    chat = provider(AIMessage("Yes."))
    await LangChainModel(chat).complete(request(params={"tool_choice": "auto"}))
    assert [*chat.asked[0]] == ["model", "messages"]


@pytest.mark.parametrize("tools", [[], [WEATHER]])
async def test_a_response_format_is_bound_to_the_call(tools):
    chat = provider(AIMessage("{}"))
    await LangChainModel(chat).complete(request(tools=tools, params={"response_format": FORMAT}))
    assert chat.asked[0]["response_format"] == FORMAT


async def test_a_request_for_another_model_goes_to_a_copy_with_its_name():
    chat = provider(AIMessage("Yes."), AIMessage("Yes."))
    model = LangChainModel(chat, name="main")
    answer = await model.complete(request(model="large"))
    await model.complete(request(model="main"))
    assert [asked["model"] for asked in chat.asked] == ["large", "small"]
    assert answer.model == "large"
    assert chat.model == "small"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_model_that_cannot_change_its_model_says_so(stream):
    error = await failure(LangChainModel(Whole()), request(model="large"), stream=stream)
    assert str(error).startswith("model 'large' was asked for, but Whole is bound to 'Whole': ")


class Deployed(Provider):
    deployment_name: str = "eu-1"


async def test_a_chat_model_whose_deployment_decides_on_the_model_says_so():
    error = await failure(LangChainModel(provider(kind=Deployed)), request(model="large"))
    assert "Deployed is bound to 'small'" in str(error)


async def test_a_chat_model_without_tools_says_so():
    error = await failure(LangChainModel(Whole()), request(tools=[WEATHER]))
    assert "Whole takes no tools: it has no bind_tools" in str(error)


@pytest.mark.parametrize("stream", [False, True])
async def test_callbacks_hear_of_one_call_for_each_request(stream):
    count = Count()
    chat = provider([AIMessageChunk("Yes.")] if stream else AIMessage("Yes."), callbacks=[count])
    asked = request(tools=[WEATHER], params={"temperature": 0})
    await (
        streamed(LangChainModel(chat), asked) if stream else LangChainModel(chat).complete(asked)
    )
    assert (count.started, count.ended) == (1, 1)


class Undecided(Provider):
    stream_usage: bool | None = None

    def _reply(self, messages, kwargs):
        return [AIMessageChunk(str(self.stream_usage))]


@pytest.mark.parametrize(("decided", "asked_for"), [(None, "True"), (False, "False")])
async def test_tokens_of_streams_are_asked_for_unless_it_was_decided(decided, asked_for):
    model = LangChainModel(provider(kind=Undecided, stream_usage=decided))
    assert (await streamed(model, request()))[0] == asked_for


async def test_messages_that_langchain_cannot_read_are_an_error_before_anything_is_sent():
    chat = provider()
    error = await failure(
        LangChainModel(chat), request(messages=[{"role": "nobody", "content": ""}])
    )
    assert (error.kind, chat.asked) == ("error", [])
    assert "provider model 'small' failed: Unexpected message type: 'nobody'" in str(error)


class Refused(Exception):
    status_code = 429


class Connecting(ConnectionError):
    pass


FAILURES = [
    (TimeoutError(), "timeout", None),
    (Connecting("no route"), "unreachable", None),
    (Refused("slow down"), "unreachable", 429),
    (OutputParserException("no JSON"), "invalid", None),
    (KeyError("choices"), "invalid", None),
    (AttributeError("'int' object has no attribute 'choices'"), "invalid", None),
    (ValueError({"message": "full", "type": "overloaded_error"}), "unreachable", None),
    (TypeError("create() got an unexpected keyword argument 'top_q'"), "error", None),
    (RuntimeError("out of luck"), "error", None),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("raised", "kind", "status"), FAILURES)
async def test_a_failure_is_told_by_what_can_be_seen_of_it(raised, kind, status, stream):
    error = await failure(LangChainModel(provider(raised)), request(), stream=stream)
    assert (error.kind, error.status) == (kind, status)
    assert "provider model 'small'" in str(error)


async def test_a_failure_does_not_tell_the_key_that_a_provider_named():
    chat = provider(RuntimeError("sk-very-secret is no key"))
    error = await failure(LangChainModel(chat), request())
    assert "*** is no key" in str(error)
    assert error.__cause__ is None


async def test_what_was_used_up_before_a_stream_failed_is_told():
    used = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
    chat = provider([AIMessageChunk("Su", usage_metadata=used), ConnectionError("gone")])
    error = await failure(LangChainModel(chat), request(), stream=True)
    assert error.usage == used


async def test_an_answer_that_is_no_answer_is_invalid():
    error = await failure(LangChainModel(Whole(reply=HumanMessage("Sunny?"))), request())
    assert error.kind == "invalid"
    assert "gave no valid answer: it is no AIMessage, but HumanMessage" in str(error)


async def test_a_stream_with_nothing_in_it_is_invalid():
    error = await failure(LangChainModel(provider([])), request(), stream=True)
    assert error.kind == "invalid"


async def test_a_stream_can_be_left_and_a_call_cancelled():
    chat = provider([AIMessageChunk("Su"), 60.0], [60.0])
    model = LangChainModel(chat)
    stream = model.stream(request())
    assert await anext(stream) == "Su"
    await stream.aclose()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await streamed(model, request())


async def test_a_cancellation_that_a_stream_swallows_gets_through():
    waiting = asyncio.Event()
    chat = provider([AIMessageChunk("Su"), waiting, AIMessageChunk("nny."), 60.0])
    task = asyncio.create_task(streamed(LangChainModel(chat), request()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)


async def test_the_last_thing_in_a_stream_is_the_answer_and_nothing_else_is():
    chat = provider([AIMessageChunk("Su"), AIMessageChunk("nny.")])
    pieces = await streamed(LangChainModel(chat), request())
    assert [type(piece) for piece in pieces] == [str, str, AssistantMessage]
