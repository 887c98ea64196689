"""Upstreams that fail in every way they can: the official SDKs raise what they would without us.

Never is it a connection that was cut, which an SDK could not tell from a broken network.
"""

import json

import pytest

from .command import HOOKS, gateway_process, here
from .provider import Fail, Garbage, Hang, Provider, Raw, Say
from .provider_wire import CHAT, MESSAGES, RESPONSES, events
from .sdks import SDKS, settled

PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
TEXT = "The quick brown fox jumps over the lazy dog."
HASTY = "hasty-model"
REFUSALS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    500: "InternalServerError",
    529: "InternalServerError",
}
STREAM = {"content-type": "text/event-stream"}


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(scope="module", params=["no hooks", "a rule on tools", "a rule on answers"])
def hooks(request):
    return request.param


@pytest.fixture(scope="module")
def gateway(hooks, provider, tmp_path_factory):
    """Two upstreams at one provider: one is given up on soon, by the model that it takes."""
    places = {
        "hasty": here(provider, models=HASTY, first_byte_seconds=0.3, timeout_seconds=1),
        "nobody": here(provider, models="gone-model", url="http://127.0.0.1:9"),
        "here": here(provider, models="model-*"),
    }
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(
        folder, HOOKS[hooks], places, keep_alive_seconds=0.2, blocked_tool="text"
    ) as running:
        yield running


@pytest.fixture(params=SDKS)
def sdk(request):
    return SDKS[request.param]


@pytest.fixture
async def client(sdk, gateway):
    made = sdk.client(gateway.url, sync=False)
    yield made
    await settled(made.close())


@pytest.fixture(params=["create", "streamed"])
def ask(request, sdk, client):
    """Ask in one of the ways that the SDK has."""

    async def asked(model="model-1", **options):
        with_options = client.with_options(**options) if options else client
        question = {**sdk.question("Go on."), "model": model}
        return await getattr(sdk, request.param)(with_options, question)

    return asked


async def raised(sdk, work):
    """Give the error of an API that comes of it; a broken connection would be none."""
    with pytest.raises(sdk.package.APIError) as caught:
        await work
    assert not isinstance(caught.value, sdk.package.APIConnectionError)
    return caught.value


class TestBeforeTheAnswer:
    async def test_too_many_requests_say_when_to_come_back(self, sdk, ask, provider):
        provider.say(Fail(429, "slow down", {"retry-after": "7", "x-ratelimit-remaining": "0"}))
        error = await raised(sdk, ask())
        assert type(error) is sdk.package.RateLimitError
        assert error.response.headers["retry-after"] == "7"
        assert error.response.headers["x-ratelimit-remaining"] == "0"
        assert "slow down" in str(error)

    async def test_an_sdk_that_comes_back_gets_its_answer(self, sdk, ask, provider):
        provider.say(Fail(429, "slow down", {"retry-after-ms": "1", "retry-after": "0.001"}))
        provider.say(Say(TEXT))
        assert (await ask(max_retries=1)).text == TEXT

    async def test_what_the_upstream_refuses_is_told_in_its_words(self, sdk, ask, provider):
        for status, kind in REFUSALS.items():
            provider.say(Fail(status, "because of this", {"request-id": "req_7"}))
            error = await raised(sdk, ask())
            assert isinstance(error, getattr(sdk.package, kind))
            assert (error.status_code, error.response.headers["request-id"]) == (status, "req_7")
            assert "because of this" in str(error)

    async def test_one_that_hangs(self, sdk, ask, provider):
        provider.say(Hang())
        error = await raised(sdk, ask(HASTY))
        assert isinstance(error, sdk.package.APIStatusError)
        assert error.status_code == 504
        assert "the upstream 'hasty' did not answer in time" in str(error)
        await provider.until_gone()

    async def test_a_client_that_does_not_wait_as_long(self, sdk, ask, provider):
        provider.say(Hang())
        with pytest.raises(sdk.package.APITimeoutError):
            await ask(timeout=0.3)
        await provider.until_gone()

    async def test_one_that_is_not_there(self, sdk, ask):
        error = await raised(sdk, ask("gone-model"))
        assert isinstance(error, sdk.package.InternalServerError)
        assert error.status_code == 502
        assert "the upstream 'nobody' cannot be reached" in str(error)

    async def test_one_that_does_not_speak_http(self, sdk, ask, provider):
        for data in (b"\x00\xffnothing\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n", b""):
            provider.say(Garbage(data))
            error = await raised(sdk, ask())
            assert isinstance(error, sdk.package.InternalServerError)
            assert error.status_code == 502


class TestInTheAnswer:
    async def test_one_that_dies_in_the_middle(self, sdk, ask, provider):
        provider.say(Say(TEXT, dies=1))
        error = await raised(sdk, ask())
        assert "broke off in the middle of its answer" in str(error)

    async def test_one_that_dies_in_the_middle_of_a_stream(self, sdk, client, provider, hooks):
        provider.say(Say(TEXT, dies=8))
        events, error = await read(sdk, client)
        assert "broke off in the middle of its answer" in str(error)
        assert bool(events) is (hooks != "a rule on answers")

    async def test_one_that_stops_talking_in_the_middle_of_a_stream(
        self, sdk, client, provider, hooks
    ):
        provider.say(Say(TEXT, waits=8))
        events, error = await read(sdk, client, HASTY)
        assert "the upstream 'hasty' did not finish its answer in time" in str(error)
        assert bool(events) is (hooks != "a rule on answers")
        await provider.until_reached()
        await provider.until_gone()

    async def test_garbage_in_the_middle_of_a_stream(self, sdk, client, provider, hooks):
        made = events(PATHS[sdk.name], Say(TEXT), {"stream_options": {"include_usage": True}})
        raw = [*made[:7], b"event: ping\ndata: {half\n\n", *made[7:]]
        provider.say(Raw(raw, headers=STREAM))
        if hooks == "no hooks":  # nobody reads it but the caller
            if sdk.name == "messages":
                assert (await sdk.streamed(client, sdk.question("Go on."))).text == TEXT
            else:
                with pytest.raises(json.JSONDecodeError):
                    await sdk.streamed(client, sdk.question("Go on."))
            return
        _, error = await read(sdk, client)
        assert "the upstream's stream cannot be read" in str(error)

    async def test_a_page_where_an_answer_should_be(self, sdk, client, provider, hooks):
        provider.say(Raw([b"<html>Bad gateway</html>"], 502, {"content-type": "text/html"}))
        error = await raised(sdk, sdk.create(client, sdk.question("Go on.")))
        assert isinstance(error, sdk.package.InternalServerError)
        provider.say(Raw([b"<html>Hello</html>"], headers={"content-type": "application/json"}))
        if hooks == "no hooks":
            with pytest.raises(json.JSONDecodeError):
                await sdk.create(client, sdk.question("Go on."))
            return
        error = await raised(sdk, sdk.create(client, sdk.question("Go on.")))
        assert error.status_code == 502

    async def test_the_next_call_is_answered(self, ask, provider):
        provider.say(Say(TEXT))
        assert (await ask()).text == TEXT


async def read(sdk, client, model="model-1"):
    """Read a stream that fails; gives the events that came, and the error."""
    asked = {**sdk.question("Go on."), "model": model, "stream": True}
    places = {"chat": "chat.completions", "messages": "messages", "responses": "responses"}
    api = client
    for name in places[sdk.name].split("."):
        api = getattr(api, name)
    found = []

    async def reading():
        async for event in await api.create(**asked):
            found.append(event)  # noqa: PERF401 - what came before the error counts

    return found, await raised(sdk, reading())
