"""Anthropic's models at AWS and Google: the SDK's clients, and requests that are signed anew."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import aiohttp
import anthropic
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from checkrail import Block, Continue, HookRegistry, Replace
from checkrail.builtin import BUILTINS
from checkrail.config.gateway import UpstreamConfig
from checkrail.engine.values import AssistantMessage
from checkrail.llm.aws_frames import (
    FrameSplitter,
    read_frame,
    write_chunk,
    write_exception,
    write_frame,
)
from checkrail.llm.formats import open_format

from .dialects import CLOUDS
from .provider import Fail, Provider, Raw, Received, Say
from .serving import gateway_at
from .talking import Talk

SECRET = "AKIAIOSFODNN7EXAMPLE"
MODEL = "us.anthropic.claude-x-20260101-v1:0"
GOOGLES = "claude-x@20260101"
TRANSFER = ("transfer", {"amount": 98765.25})
SEARCH = ("search", {"q": "x"})
TEXT = "The quick brown fox jumps over the lazy dog."
OURS = Credentials("AKIDOFTHETEAM", "secret-of-the-team", "session-of-the-team")
HI = {"max_tokens": 9, "messages": [{"role": "user", "content": f"I am {SECRET}"}]}


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


@pytest.fixture
def hooks() -> HookRegistry:
    registry = HookRegistry()
    redact = BUILTINS["redact"].make({"kinds": ["secrets"]})
    registry.register(redact, "before_llm_call", name="redact")
    registry.register(lambda event: Block("No moves"), "before_tool_call", tools=["transfer"])
    return registry


@pytest.fixture
def aws(monkeypatch) -> None:
    """Credentials of the gateway, where AWS's libraries look for them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", OURS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", OURS.secret_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", OURS.token)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)


@contextlib.contextmanager
def bedrock_at(provider: Provider, hooks: HookRegistry | None, **more: Any) -> Iterator[str]:
    at = {"region": "us-west-2", "retries": 0, **more.pop("at", {})}
    upstream = UpstreamConfig("bedrock", "bedrock", provider.url, **at)
    with gateway_at(upstream, registry=hooks, **more) as address:
        yield address


def bedrock_client(address: str, **more: Any) -> anthropic.AnthropicBedrock:
    if "api_key" not in more:
        more = {"aws_access_key": "AKIDOFANN", "aws_secret_key": "ann", **more}
    return anthropic.AnthropicBedrock(
        aws_region="eu-west-1", base_url=address, max_retries=0, **more
    )


def check_signature(sent: Received, region: str) -> None:
    """Check as AWS does that a request was signed with the gateway's credentials, as it is."""
    told = dict(
        part.strip().split("=", 1)
        for part in (sent.header("authorization") or "")
        .removeprefix("AWS4-HMAC-SHA256 ")
        .split(",")
    )
    signed = told["SignedHeaders"].split(";")
    assert {"host", "x-amz-date"} <= {*signed}
    headers = {name: sent.header(name) for name in signed}
    host = headers.pop("host")
    request = AWSRequest("POST", f"http://{host}{sent.path}", headers=headers, data=sent.body)
    request.context["timestamp"] = sent.header("x-amz-date")
    auth = SigV4Auth(OURS, "bedrock", region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert told["Signature"] == auth.signature(text, request)
    assert told["Credential"].startswith(f"{OURS.access_key}/")
    assert sent.header("x-amz-security-token") == OURS.token


class TestBedrock:
    @pytest.mark.usefixtures("aws")
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_changed_request_is_signed_anew(self, provider, hooks, stream):
        provider.say(Say("Look:", [TRANSFER, SEARCH]))
        with bedrock_at(provider, hooks) as address, bedrock_client(address) as client:
            if stream:
                with client.messages.stream(model=MODEL, **HI) as events:
                    message = events.get_final_message()
            else:
                message = client.messages.create(model=MODEL, **HI)
        *texts, use = message.content
        assert "No moves" in "".join(text.text for text in texts)
        assert (use.name, use.input) == SEARCH
        sent = provider.last
        check_signature(sent, "us-west-2")
        verb = "invoke-with-response-stream" if stream else "invoke"
        assert sent.path == f"/model/{MODEL}/{verb}"
        assert sent.json["messages"][0]["content"] == "I am [redacted:secrets]"
        assert {"stream"}.isdisjoint(json.loads(sent.body))
        assert "AKIDOFANN" not in str(sent.headers)

    @pytest.mark.usefixtures("aws")
    def test_what_no_hook_changes_is_signed_as_it_came(self, provider):
        with bedrock_at(provider, None) as address, bedrock_client(address) as client:
            client.messages.create(model=MODEL, **HI)
        check_signature(provider.last, "us-west-2")
        assert SECRET.encode() in provider.last.body

    @pytest.mark.usefixtures("aws")
    def test_another_model_and_a_slash_in_its_name(self, provider):
        hooks = HookRegistry()
        arn = "arn:aws:bedrock:us-west-2:1:inference-profile/other"
        hooks.register(lambda event, request: Continue(with_model(request, arn)), "before_llm_call")
        with bedrock_at(provider, hooks) as address, bedrock_client(address) as client:
            client.messages.create(model=MODEL, **HI)
        path = "/model/arn:aws:bedrock:us-west-2:1:inference-profile%2Fother/invoke"
        assert provider.last.path == path
        check_signature(provider.last, "us-west-2")

    def test_a_token_of_the_caller_is_passed_on(self, provider, hooks):
        with (
            bedrock_at(provider, hooks) as address,
            bedrock_client(address, api_key="bedrock-api-key-of-ann") as client,
        ):
            client.messages.create(model=MODEL, **HI)
        assert provider.last.header("authorization") == "Bearer bedrock-api-key-of-ann"

    def test_a_key_of_the_gateway_is_not(self, provider, hooks):
        keys = {"ann": "not-a-real-key-of-ann"}
        at = {"key": "bedrock-api-key-of-the-team"}
        with bedrock_at(provider, hooks, keys=keys, at=at) as address:
            with bedrock_client(address, api_key=keys["ann"]) as client:
                client.messages.create(model=MODEL, **HI)
            told = "not one of the gateway"
            with (
                bedrock_client(address) as other,
                pytest.raises(anthropic.AuthenticationError, match=told),
            ):
                other.messages.create(model=MODEL, **HI)
        (sent,) = provider.requests
        assert sent.header("authorization") == "Bearer bedrock-api-key-of-the-team"

    def test_without_credentials_it_says_so(self, provider, monkeypatch, tmp_path):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        with (
            bedrock_at(provider, None) as address,
            bedrock_client(address) as client,
            pytest.raises(anthropic.APIStatusError, match="no credentials of AWS") as caught,
        ):
            client.messages.create(model=MODEL, **HI)
        assert caught.value.status_code == 502

    @pytest.mark.usefixtures("aws")
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_block_is_an_error_of_the_client(self, provider, stream):
        hooks = HookRegistry()
        hooks.register(lambda event: Block("We are closed"), "before_llm_call")
        with (
            bedrock_at(provider, hooks) as address,
            bedrock_client(address) as client,
            pytest.raises(anthropic.BadRequestError, match="We are closed"),
        ):
            client.messages.create(model=MODEL, stream=stream, **HI)
        assert provider.requests == []

    @pytest.mark.usefixtures("aws")
    def test_what_the_upstream_refuses_is_told_in_its_words(self, provider, hooks):
        provider.say(Fail(429, "Too many tokens"))
        with (
            bedrock_at(provider, hooks) as address,
            bedrock_client(address) as client,
            pytest.raises(anthropic.RateLimitError, match="Too many tokens"),
        ):
            client.messages.create(model=MODEL, **HI)

    @pytest.mark.usefixtures("aws")
    @pytest.mark.parametrize("rule", [None, "before_tool_call"])
    def test_an_error_within_a_stream_is_raised(self, provider, rule):
        hooks = HookRegistry()
        if rule:
            hooks.register(lambda event: None, rule)
        provider.say(Say(TEXT, dies=6))
        with bedrock_at(provider, hooks) as address, bedrock_client(address) as client:
            stream = client.messages.create(model=MODEL, stream=True, **HI)
            with pytest.raises(anthropic.APIStatusError, match="broke off"):
                list(stream)

    @pytest.mark.usefixtures("aws")
    @pytest.mark.parametrize(
        "path",
        [
            f"//model/{MODEL}/invoke",
            f"/model/{MODEL}/Invoke",
            f"/model/{MODEL}/./invoke",
            f"/model/{MODEL.replace(':', '%3A')}/invoke",
        ],
    )
    async def test_hooks_hold_however_it_is_spelled(self, provider, hooks, path):
        with bedrock_at(provider, hooks) as address:
            status, _ = await post(address + path, HI)
        assert (status, provider.last.path) == (200, f"/model/{MODEL}/invoke")
        assert SECRET.encode() not in provider.last.body

    @pytest.mark.parametrize(
        "path",
        [f"/model/{MODEL}/converse", f"/x/model/{MODEL}/invoke", f"/v1/model/{MODEL}/invoke"],
    )
    async def test_no_other_path_calls_a_model(self, provider, path):
        with bedrock_at(provider, None) as address:
            assert (await post(address + path, HI))[0] == 404
        assert provider.requests == []

    async def test_a_model_in_the_body_is_refused(self, provider, hooks):
        with bedrock_at(provider, hooks) as address:
            status, told = await post(f"{address}/model/{MODEL}/invoke", {**HI, "model": "x"})
        assert (status, told["code"]) == (400, "invalid_request")
        assert provider.requests == []


def with_model(request: Any, model: str) -> Any:
    kept = {name: getattr(request, name) for name in request.__slots__}
    return type(request)(**{**kept, "model": model})


async def post(url: str, body: Any) -> tuple[int, Any]:
    headers = {"authorization": "Bearer token-of-ann"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers) as answer,
    ):
        return answer.status, json.loads(await answer.read())


class TestFrames:
    def test_they_are_those_of_aws(self):
        buffer = EventStreamBuffer()
        buffer.add_data(write_chunk(b'{"type": "ping"}') + write_exception("xException", "no"))
        event, error = (message.to_response_dict() for message in buffer)
        assert json.loads(base64.b64decode(json.loads(event["body"])["bytes"])) == {"type": "ping"}
        assert (event["headers"][":event-type"], event["status_code"]) == ("chunk", 200)
        assert error["headers"][":exception-type"] == "xException"
        assert error["status_code"] == 400

    @pytest.mark.parametrize("size", [1, 5, 16, 1000])
    def test_no_cut_loses_a_byte(self, size):
        raw = write_chunk(b'{"a": 1}') + write_chunk(b'{"b": 2}') + write_exception("x", "no")
        splitter = FrameSplitter()
        cut = [raw[at : at + size] for at in range(0, len(raw), size)]
        pieces = [piece for chunk in cut for piece in splitter.feed(chunk)]
        assert b"".join(piece.raw for piece in pieces) == raw
        assert [json.loads(piece.data) for piece in pieces] == [
            {"a": 1},
            {"b": 2},
            {"type": "error", "error": {"type": "x", "message": "no"}},
        ]
        assert splitter.finish() == []

    @pytest.mark.parametrize(
        "raw",
        [
            write_chunk(b"{}")[:-1] + b"\x00",
            b"\x00\x00\x00\x01" + bytes(20),
            b"\xff" * 40,
            write_frame({":message-type": "event", ":event-type": "other"}, b"{}"),
            write_frame({":message-type": "event", ":event-type": "chunk"}, b'{"bytes": "%"}'),
            write_frame({":message-type": "event", ":event-type": "chunk"}, b"no json"),
            write_chunk(b"{}")[:30],
        ],
    )
    async def test_what_is_none_gets_past_no_rule(self, provider, raw):
        splitter = FrameSplitter()
        pieces = [*splitter.feed(raw), *splitter.finish()]
        assert b"".join(piece.raw for piece in pieces) == raw
        assert any(piece.odd for piece in pieces)
        kind = {"content-type": "application/vnd.amazon.eventstream"}
        provider.say(Raw([raw], headers=kind))
        async with Talk(CLOUDS["bedrock"], provider, stream=True) as talk:
            talk.hooks.register(lambda event: None, "after_llm_call", lane="gate")
            got = await talk.reply()
        assert (got.status, raw in got.content) == (502, False)

    def test_headers_of_other_types_are_read_over(self):
        others = [b"\x00", b"\x04" + bytes(4), b"\x06\x00\x02xy", b"\x09" + bytes(16)]
        headers = b"".join(b"\x01a" + value for value in others) + b"\x01e\x07\x00\x01f"
        head = struct.pack(">II", 16 + len(headers) + 2, len(headers))
        body = head + struct.pack(">I", zlib.crc32(head)) + headers + b"{}"
        raw = body + struct.pack(">I", zlib.crc32(body))
        assert read_frame(raw) == ({"e": "f"}, b"{}")

    async def test_a_hook_answers_in_frames(self, provider):
        async with Talk(CLOUDS["bedrock"], provider, stream=True) as talk:
            talk.hooks.register(lambda event: Replace(AssistantMessage("known")), "before_llm_call")
            got = await talk.ask()
        assert (got.heard.text, got.heard.ended) == ("known", True)


PLACE = "/projects/p-1/locations/us-east5/publishers/anthropic/models"


@contextlib.contextmanager
def vertex_at(provider: Provider, hooks: HookRegistry | None, **more: Any) -> Iterator[str]:
    upstream = UpstreamConfig("vertex", "vertex", provider.url, retries=0, **more.pop("at", {}))
    with gateway_at(upstream, registry=hooks, **more) as address:
        yield address


def vertex_client(address: str, token: str = "ya29.of-ann") -> anthropic.AnthropicVertex:
    return anthropic.AnthropicVertex(
        region="us-east5", project_id="p-1", access_token=token, base_url=address, max_retries=0
    )


@pytest.fixture
def google(monkeypatch, tmp_path, provider) -> None:
    """A service account of the gateway, whose tokens the provider gives out."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    written = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "1",
        "private_key": written.decode(),
        "client_email": "gateway@p-1.iam.gserviceaccount.com",
        "token_uri": f"{provider.url}/token",
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    token = {"access_token": "ya29.of-the-team", "expires_in": 3600, "token_type": "Bearer"}
    provider.say(Raw([json.dumps(token).encode()], headers={"content-type": "application/json"}))


class TestVertex:
    @pytest.mark.parametrize("base", ["", "/v1"])
    @pytest.mark.parametrize("stream", [False, True])
    def test_a_rule_holds_for_its_client(self, provider, hooks, stream, base):
        provider.say(Say("Look:", [TRANSFER, SEARCH]))
        with vertex_at(provider, hooks) as address, vertex_client(address + base) as client:
            if stream:
                with client.messages.stream(model=GOOGLES, **HI) as events:
                    message = events.get_final_message()
            else:
                message = client.messages.create(model=GOOGLES, **HI)
        *texts, use = message.content
        assert "No moves" in "".join(text.text for text in texts)
        assert (use.name, use.input) == SEARCH
        verb = "streamRawPredict" if stream else "rawPredict"
        assert provider.last.path == f"/v1{PLACE}/{GOOGLES}:{verb}"
        assert provider.last.header("authorization") == "Bearer ya29.of-ann"
        assert SECRET.encode() not in provider.last.body
        sent = json.loads(provider.last.body)
        assert ("anthropic_version" in sent, "model" in sent) == (True, False)

    @pytest.mark.usefixtures("google")
    def test_the_gateway_has_a_token_of_its_own(self, provider, hooks):
        keys = {"ann": "not-a-real-key-of-ann"}
        with (
            vertex_at(provider, hooks, keys=keys) as address,
            vertex_client(address, keys["ann"]) as client,
        ):
            for _ in range(2):
                client.messages.create(model=GOOGLES, **HI)
        token, *sent = provider.requests
        assert token.path == "/token"
        assert [each.header("authorization") for each in sent] == ["Bearer ya29.of-the-team"] * 2

    def test_tokens_are_counted_past_no_rule(self, provider, hooks):
        provider.say(Raw([b'{"input_tokens": 3}'], headers={"content-type": "application/json"}))
        with vertex_at(provider, hooks) as address, vertex_client(address) as client:
            told = client.messages.count_tokens(model=GOOGLES, messages=HI["messages"])
        assert told.input_tokens == 3
        assert provider.last.path == f"/v1{PLACE}/count-tokens:rawPredict"
        assert SECRET.encode() not in provider.last.body
        assert json.loads(provider.last.body)["model"] == GOOGLES

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_block_is_an_error_of_the_client(self, provider, stream):
        hooks = HookRegistry()
        hooks.register(lambda event: Block("We are closed"), "before_llm_call")
        with (
            vertex_at(provider, hooks) as address,
            vertex_client(address) as client,
            pytest.raises(anthropic.BadRequestError, match="We are closed"),
        ):
            client.messages.create(model=GOOGLES, stream=stream, **HI)

    def test_another_model_stands_in_the_path(self):
        made = open_format(f"/v1{PLACE}/a:streamRawPredict")
        assert made is not None
        assert (made.name, made.model) == ("vertex", "a")
        assert made.target_path(made.path, "b@1") == f"/v1{PLACE}/b@1:streamRawPredict"
        assert open_format(f"/v1{PLACE}/a:predict") is None
