"""How both SDK models fail: with a kind, a status, and words that say what to do."""

import asyncio
import json
import socket

import pytest

from checkrail.agent.models.model import ModelError
from checkrail.engine.values import ModelRequest

from .conftest import KEY, QUESTION, asked
from .servers.replies import Raw, Refuse, Reply, Say, Silence, sent_events
from .servers.server import PATIENCE, Endpoint

GARBAGE = {
    "a page": Raw(b"<!doctype html><title>Welcome to nginx!</title>", "text/html"),
    "an empty body": Raw(b""),
    "broken JSON": Raw(b'{"choices": [{"mess'),
    "a list": Raw(b"[]"),
    "null": Raw(b"null"),
    "an empty object": Raw(b"{}"),
    "wrong types": Raw(b'{"choices": "many", "content": 7, "usage": "much", "model": "m"}'),
    "wrong parts": Raw(b'{"choices": [7], "content": [7], "model": "m"}'),
    "wrong texts": Raw(
        b'{"choices": [{"message": {"content": 7}}], "content": [{"type": "text", "text": 7}]}'
    ),
    "no message": Raw(
        b'{"choices": [{"message": null, "finish_reason": "stop"}], "content": null}'
    ),
    "bytes": Raw(b"\xff\xfe\x00\x01", "application/octet-stream"),
}

GARBLED = {
    "no JSON": sent_events("event: message_start\ndata: {oops\n\n"),
    "numbers": sent_events("event: message_start\ndata: 7\n\n"),
    "wrong types": sent_events(
        'event: message_start\ndata: {"type": "message_start", "message": 7, "choices": "many"}\n\n'
    ),
    "no text": Raw(b"event: x\ndata: \xff\xfe\n\n", "text/event-stream"),
    "nothing": sent_events(""),
    "only an end": sent_events("data: [DONE]\n\n"),
    "a whole answer": Raw(b'{"id": "1", "choices": [], "content": []}'),
}


@pytest.fixture
def failure(ask):
    """Ask for a reply that is a failure, and give the error."""

    async def fail(reply: Reply, **options) -> ModelError:
        with pytest.raises(ModelError) as raised:
            await ask(reply, **options)
        return raised.value

    return fail


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "error", "Change what it complains about"),
        (401, "error", "Check the API key"),
        (402, "error", "credit"),
        (403, "error", "may use this model"),
        (404, "error", "Check the model's name and the base URL"),
        (408, "timeout", "Try again later"),
        (413, "error", "Send less"),
        (418, "error", "Change what it complains about"),
        (422, "error", "Change what it complains about"),
        (429, "unreachable", "raise the account's limits"),
        (500, "unreachable", "Try again later"),
        (503, "unreachable", "Try again later"),
        (529, "unreachable", "Try again later"),
    ],
)
async def test_a_status_has_its_kind_and_its_advice(failure, provider, status, kind, advice):
    error = await failure(Refuse(status, "It is the tools' fault."))
    said = f"{provider.name} model 'grand-1' answered {status}: It is the tools' fault. "
    assert str(error).startswith(said)
    assert advice in str(error)
    assert (error.kind, error.status) == (kind, status)
    assert error.usage is None


@pytest.mark.parametrize("status", [429, 500])
async def test_what_may_pass_is_tried_again_before_it_is_a_failure(serve, model_at, way, status):
    reply = Refuse(status, "busy", {"retry-after-ms": "1"})
    endpoint = serve(*[reply] * 9)
    with pytest.raises(ModelError, match="busy") as raised:
        await asked(model_at(endpoint, max_retries=2), way)
    assert raised.value.kind == "unreachable"
    assert len(endpoint.requests) == 3


async def test_what_will_not_pass_is_not_tried_again(serve, model_at, way):
    endpoint = serve(Refuse(400, "no such tool"), "Hello")
    with pytest.raises(ModelError, match="no such tool"):
        await asked(model_at(endpoint, max_retries=2), way)
    assert len(endpoint.requests) == 1


async def test_a_failure_is_told_of_the_model_that_was_asked_for(failure):
    error = await failure(Refuse(404, "unknown"), request=ModelRequest("tiny-3", messages=[]))
    assert "model 'tiny-3' answered 404" in str(error)


async def test_an_error_page_of_something_in_between_is_told_in_short(serve, model_at, way):
    page = "<html>" + "<p>Bad gateway</p>\n" * 500
    endpoint = serve(Raw(page.encode(), "text/html"))
    with pytest.raises(ModelError) as raised:
        await asked(model_at(endpoint), way)
    assert raised.value.kind == "invalid"
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)


async def test_an_answer_that_does_not_come_is_a_timeout(failure, provider):
    error = await failure(Silence(), timeout=0.05)
    assert error.kind == "timeout"
    assert error.status is None
    assert str(error).startswith(f"{provider.name} model 'grand-1' took too long: ")
    assert "Raise `timeout`" in str(error)


@pytest.mark.parametrize("ends", ["never", "cut"])
async def test_an_answer_that_breaks_off_is_a_failure_of_the_connection(failure, ends):
    error = await failure(Say("It is sunny in Paris.", ends=ends), timeout=0.2)
    assert error.kind == ("timeout" if ends == "never" else "unreachable")
    assert error.status is None
    assert "base URL" not in str(error)
    if ends == "cut":
        assert "broke off" in str(error)
        assert "Try again" in str(error)


async def test_a_stream_without_its_end_is_no_answer(serve, model_at):
    text, error = await streamed_until_it_failed(
        model_at(serve(Say("It is sunny in Paris.", ends="early")))
    )
    assert text == "It is sunny in Paris."
    assert error.kind == "invalid"
    assert "its stream ended before the answer did. Try again" in str(error)
    assert "base URL" not in str(error)


async def test_a_provider_that_is_not_there_is_unreachable(model_at, way):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ModelError, match=r"could not be reached: .*Check the base URL") as raised:
        await asked(model_at(Endpoint(f"http://127.0.0.1:{port}")), way)
    assert raised.value.kind == "unreachable"


@pytest.mark.parametrize("base_url", ["no url", "http://", "ftp://127.0.0.1/", "http://[::1"])
async def test_a_base_url_that_is_none_is_a_failure_too(model_at, way, base_url):
    with pytest.raises(ModelError, match="model 'grand-1'"):
        await asked(model_at(Endpoint(base_url)), way)


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_no_answer(failure, provider, garbage):
    error = await failure(GARBAGE[garbage])
    assert error.kind == "invalid"
    assert error.status is None
    assert str(error).startswith(f"{provider.name} model 'grand-1' gave no valid answer: ")
    assert "Check that the base URL" in str(error)


@pytest.mark.parametrize("garbled", GARBLED)
async def test_a_garbled_stream_is_no_answer(serve, model_at, garbled):
    with pytest.raises(ModelError, match="gave no valid answer") as raised:
        await asked(model_at(serve(GARBLED[garbled])), "stream")
    assert raised.value.kind == "invalid"


async def streamed_until_it_failed(model) -> tuple[str, ModelError]:
    texts: list[str] = []

    async def read():
        async for piece in model.stream(QUESTION):
            assert isinstance(piece, str), "a stream that fails has no answer"
            texts.append(piece)

    with pytest.raises(ModelError) as raised:
        await read()
    return "".join(texts), raised.value


@pytest.mark.parametrize(
    ("ends", "kind", "words"),
    [
        ("error", "unreachable", "reported an error: The engine fell over"),
        ("early", "invalid", "broke off: its stream ended before the answer did. Try again"),
        ("cut", "unreachable", "broke off: peer closed connection"),
        ("never", "timeout", "took too long"),
    ],
)
async def test_a_stream_that_breaks_gives_its_text_and_then_the_error(
    serve, model_at, ends, kind, words
):
    endpoint = serve(Say("It is sunny in Paris.", ends=ends))
    text, error = await streamed_until_it_failed(model_at(endpoint, timeout=0.2))
    assert text == "It is sunny in Paris."
    assert error.kind == kind
    assert error.status is None
    assert words in str(error)
    assert len(endpoint.requests) == 1


async def test_a_broken_stream_tells_the_usage_that_is_known(serve, model_at, provider):
    reply = Say("It is sunny.", usage=(12, 7), ends="cut")
    _, error = await streamed_until_it_failed(model_at(serve(reply)))
    if provider.name == "anthropic":  # it counts at the start, OpenAI at the end
        assert error.usage["input_tokens"] == 12
    else:
        assert error.usage is None


async def test_no_key_is_told_although_the_provider_tells_it(failure):
    error = await failure(Refuse(401, f"Incorrect API key provided: {KEY}."))
    assert KEY not in str(error)
    assert "Incorrect API key provided: ***" in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


async def test_no_key_of_the_environment_is_told(serve, provider, way, monkeypatch):
    monkeypatch.setenv(f"{provider.name.upper()}_API_KEY", "sk-of-the-environment")
    endpoint = serve(Refuse(403, "sk-of-the-environment may not"))
    with pytest.raises(ModelError, match=r"\*\*\* may not"):
        await asked(provider.model("grand-1", base_url=endpoint.base_url), way)


async def test_a_key_that_no_header_can_hold_is_not_told(serve, model_at, way):
    key = "sk-with a\nbreak-in-it"
    with pytest.raises(ModelError) as raised:
        await asked(model_at(serve("Hello"), api_key=key), way)
    assert key not in str(raised.value)
    assert repr(key)[1:-1] not in str(raised.value)


def test_a_model_does_not_show_its_key(provider):
    model = provider.model("grand-1", api_key=KEY)
    assert repr(model) == f"{provider.model.__name__}('grand-1')"
    assert KEY not in str(model.params)


async def test_a_request_that_cannot_be_written_is_an_error(ask):
    strange = ModelRequest(messages=[{"role": "user", "content": "\ud800"}])
    with pytest.raises(ModelError, match="failed") as raised:
        await ask("Hello", strange)
    assert raised.value.kind == "error"


@pytest.mark.parametrize("reply", [Silence(), Say("It is sunny.", ends="never")])
async def test_a_cancellation_gets_through_and_hangs_up(serve, model_at, way, reply):
    endpoint = serve(reply)
    task = asyncio.create_task(asked(model_at(endpoint), way))
    assert await asyncio.to_thread(endpoint.asked.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await endpoint.requests[0].left()


async def test_a_stream_that_nobody_reads_on_is_hung_up(serve, model_at):
    endpoint = serve(Say("It is sunny in Paris.", ends="never"))
    stream = model_at(endpoint).stream(QUESTION)
    assert await anext(stream) == "It i"
    await stream.aclose()
    assert await endpoint.requests[0].left()


async def test_a_model_goes_on_after_a_failure(serve, model_at, way):
    endpoint = serve(Raw(b"{}"), Refuse(400), Say("So", ends="cut"), "Hello")
    model = model_at(endpoint)
    for _ in range(3):
        with pytest.raises(ModelError):
            await asked(model, way)
    assert (await asked(model, way)).message.content == "Hello"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"message": "gone", "code": 502}, "unreachable", "answered 502: gone. Try again"),
        ({"type": "overloaded_error", "message": "full"}, "unreachable", "error: full. Try"),
        ({"code": "rate_limit_exceeded"}, "unreachable", "rate_limit_exceeded"),
        ({"type": "timeout_error", "message": "slow"}, "timeout", "error: slow. Try"),
        ({"type": "odd", "message": ""}, "error", "'type': 'odd'"),
        ("no such model", "error", "reported an error: no such model. Change"),
    ],
)
async def test_an_error_in_place_of_an_answer_is_told_as_one(serve, model_at, error, kind, words):
    endpoint = serve(Raw(json.dumps({"error": error}).encode()))
    with pytest.raises(ModelError) as raised:
        await asked(model_at(endpoint), "complete")
    assert raised.value.kind == kind
    assert raised.value.status == (502 if "502" in words else None)
    assert words in str(raised.value)
