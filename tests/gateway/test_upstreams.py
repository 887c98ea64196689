"""Upstreams: who takes a model, what they are sent, and what becomes of those that fail."""

import asyncio
import contextlib
import json
import socket

import pytest

from checkrail.config.gateway import UpstreamConfig
from checkrail.gateway.upstreams import NoUpstreamError, UpstreamError, Upstreams

from .provider import CHAT, MESSAGES, Fail, Garbage, Hang, Provider, Raw, Say

BODY = json.dumps({"model": "model-1", "messages": [{"role": "user", "content": "Hi"}]}).encode()
STREAM = json.dumps({"model": "model-1", "messages": [], "stream": True}).encode()
KEY = "sk-of-the-caller"


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture
def other():
    with Provider(models=("model-2",)) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(*configs):
    upstreams = Upstreams(configs)
    try:
        yield upstreams
    finally:
        await upstreams.close()


def at(provider, name="first", format="chat", **more):
    return UpstreamConfig(name, format, f"{provider.url}/v1", **more)


def nowhere(name="gone", **more):
    """An upstream where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    return UpstreamConfig(name, "chat", f"http://127.0.0.1:{port}/v1", **more)


async def asked(*configs, body=BODY, headers=(), path=CHAT, model="model-1", query=b""):
    """Ask the upstreams, and give the status and the whole body."""
    async with opened(*configs) as upstreams:
        route = upstreams.find_route(configs[0].format, model)
        sent = await route.send(path, body, headers, query)
        return sent.status, sent.headers, await sent.read()


async def test_the_body_and_the_answer_pass_byte_for_byte(provider):
    odd = b'{ "model":"model-1",\n\t"messages": [], "n\xc3\xa4chstes": 1.0e3 }'
    answer = [b'{"a" : 1.50', b",\n", b'"b":"\\u00e4"} ']
    provider.say(Raw(answer))
    status, _, body = await asked(at(provider), body=odd, query=b"beta=true&x=%2F")
    assert (status, body) == (200, b"".join(answer))
    assert provider.last.body == odd
    assert (provider.last.path, provider.last.query) == (CHAT, "beta=true&x=%2F")


async def test_headers_are_passed_on_except_those_of_the_connection_and_our_own(provider):
    headers = [
        (b"host", b"gateway.example"),
        (b"content-length", b"5"),
        (b"content-type", b"application/json"),
        (b"accept-encoding", b"gzip, br"),
        (b"connection", b"keep-alive, x-hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"transfer-encoding", b"chunked"),
        (b"cookie", b"session=1"),
        (b"x-checkrail-user", b"ada"),
        (b"user-agent", b"agent/1"),
        (b"anthropic-beta", "é".encode()),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
    ]
    await asked(at(provider), headers=headers)
    got = sorted((name.lower(), value) for name, value in provider.last.headers)
    assert got == sorted(
        [
            ("host", f"127.0.0.1:{provider.port}"),
            ("content-length", str(len(BODY))),
            ("content-type", "application/json"),
            ("accept-encoding", "identity"),
            ("user-agent", "agent/1"),
            ("anthropic-beta", "é".encode().decode("latin-1")),
            ("x-twice", "1"),
            ("x-twice", "2"),
        ]
    )


async def test_of_several_keys_only_that_is_sent_which_is_counted(provider):
    spare = (b"x-goog-api-key", b"anything")
    key = (b"authorization", b"Bearer sk-1")
    await asked(at(provider), headers=[spare, key])
    assert provider.last.header("authorization") is None
    same = [key, (b"x-api-key", b"sk-1"), spare]
    await asked(at(provider), headers=same)
    assert provider.last.header("authorization") == "Bearer sk-1"
    assert provider.last.header("x-api-key") == "sk-1"
    assert provider.last.header("x-goog-api-key") is None


async def test_no_header_makes_another_method_of_a_request(provider):
    await asked(at(provider), headers=[(b"x-http-method-override", b"PUT")])
    assert provider.last.header("x-http-method-override") is None


async def test_an_upstream_cannot_speak_for_the_gateway(provider):
    provider.say(Say("Hi", headers={"x-checkrail-request-id": "made-up"}))
    _, headers, _ = await asked(at(provider))
    assert not [name for name, _ in headers if name.startswith(b"x-checkrail-")]


async def test_what_comes_back_has_no_headers_of_the_connection_and_no_compression(provider):
    provider.say(Say("Hi", gzip=True, headers={"x-request-id": "req_1", "set-cookie": "a=b"}))
    _, headers, body = await asked(at(provider))
    assert json.loads(body)["choices"][0]["message"]["content"] == "Hi"
    names = {name for name, _ in headers}
    assert (b"x-request-id", b"req_1") in headers
    gone = {b"content-encoding", b"content-length", b"connection", b"set-cookie", b"date"}
    assert not names & gone


async def test_a_compressed_stream_is_decoded_as_it_comes(provider):
    provider.say(Say("Hello there", gzip=True, waits=3))
    async with opened(at(provider)) as upstreams:
        sent = await upstreams.find_route("chat", None).send(CHAT, STREAM, ())
        chunks = sent.chunks()
        first = await anext(chunks)
        assert first.startswith(b"data: {")
        await provider.until_reached()
        provider.go_on()
        rest = [chunk async for chunk in chunks]
        assert b"".join(rest).endswith(b"data: [DONE]\n\n")


OURS = {
    "chat": ("authorization", "Bearer sk-ours"),
    "responses": ("authorization", "Bearer sk-ours"),
    "messages": ("x-api-key", "sk-ours"),
}


@pytest.mark.parametrize("format", OURS)
@pytest.mark.parametrize("form", [b"authorization", b"x-api-key", b"api-key"])
async def test_a_configured_key_takes_the_place_of_the_callers_in_every_form(
    format, form, provider
):
    sent = [(form, f"Bearer {KEY}".encode()), (b"openai-organization", b"org-of-the-caller")]
    await asked(at(provider, format=format, key="sk-ours"), headers=sent)
    name, value = OURS[format]
    assert provider.last.header(name) == value
    assert KEY not in str(provider.last.headers)
    assert "org-of-the-caller" not in str(provider.last.headers)


async def test_without_a_key_the_callers_is_passed_on_as_it_came(provider):
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"x-api-key", KEY.encode())]
    await asked(at(provider), headers=headers)
    assert provider.last.header("authorization") == f"Bearer {KEY}"
    assert provider.last.header("x-api-key") == KEY


async def test_a_configured_header_that_is_a_key_replaces_the_callers_too(provider):
    upstream = at(provider, headers={"api-key": "ours", "User-Agent": "gateway"})
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"user-agent", b"agent/1")]
    await asked(upstream, headers=headers)
    assert provider.last.header("api-key") == "ours"
    assert provider.last.header("user-agent") == "gateway"
    assert KEY not in str(provider.last.headers)


async def test_the_callers_key_does_not_go_to_somebody_else_who_is_fallen_back_to(provider, other):
    provider.always(Fail(503))
    headers = [(b"authorization", f"Bearer {KEY}".encode()), (b"x-api-key", KEY.encode())]
    status, _, _ = await asked(
        at(provider, retries=0), at(other, "second", retries=0), headers=headers
    )
    assert status == 200
    assert provider.last.header("authorization") == f"Bearer {KEY}"
    assert KEY not in str(other.last.headers)


def test_the_first_upstream_whose_patterns_fit_takes_a_model():
    upstreams = Upstreams(
        [
            UpstreamConfig("a", "chat", "http://a.example", ("gpt-*", "o3")),
            UpstreamConfig("b", "chat", "http://b.example", ("/^llama/",), provider="meta"),
            UpstreamConfig("c", "messages", "http://c.example"),
            UpstreamConfig("d", "chat", "http://d.example"),
        ]
    )
    found = {
        model: upstreams.find_route("chat", model).name
        for model in ("gpt-5", "o3", "o3-mini", "llama3", "groq/x")
    }
    assert found == {"gpt-5": "a", "o3": "a", "o3-mini": "d", "llama3": "b", "groq/x": "d"}
    assert repr(upstreams.find_route("chat", "gpt-5")) == "Route(a → d)"
    assert upstreams.find_route("chat", None).name == "a"
    providers = [
        upstreams.find_route("chat", each).provider for each in ("gpt-5", "llama3", "groq/x")
    ]
    assert providers == ["a", "meta", "groq"]


def test_a_model_that_nobody_takes_is_told_with_what_is_configured():
    upstreams = Upstreams([UpstreamConfig("a", "chat", "http://a.example", ("gpt-*",), key="k")])
    with pytest.raises(NoUpstreamError) as raised:
        upstreams.find_route("chat", "claude")
    assert raised.value.status == 404
    assert str(raised.value) == (
        "no upstream of the API 'chat' takes the model 'claude'. "
        "Configured under gateway.upstreams: a (chat: gpt-*)"
    )
    with pytest.raises(NoUpstreamError, match="no upstream speaks the API 'messages'"):
        upstreams.find_route("messages", "claude")


@pytest.mark.parametrize(
    ("format", "suffix", "path", "arrives"),
    [
        ("chat", "", CHAT, "/v1/chat/completions"),
        ("chat", "/", CHAT, "/v1/chat/completions"),
        ("chat", "/v1", CHAT, "/v1/chat/completions"),
        ("chat", "/openai/v1/", CHAT, "/openai/v1/chat/completions"),
        ("chat", "/v1beta/openai", CHAT, "/v1beta/openai/chat/completions"),
        ("messages", "", MESSAGES, "/v1/messages"),
        ("messages", "/v1", MESSAGES, "/v1/messages"),
        ("messages", "/api", MESSAGES, "/api/v1/messages"),
    ],
)
async def test_addresses_are_read_as_the_sdks_read_them(format, suffix, path, arrives, provider):
    await asked(UpstreamConfig("a", format, provider.url + suffix), path=path)
    assert provider.last.path == arrives


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_an_upstream_that_fails_is_asked_again(status, provider):
    provider.say(Fail(status, headers={"retry-after-ms": "1"}), Say("Hi"))
    status, _, body = await asked(at(provider))
    assert (status, len(provider.requests)) == (200, 2)
    assert provider.requests[0].body == provider.requests[1].body == BODY
    assert b"Hi" in body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_request_that_is_wrong_is_not_sent_again(status, provider):
    provider.say(Fail(status, "your mistake"))
    found, _, body = await asked(at(provider))
    assert (found, len(provider.requests)) == (status, 1)
    assert b"your mistake" in body


async def test_the_last_failure_reaches_the_caller_as_it_is(provider):
    provider.always(Fail(429, "slow down", {"retry-after": "0", "x-ratelimit-remaining": "0"}))
    status, headers, body = await asked(at(provider, retries=1))
    assert (status, len(provider.requests)) == (429, 2)
    assert (b"retry-after", b"0") in headers
    assert (b"x-ratelimit-remaining", b"0") in headers
    assert b"slow down" in body


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "3600"},
        {"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"},
        {"x-should-retry": "false"},
    ],
)
async def test_nobody_waits_for_an_upstream_that_asks_for_too_much(headers, provider):
    provider.always(Fail(429, headers=headers))
    status, _, _ = await asked(at(provider))
    assert (status, len(provider.requests)) == (429, 1)


@pytest.mark.parametrize("after", ["Fri, 31 Dec 1999 23:59:59 GMT", "0"])
async def test_an_upstream_that_says_when_is_asked_then(after, provider):
    provider.say(Fail(429, headers={"retry-after": after}))
    assert (await asked(at(provider)))[0] == 200


async def test_a_connection_that_cannot_be_made_is_tried_again_and_then_told():
    with pytest.raises(UpstreamError) as raised:
        await asked(nowhere("gone", retries=1, key=KEY))
    assert raised.value.status == 502
    assert str(raised.value).startswith("the upstream 'gone' cannot be reached: ")
    assert KEY not in repr(raised.value)


async def test_an_unknown_host_is_told():
    config = UpstreamConfig("gone", "chat", "http://nowhere.invalid/v1", retries=0)
    with pytest.raises(UpstreamError, match="the upstream 'gone' cannot be reached"):
        await asked(config)


async def test_another_upstream_of_the_format_takes_over(provider, other, caplog):
    provider.always(Fail(500))
    calls = (
        nowhere("a", retries=0),
        at(provider, "b", retries=0),
        at(provider, "c", "messages"),
        at(provider, "d", models=("gpt-*",)),
        at(other, "e", key="sk-other"),
    )
    async with opened(*calls) as upstreams:
        sent = await upstreams.find_route("chat", "model-1").send(CHAT, BODY, ())
        assert (sent.status, sent.name) == (200, "e")
        await sent.close()
    assert (len(provider.requests), len(other.requests)) == (1, 1)
    assert other.last.header("authorization") == "Bearer sk-other"
    assert caplog.messages == [
        "the upstream 'a' cannot be reached: Connection refused: another one is asked",
        "the upstream 'b' answered 500: another one is asked",
    ]


async def test_an_answer_that_failed_is_better_than_none(provider, caplog):
    provider.always(Fail(429, "slow down"))
    status, _, body = await asked(at(provider, retries=0), nowhere(retries=0))
    assert status == 429
    assert b"slow down" in body
    first, last = caplog.messages
    assert first == "the upstream 'first' answered 429: another one is asked"
    assert last.endswith("the caller is told")


async def test_an_upstream_that_hangs_is_given_up_and_the_next_is_asked(provider, other):
    provider.always(Hang())
    status, _, _ = await asked(at(provider, first_byte_seconds=0.2), at(other, "second"))
    assert (status, len(provider.requests)) == (200, 1)
    await provider.until_gone()


async def test_an_upstream_that_hangs_alone_is_told_as_504(provider):
    provider.always(Hang())
    with pytest.raises(UpstreamError, match="the upstream 'first' did not answer in time") as error:
        await asked(at(provider, first_byte_seconds=0.2))
    assert error.value.status == 504


async def test_an_answer_that_takes_too_long_in_all_is_given_up(provider):
    provider.say(Say("Hello there", waits=3))
    async with opened(at(provider, timeout_seconds=0.5)) as upstreams:
        sent = await upstreams.find_route("chat", None).send(CHAT, STREAM, ())
        with pytest.raises(UpstreamError, match="did not finish its answer in time") as error:
            [chunk async for chunk in sent.chunks()]
        assert error.value.status == 504
    await provider.until_gone()


async def test_an_upstream_that_dies_in_mid_stream_is_told(provider, caplog):
    provider.say(Say("Hello there", dies=3))
    async with opened(at(provider)) as upstreams:
        sent = await upstreams.find_route("chat", None).send(CHAT, STREAM, ())
        chunks = sent.chunks()
        assert (await anext(chunks)).startswith(b"data: {")
        with pytest.raises(UpstreamError, match="broke off in the middle") as error:
            [chunk async for chunk in chunks]
        assert error.value.status == 502
    assert len(provider.requests) == 1
    assert caplog.messages == ["the upstream 'first' broke off in the middle of its answer"]


async def test_an_upstream_that_dies_in_the_middle_of_a_whole_answer_is_told(provider):
    provider.say(Say("Hello there", dies=1))
    with pytest.raises(UpstreamError, match="broke off in the middle"):
        await asked(at(provider))


async def test_an_upstream_that_speaks_no_http_is_told(provider):
    provider.always(Garbage())
    with pytest.raises(UpstreamError) as error:
        await asked(at(provider))
    assert error.value.status == 502
    assert "nothing that anybody knows" not in str(error.value)


async def test_compression_that_is_none_is_told(provider):
    provider.say(Raw([b"no gzip at all"], headers={"content-encoding": "gzip"}))
    with pytest.raises(UpstreamError, match="broke off"):
        await asked(at(provider))


async def test_closing_an_answer_cancels_the_upstream_at_once(provider):
    provider.say(Say("Hello there", waits=2))
    async with opened(at(provider)) as upstreams:
        sent = await upstreams.find_route("chat", None).send(CHAT, STREAM, ())
        await anext(sent.chunks())
        await provider.until_reached()
        await sent.close()
        await provider.until_gone()


async def test_cancelling_a_request_cancels_the_upstream(provider):
    provider.say(Hang())
    async with opened(at(provider)) as upstreams:
        work = upstreams.find_route("chat", None).send(CHAT, BODY, ())
        task = asyncio.create_task(work)
        await provider.until_reached()
        task.cancel()
        await provider.until_gone()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_connections_are_used_again(provider):
    async with opened(at(provider)) as upstreams:
        for _ in range(5):
            sent = await upstreams.find_route("chat", None).send(CHAT, BODY, ())
            await sent.read()
            await sent.close()
    assert {request.connection for request in provider.requests} == {0}


async def test_a_redirect_is_not_followed(provider):
    provider.say(Raw([b""], 307, {"location": "http://elsewhere.example/"}))
    status, headers, _ = await asked(at(provider, key="sk-ours"))
    assert status == 307
    assert (b"location", b"http://elsewhere.example/") in headers


async def test_a_large_body_arrives_whole(provider):
    large = json.dumps({"model": "m", "messages": [], "pad": "x" * 3_000_000}).encode()
    await asked(at(provider), body=large)
    assert provider.last.body == large


async def test_what_comes_in_pieces_is_sent_in_pieces_and_once(provider):
    async def pieces():
        yield b"one"
        yield b"two"

    provider.say(Fail(500))
    async with opened(at(provider), at(provider, "second")) as upstreams:
        route = upstreams.find_route("chat", None)
        sent = await route.send("/v1/files", pieces(), [(b"content-type", b"text/plain")])
        assert sent.status == 500
        await sent.close()
    assert [request.body for request in provider.requests] == [b"onetwo"]


def test_no_key_is_shown(provider):
    upstreams = Upstreams([at(provider, key="sk-ours", headers={"x-token": "tok-ours"})])
    route = upstreams.find_route("chat", None)
    for shown in (repr(upstreams), repr(route), repr(upstreams.configs), str(vars(route))):
        assert "ours" not in shown
