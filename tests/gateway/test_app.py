"""The gateway over HTTP: what passes, what is refused and how, and callers who go away."""

import asyncio
import dataclasses
import gzip
import json
import logging
import zlib

import aiohttp
import anthropic
import brotli
import openai
import pytest
import zstandard
from yarl import URL

from checkrail import Block
from checkrail.config.gateway import GatewayConfig, UpstreamConfig
from checkrail.engine.registry import HookRegistry
from checkrail.gateway.call import Gateway
from checkrail.gateway.incoming_request import IncomingRequest
from checkrail.gateway.upstreams import Upstreams

from .provider import CHAT, MESSAGES, RESPONSES, Fail, Hang, Provider, Raw, Say
from .serving import gateway_at, upstreams_at

BODIES = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"model": "m", "input": "Hi"},
}
KEY = "the-gateways-own-key"
WORDS = "with a secret in them"


@pytest.fixture
def provider():
    with Provider(models=("model-1", "model-2")) as made:
        yield made


@pytest.fixture
def gateway(provider):
    with gateway_at(*upstreams_at(provider)) as address:
        yield address


@pytest.fixture
async def client():
    async with aiohttp.ClientSession() as made:
        yield made


async def called(client, method, url, **more):
    async with client.request(method, url, **more) as response:
        return response.status, response.headers, await response.read()


def told(body):
    """What an error says, whoever's envelope it is in."""
    return json.loads(body)["error"]["message"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_nobody_touches_passes_byte_for_byte(path, stream, provider, gateway, client):
    odd = json.dumps({**BODIES[path], "stream": stream, "odd": 1.50}, indent=3).encode()
    pieces = [b'data: {"odd" :', b" 1.50}\r\n\r", b"\n: comment\n\n", b"data: \xc3\xa4\n\n"]
    kind = "text/event-stream" if stream else "application/json"
    provider.say(Raw(pieces, headers={"content-type": kind, "x-request-id": "req_1"}))
    headers = {"content-type": "application/json", "user-agent": "agent/1"}
    status, got, body = await called(
        client, "POST", f"{gateway}{path}?beta=true", data=odd, headers=headers
    )
    assert (status, body) == (200, b"".join(pieces))
    assert (provider.last.body, provider.last.query) == (odd, "beta=true")
    assert (got["x-request-id"], got["Content-Type"]) == ("req_1", kind)
    assert provider.last.header("user-agent") == "agent/1"


def test_the_sdks_work_through_it(provider, gateway):
    provider.always(Say("Hi", [("look", {"at": "it"})]))
    chat = openai.OpenAI(base_url=f"{gateway}/v1", api_key="sk-caller")
    made = chat.chat.completions.create(**BODIES[CHAT])
    assert made.choices[0].message.tool_calls[0].function.arguments == '{"at": "it"}'
    assert provider.last.header("authorization") == "Bearer sk-caller"
    assert chat.responses.create(**BODIES[RESPONSES]).output_text == "Hi"
    messages = anthropic.Anthropic(base_url=gateway, api_key="sk-ant-caller")
    with messages.messages.stream(**BODIES[MESSAGES]) as stream:
        assert stream.get_final_message().content[1].input == {"at": "it"}
    assert "sk-ant-caller" in str(provider.last.headers)


@pytest.mark.parametrize("path", ["/", "/ok"])
async def test_somebody_who_looks_whether_it_is_there_is_told(path, gateway, client):
    status, _, body = await called(client, "GET", gateway + path)
    assert (status, json.loads(body)["ok"]) == (200, True)
    assert (await called(client, "HEAD", gateway + path))[0] == 200


async def test_one_id_goes_from_the_request_to_the_hooks_and_back(provider, client):
    registry = HookRegistry()
    seen = []
    registry.register(seen.append, "before_llm_call", lane="observe")
    with gateway_at(*upstreams_at(provider), registry=registry) as address:
        headers = {"x-request-id": "r-1", "x-checkrail-user": "ada", "x-checkrail-run-id": "run-1"}
        _, got, _ = await called(client, "POST", address + CHAT, json=BODIES[CHAT], headers=headers)
        assert got["x-checkrail-request-id"] == "r-1"
        _, got, _ = await called(client, "POST", address + CHAT, json=BODIES[CHAT])
    first, second = seen
    assert (first.request_id, first.user.identity, first.run_id) == ("r-1", "ada", "run-1")
    assert (first.model, first.provider) == ("m", "here")
    assert second.request_id == got["x-checkrail-request-id"] != "r-1"


@pytest.mark.parametrize(
    ("path", "headers", "api"),
    [
        (CHAT, {}, "openai"),
        (RESPONSES, {}, "openai"),
        (MESSAGES, {}, "anthropic"),
        ("/v1/embeddings", {}, "openai"),
        ("/v1/files", {"anthropic-version": "2023-06-01"}, "anthropic"),
    ],
)
async def test_errors_are_in_the_envelope_of_the_callers_api(path, headers, api, client):
    gone = [
        UpstreamConfig("gone", each, "http://127.0.0.1:9", retries=0)
        for each in ("chat", "messages", "responses")
    ]
    with gateway_at(*gone) as address:
        status, got, body = await called(
            client, "POST", address + path, json={"model": "m"}, headers=headers
        )
    assert (status, got["Content-Type"]) == (502, "application/json")
    assert json.loads(body).get("type") == (None if api == "openai" else "error")
    assert told(body).startswith("the upstream 'gone' cannot be reached: ")


@pytest.mark.parametrize("path", ["/v2/chat", "/v1", "/metrics", "/v1/../admin", "/v1/%2e%2e/x"])
async def test_what_is_not_under_v1_is_not_there(path, provider, gateway, client):
    url = URL(gateway + path, encoded=True)
    status, _, body = await called(client, "POST", url, json={})
    assert (status, told(body)) == (404, "There is nothing at this path: models are under /v1")
    assert provider.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "/v1//chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/chat/%63ompletions",
        "/v1/chat/%2563ompletions",
        "/v1/Chat/Completions",
        "/v1/./chat/completions",
        "/v1/chat/completions;x=1",
        "/v1/chat\\completions",
        "/v1/chat/completions%3Fx",
        "/v1/chat/completions%23x",
        "/v1/chat/completions%00",
        "/v1/chat/completions%E2%80%8B",
    ],
)
async def test_no_spelling_of_a_path_leads_around_the_hooks(path, provider, client):
    registry = HookRegistry()
    registry.register(lambda _event: Block("not here"), "before_llm_call", name="no")
    with gateway_at(*upstreams_at(provider), registry=registry) as address:
        url = URL(address + path, encoded=True)
        status, _, body = await called(client, "POST", url, json=BODIES[CHAT])
    assert (status, "not here" in told(body)) == (400, True)
    assert provider.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/v1/chat/completions",
        "/v1/V1//messages",
        "/v1/v1/responses/",
        "/v1/engines/gpt/chat/completions",
        "/v1/v1/messages/count_tokens",
    ],
)
async def test_no_prefix_leads_around_the_hooks(path, provider, client):
    place = UpstreamConfig("here", "chat", f"{provider.url}/api", retries=0)
    with gateway_at(place) as address:
        url = URL(address + path, encoded=True)
        status, _, body = await called(client, "POST", url, json=BODIES[CHAT])
    assert status == 404
    assert "with /v1 or without it" in told(body)
    assert provider.requests == []


async def test_what_only_looks_like_a_call_of_a_model_is_passed_on(provider, gateway, client):
    status, _, _ = await called(client, "POST", f"{gateway}/v1/threads/t1/messages", json={})
    assert (status, provider.last.path) == (200, "/v1/threads/t1/messages")
    status, _, _ = await called(client, "GET", f"{gateway}/v1/chat/completions")
    assert (status, provider.last.method) == (200, "GET")


async def test_everything_else_under_v1_is_passed_on_untouched(provider, gateway, client):
    body = b'{"model": "m",  "input": "x"}'
    headers = {"content-type": "application/json"}
    status, _, got = await called(
        client, "POST", f"{gateway}/v1/embeddings?a=%20b", data=body, headers=headers
    )
    assert (status, json.loads(got)) == (200, {"path": "/v1/embeddings", "bytes": len(body)})
    assert (provider.last.body, provider.last.query) == (body, "a=%20b")
    url = URL(f"{gateway}/v1/files/a%2Fb", encoded=True)
    status, _, got = await called(client, "DELETE", url)
    assert (provider.last.method, provider.last.path) == ("DELETE", "/v1/files/a%2Fb")
    assert provider.last.body == b""


async def test_what_is_passed_on_streams_both_ways(provider, gateway, client):
    sent = asyncio.Event()

    async def pieces():
        yield b"one"
        await sent.wait()
        yield b"two"

    provider.say(Raw([b"first", b"second"]))
    upload = client.post(f"{gateway}/v1/files", data=pieces(), headers={"content-type": "a/b"})
    task = asyncio.ensure_future(upload.__aenter__())
    sent.set()
    response = await task
    assert await response.read() == b"firstsecond"
    assert provider.last.body == b"onetwo"
    assert provider.last.header("content-type") == "a/b"


async def test_a_large_upload_is_not_bounded_for_it_is_not_kept(provider, client):
    with gateway_at(*upstreams_at(provider), body_bytes=1000) as address:

        async def pieces():
            for _ in range(50):
                yield b"x" * 1000

        status, _, got = await called(client, "POST", f"{address}/v1/files", data=pieces())
    assert (status, json.loads(got)["bytes"]) == (200, 50_000)


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/embeddings"])
async def test_a_body_that_is_too_large_is_refused(path, length, provider, client):
    data = json.dumps({"model": "m", "pad": "x" * 2000}).encode()

    async def pieces():
        yield data[:700]
        yield data[700:]

    headers = {"content-type": "application/json"}
    with gateway_at(*upstreams_at(provider), body_bytes=1000) as address:
        body = data if length else pieces()
        status, _, got = await called(client, "POST", address + path, data=body, headers=headers)
    assert status == 413
    assert "gateway.body_bytes" in told(got)
    assert provider.requests == []


@pytest.mark.parametrize(
    ("encoding", "squeezed"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
    ],
)
async def test_a_compressed_request_is_decoded_before_hooks_and_upstreams(
    encoding, squeezed, provider, gateway, client
):
    body = json.dumps({**BODIES[CHAT], "user": "Größe " * 100_000}).encode()
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    status, _, _ = await called(
        client, "POST", gateway + CHAT, data=squeezed(body), headers=headers
    )
    assert (status, provider.last.body) == (200, body)
    assert provider.last.header("content-encoding") is None


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("lzma", b"x", 415),
        ("br", b"no brotli", 400),
        ("br", brotli.compress(bytes(range(256)) * 4)[:-9], 400),
        ("br", brotli.compress(b" " * 50_000_000), 413),
        ("zstd", b"no zstd", 400),
        ("zstd", zstandard.compress(b"{}" * 50)[:-3], 400),
        ("zstd", zstandard.compress(b" " * 50_000_000), 413),
        ("zstd", b"", 400),
        ("gzip, gzip", gzip.compress(b"{}", mtime=0), 415),
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(b"{}" * 50, mtime=0)[:-9], 400),
        ("gzip", gzip.compress(b" " * 5000, mtime=0), 413),
    ],
)
async def test_a_request_whose_compression_is_odd_is_refused(
    encoding, body, status, provider, client
):
    with gateway_at(*upstreams_at(provider), body_bytes=1000) as address:
        headers = {"content-encoding": encoding}
        got, _, _ = await called(client, "POST", address + CHAT, data=body, headers=headers)
    assert (got, provider.requests) == (status, [])


async def test_others_have_their_turn_while_a_body_is_unpacked():
    body = gzip.compress(b" " * 1_000_000, mtime=0)

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-encoding", b"gzip")]
    scope = {"method": "POST", "path": CHAT, "headers": headers}
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(others())
    found = await IncomingRequest(scope, receive, 2_000_000).read_decoded_body()
    counting.cancel()
    assert len(found) == 1_000_000
    assert turns > 0


@pytest.mark.parametrize("path", BODIES)
async def test_a_base_url_may_lack_its_version(path, provider, client):
    registry = HookRegistry()
    registry.register(lambda event: Block("not here"), "before_llm_call", name="no")
    short = path.removeprefix("/v1")
    with gateway_at(*upstreams_at(provider), registry=registry) as address:
        for spelled in (short, f"/{short}/", short.upper()):
            status, _, body = await called(client, "POST", address + spelled, json=BODIES[path])
            assert (status, "not here" in told(body)) == (400, True)
    assert provider.requests == []


async def test_without_hooks_too_and_the_models_as_well(provider, gateway, client):
    for path, body in BODIES.items():
        short = gateway + path.removeprefix("/v1")
        assert (await called(client, "POST", short, json=body))[0] == 200
        assert provider.last.path == path
    assert (await called(client, "GET", f"{gateway}/models"))[0] == 200
    assert provider.last.path == "/v1/models"


@pytest.mark.parametrize("path", [RESPONSES, "/v1/realtime"])
async def test_the_handshake_of_a_websocket_is_refused_at_once(path, provider, gateway, client):
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.ws_connect(gateway + path)
    assert (refused.value.status, provider.requests) == (426, [])


async def test_a_body_that_somebody_might_decode_otherwise_is_refused(provider, gateway, client):
    body = json.dumps(BODIES[CHAT]).encode()
    twice = [("content-encoding", "identity"), ("content-encoding", "deflate")]
    letters = [("content-type", "application/json; charset=UTF-7")]
    for headers in (twice, letters):
        status, _, _ = await called(client, "POST", gateway + CHAT, data=body, headers=headers)
        assert status == 415
    assert provider.requests == []
    for charset in ("utf-8", '"UTF-8"', "us-ascii"):
        headers = {"content-type": f"application/json;charset={charset}"}
        status, _, _ = await called(client, "POST", gateway + CHAT, data=body, headers=headers)
        assert (status, provider.last.body) == (200, body)


async def test_models_are_those_of_the_upstream(provider, gateway, client):
    listed = b'{"object":"list", "data": [ {"id": "model-1"} ]}'
    provider.say(Raw([listed]))
    _, _, body = await called(client, "GET", f"{gateway}/v1/models")
    assert body == listed
    names = [each.id for each in openai.OpenAI(base_url=f"{gateway}/v1", api_key="k").models.list()]
    assert names == ["model-1", "model-2"]
    await called(client, "GET", f"{gateway}/v1/models/model-1")
    assert provider.last.path == "/v1/models/model-1"


async def test_models_of_several_upstreams_are_one_list(provider, client):
    with Provider(models=("model-2", "model-3", "other")) as second, Provider() as broken:
        broken.always(Fail(500)).say(Fail(500))
        places = (
            UpstreamConfig("a", "chat", provider.url, retries=0),
            UpstreamConfig("a", "responses", provider.url, retries=0),
            UpstreamConfig("b", "chat", second.url, ("model-*",), key="sk-b", retries=0),
            UpstreamConfig("c", "chat", broken.url, retries=0),
            UpstreamConfig("d", "messages", second.url, retries=0),
        )
        with gateway_at(*places) as address:
            headers = {"authorization": "Bearer sk-caller"}
            _, _, body = await called(client, "GET", f"{address}/v1/models", headers=headers)
            assert [each["id"] for each in json.loads(body)["data"]] == [
                "model-1",
                "model-2",
                "model-3",
            ]
            assert len(provider.requests) == 1
            assert provider.last.header("authorization") == "Bearer sk-caller"
            assert second.last.header("authorization") == "Bearer sk-b"
            assert "sk-caller" not in str(second.last.headers) + str(broken.last.headers)
            headers = {"anthropic-version": "2023-06-01"}
            _, _, body = await called(client, "GET", f"{address}/v1/models", headers=headers)
            names = [each["id"] for each in json.loads(body)["data"]]
            assert names == ["model-2", "model-3", "other"]


async def test_models_are_listed_by_the_names_that_callers_use(provider, client):
    places = (UpstreamConfig("groq", "chat", provider.url, ("groq/*", "model-2"), retries=0),)
    with gateway_at(*places) as address:
        _, _, body = await called(client, "GET", f"{address}/v1/models")
    names = [each["id"] for each in json.loads(body)["data"]]
    assert names == ["groq/model-1", "groq/model-2"]


async def test_models_that_nobody_can_request_are_not_listed(provider, client):
    taken = UpstreamConfig("a", "chat", provider.url, ("model-2", "meta/*"), retries=0)
    for place in (taken, dataclasses.replace(taken, strip_prefix=False)):
        with gateway_at(place) as address:
            _, _, body = await called(client, "GET", f"{address}/v1/models")
        names = [each["id"] for each in json.loads(body)["data"]]
        assert names == (["meta/model-1", "model-2"] if place is taken else ["model-2"])


async def test_when_no_upstream_has_a_list_the_first_failure_is_told(provider, client):
    provider.say(Fail(401, "who are you"), Fail(401, "who are you"))
    places = (
        UpstreamConfig("a", "chat", f"{provider.url}/a", retries=0),
        UpstreamConfig("b", "chat", f"{provider.url}/b", retries=0),
    )
    with gateway_at(*places) as address:
        status, _, body = await called(client, "GET", f"{address}/v1/models")
    assert (status, told(body)) == (401, "who are you")


async def test_what_is_passed_on_goes_where_the_model_or_the_api_says(provider, client):
    with Provider() as second:
        places = (
            UpstreamConfig("a", "messages", provider.url, ("claude-*",)),
            UpstreamConfig("b", "chat", second.url, ("gpt-*",)),
            UpstreamConfig("c", "chat", provider.url, ("embed-*",)),
        )
        with gateway_at(*places) as address:

            async def went(path, model, **headers):
                before = len(provider.requests), len(second.requests)
                body = {"json": {"model": model}} if model else {"data": b"x"}
                await called(client, "POST", address + path, headers=headers, **body)
                after = len(provider.requests), len(second.requests)
                return "first" if after[0] > before[0] else "second" if after > before else None

            assert await went("/v1/embeddings", "gpt-5") == "second"
            assert await went("/v1/embeddings", "embed-1") == "first"
            assert await went("/v1/embeddings", "who-knows") is None
            assert await went("/v1/files", None) == "second"
            assert await went("/v1/messages/count_tokens", "claude-4") == "first"
            version = {"anthropic-version": "2023-06-01"}
            assert await went("/v1/files", None, **version) == "first"
            assert await went("/v1/responses/resp_1/cancel", None) == "second"


@pytest.mark.parametrize("path", BODIES)
async def test_with_keys_only_those_get_through_who_have_one(path, provider, client):
    with gateway_at(*upstreams_at(provider, key="sk-ours"), keys={"ci": KEY}) as address:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": KEY[:-1]}):
            status, _, body = await called(
                client, "POST", address + path, json=BODIES[path], headers=headers
            )
            assert status == 401
            assert KEY not in body.decode()
        assert provider.requests == []
        for headers in (
            {"authorization": f"Bearer {KEY}"},
            {"x-api-key": KEY},
            {"x-checkrail-key": KEY},
        ):
            status, _, _ = await called(
                client, "POST", address + path, json=BODIES[path], headers=headers
            )
            assert status == 200
            assert KEY not in str(provider.last.headers)


async def test_a_key_for_the_upstream_beside_the_gateways_is_passed_on(provider, client):
    with gateway_at(*upstreams_at(provider), keys={"ci": KEY}) as address:
        headers = {"x-checkrail-key": KEY, "authorization": "Bearer sk-caller"}
        await called(client, "POST", address + CHAT, json=BODIES[CHAT], headers=headers)
    assert provider.last.header("authorization") == "Bearer sk-caller"
    assert KEY not in str(provider.last.headers)


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}]
)
async def test_without_keys_no_page_of_elsewhere_gets_through(headers, provider, gateway, client):
    status, _, _ = await called(client, "POST", gateway + CHAT, json=BODIES[CHAT], headers=headers)
    assert (status, provider.requests) == (403, [])


@pytest.mark.parametrize("path", [*BODIES, "/v1/other"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_goes_away_cancels_the_upstream(path, stream, provider, gateway, client):
    provider.say(Say("Hello there", waits=2) if stream else Hang())
    body = {**BODIES.get(path, {}), "stream": stream}
    task = asyncio.create_task(called(client, "POST", gateway + path, json=body))
    await provider.until_reached()
    task.cancel()
    await provider.until_gone()


async def test_a_caller_who_goes_away_in_the_middle_of_an_upload_cancels_the_upstream(
    provider, gateway, client
):
    begun = asyncio.Event()

    async def pieces():
        yield b"one"
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(called(client, "POST", f"{gateway}/v1/files", data=pieces()))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await called(client, "POST", gateway + CHAT, json=BODIES[CHAT]))[0] == 200


async def test_many_calls_on_one_connection_are_all_answered(provider, gateway, client):
    for _ in range(20):
        status, _, _ = await called(client, "POST", gateway + CHAT, json=BODIES[CHAT])
        assert status == 200


async def test_what_nobody_foresaw_is_told_without_details_and_logged_once(
    provider, client, caplog
):
    class Broken:
        async def admit(self, scope):
            raise ZeroDivisionError(WORDS)

    with gateway_at(*upstreams_at(provider), door=Broken()) as address:
        status, _, body = await called(client, "POST", address + CHAT, json=BODIES[CHAT])
    assert (status, told(body)) == (500, "The gateway failed; its log says where")
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "ZeroDivisionError" in record.getMessage()
    assert "admit" in record.getMessage()
    assert WORDS not in caplog.text


async def test_what_is_passed_on_and_breaks_off_breaks_off(provider, gateway, client):
    provider.say(Say("Hello there", dies=2))
    with pytest.raises(aiohttp.ClientPayloadError):
        await called(client, "POST", f"{gateway}/v1/other", json={"stream": True})


async def test_a_websocket_is_turned_away(provider):
    from checkrail.gateway.app import build_gateway_app

    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    upstreams = Upstreams(())
    app = build_gateway_app(Gateway(HookRegistry(), upstreams, GatewayConfig()), upstreams)
    await app({"type": "websocket", "path": "/v1/realtime", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
