"""Ways around the hooks that somebody might try: odd callers, odd models, odd upstreams."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
import brotli
import pytest
import zstandard

from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry

from .dialects import DIALECTS, EVERY
from .provider import CHAT, Provider, Raw, Received
from .serving import gateway_at, upstreams_at
from .talking import Talk
from .ways_around import PATHS, PAYLOAD, Way, answers, requests
from .ways_around import SECRET as TAKEN_OUT

SECRET = "sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb"
BLOCKED = "hooks: {before_tool_call: [{name: limit, tools: [transfer], block: never}]}"
LIMITED = BLOCKED.replace("block:", "when: tool_call.args.amount > 1000, block:")
REDACTED = "hooks: {after_llm_call: [{name: clean, builtin: redact}]}"
WATCHED = "hooks: {after_llm_call: [{name: seen, builtin: log_response}]}"
NO_REQUESTS = "hooks: {before_llm_call: [{name: no, block: never}]}"

STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
DONE = b"data: [DONE]\n\n"
TWICE = '{"amount": 5000, "amount": 5}'
MIXED = {"role": "assistant", "content": "Hi"}


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


def events(*told: Any) -> bytes:
    """Write events, each with its name if it has one."""
    found = b""
    for each in told:
        name = each.get("type")
        found += b"event: %b\n" % name.encode() if name else b""
        found += b"data: " + json.dumps(each).encode() + b"\n\n"
    return found


def call(arguments: str = "{}", name: str = "transfer", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": 0, "id": "c1", "type": "function", "function": function, **more}


def chunk(finish: str | None = None, delta: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish, **more}
    return {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def calling(*calls: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return chunk(finish, {"tool_calls": [*calls]}, **more)


def completion(message: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"id": "1", "model": "m", "choices": [choice | more]}).encode()


BEGUN = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []},
}
USE = {"type": "tool_use", "id": "t", "name": "transfer", "input": {}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": USE}
TEXT = OPEN | {"content_block": {"type": "text", "text": ""}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
END = {"type": "message_stop"}

CREATED = {"type": "response.created", "response": {"id": "r", "output": []}}
ITEM = {"type": "function_call", "id": "i", "call_id": "c", "name": "transfer", "arguments": "{}"}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": ITEM}
EMPTY = ADDED | {"item": {"type": "message", "id": "i", "role": "assistant", "content": []}}
COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": []}}


def delta(**fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": fields}


def named(name: str, told: Any) -> bytes:
    """Write an event under a name that is not its type."""
    return f"event: {name}\ndata: {json.dumps(told)}\n\n".encode()


def answered(*output: Any) -> dict[str, Any]:
    return {"id": "r", "object": "response", "status": "completed", "output": [*output]}


CALLS = {
    "arguments that say two things": (
        "chat",
        LIMITED,
        events(calling(call(TWICE)), chunk("tool_calls")) + DONE,
    ),
    "arguments that say two things, of messages": (
        "messages",
        LIMITED,
        events(BEGUN, OPEN, delta(type="input_json_delta", partial_json=TWICE), STOP, END),
    ),
    "arguments that say two things, of responses": (
        "responses",
        LIMITED,
        json.dumps(answered(ITEM | {"arguments": TWICE})).encode(),
    ),
    "arguments that are told once more, and otherwise": (
        "responses",
        LIMITED,
        events(
            CREATED,
            ADDED | {"item": ITEM | {"arguments": ""}},
            {
                "type": "response.function_call_arguments.delta",
                "output_index": 0,
                "item_id": "i",
                "delta": TWICE,
            },
            COMPLETED | {"response": answered(ITEM | {"arguments": '{"amount": 5}'})},
        ),
    ),
    "an answer that says two things": (
        "chat",
        BLOCKED,
        completion({"tool_calls": [call()], "odd": 0}).replace(b'"odd": 0', b'"tool_calls": null'),
    ),
    "a piece that says two things": (
        "chat",
        BLOCKED,
        events(calling(call(), finish="stop")).replace(b'"}}]}', b'"}}], "tool_calls": null}')
        + DONE,
    ),
    "a whole message beside the pieces": (
        "chat",
        BLOCKED,
        events(calling(call()), chunk("stop", message=MIXED)) + DONE,
    ),
    "a whole message in place of the pieces": (
        "chat",
        BLOCKED,
        events(chunk("stop", message=MIXED | {"tool_calls": [call()]})) + DONE,
    ),
    "two calls under one number": (
        "chat",
        BLOCKED,
        events(calling(call(name="search", id="")), calling(call(id="")), chunk("tool_calls"))
        + DONE,
    ),
    "two calls under one number, the first without arguments": (
        "chat",
        BLOCKED,
        events(calling(call("", "search")), calling(call(id="")), chunk("tool_calls")) + DONE,
    ),
    "a call of two kinds": (
        "chat",
        BLOCKED,
        completion(
            {"tool_calls": [call(name="search", type="custom", custom={"name": "transfer"})]}
        ),
    ),
    "a call of two kinds in pieces": (
        "chat",
        BLOCKED,
        events(
            calling(call(name="search")),
            calling({"index": 0, "type": "custom", "custom": {"name": "transfer", "input": ""}}),
            chunk("tool_calls"),
        )
        + DONE,
    ),
    "an error that is an answer as well": (
        "chat",
        BLOCKED,
        events(calling(call(), finish="stop") | {"error": {"message": "no"}}) + DONE,
    ),
    "an end that takes the content back": (
        "messages",
        BLOCKED,
        events(BEGUN, OPEN, STOP | {"delta": {"stop_reason": "end_turn", "content": []}}, END),
    ),
    "a call under the name of another event": (
        "messages",
        BLOCKED,
        events(BEGUN) + named("content_block_start", OPEN | {"type": "ping"}) + events(STOP, END),
    ),
    "a call under the name of an error": (
        "messages",
        BLOCKED,
        events(BEGUN) + named("error", OPEN) + events(STOP, END),
    ),
    "an item under the name of another event": (
        "responses",
        BLOCKED,
        events(CREATED)
        + named("response.output_item.added", ADDED | {"type": "keepalive"})
        + events(COMPLETED),
    ),
    "an item in the place of another": (
        "responses",
        BLOCKED,
        events(CREATED, EMPTY, ADDED, COMPLETED),
    ),
    "an answer that is said to be a stream": (
        "chat",
        BLOCKED,
        b" " + completion({"tool_calls": [call()]}),
    ),
    "lines that mean nothing to most": (
        "chat",
        BLOCKED,
        b" " + events(calling(call())) + events(chunk("stop", {"content": "Hi"})) + DONE,
    ),
}


def kind_of(data: bytes) -> dict[str, str]:
    if data.startswith(b"\0"):
        return {"content-type": "application/vnd.amazon.eventstream"}
    return JSON if data.startswith((b"{", b"[")) else STREAM


async def got(talk: Talk, body: Any = None) -> bytes:
    """Give all that a caller gets."""
    reply = await talk.reply(body)
    raw = reply.content
    return raw if isinstance(raw, bytes) else b"".join([piece async for piece in raw])


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {}}}
    for name in ("transfer", "search")
]


class TestAnswers:
    @pytest.mark.parametrize("how", CALLS)
    async def test_no_blocked_call_gets_through(self, how, provider):
        api, rules, data = CALLS[how]
        more = {"tools": TOOLS} if api == "chat" else {}
        async with Talk(DIALECTS[api], provider, ask_usage=False) as talk:
            talk.hooks.swap(load_text(rules).specs)
            provider.say(Raw([data], headers=kind_of(data)))
            raw = await got(talk, DIALECTS[api].request(stream=not data.startswith(b"{"), **more))
        assert b"transfer" not in raw.replace(b"transfer was not called", b"")

    @pytest.mark.parametrize(
        "data",
        [
            completion({"content": "Hi", "reasoning_content": "Hm", "reasoning": SECRET}),
            completion({"content": SECRET}, text=SECRET),
            completion(
                {"content": "Hi", "tool_calls": [call(json.dumps({"key": SECRET}))]},
                logprobs={"content": [{"token": SECRET, "logprob": 0, "top_logprobs": []}]},
            ),
            events(chunk(delta={"reasoning_content": "Hm", "reasoning": SECRET}), chunk("stop"))
            + DONE,
        ],
        ids=["thoughts twice", "a text twice", "logprobs of arguments", "thoughts in pieces"],
    )
    async def test_no_secret_is_told_a_second_time(self, data, provider):
        async with Talk(DIALECTS["chat"], provider, ask_usage=False) as talk:
            talk.hooks.swap(load_text(REDACTED).specs)
            provider.say(Raw([data], headers=kind_of(data)))
            raw = await got(talk)
        assert b"[redacted:secrets]" in raw
        assert SECRET.encode() not in raw

    @pytest.mark.parametrize(
        ("api", "data"),
        [
            (
                "messages",
                events(BEGUN, TEXT, delta(type="thinking_delta", thinking=SECRET), STOP, END),
            ),
            ("messages", events(BEGUN, OPEN, delta(type="text_delta", text=SECRET), STOP, END)),
            (
                "responses",
                events(
                    {"type": "response.odd", "response": answered({"type": "odd", "text": SECRET})},
                    COMPLETED
                    | {
                        "response": answered(
                            {
                                "type": "message",
                                "id": "m",
                                "content": [{"type": "output_text", "text": SECRET}],
                            }
                        )
                    },
                ),
            ),
        ],
        ids=["a thought in a text", "a text in a call", "an event that nobody knows"],
    )
    async def test_no_secret_is_told_where_nobody_looks(self, api, data, provider):
        async with Talk(DIALECTS[api], provider) as talk:
            talk.hooks.swap(load_text(REDACTED).specs)
            provider.say(Raw([data], headers=STREAM))
            raw = await got(talk)
        assert SECRET.encode() not in raw

    @pytest.mark.parametrize("name", ["Transfer", " transfer", "TRANSFER\n"])
    async def test_a_name_that_a_client_may_take_for_that_of_a_tool_is(self, name, provider):
        async with Talk(DIALECTS["chat"], provider) as talk:
            talk.hooks.swap(load_text(BLOCKED).specs)
            answer = completion({"tool_calls": [call(name=name), call(name="search", id="c2")]})
            provider.say(Raw([answer], headers=JSON))
            told = await talk.ask(DIALECTS["chat"].request(tools=TOOLS))
            provider.say(Raw([answer], headers=JSON))
            assert await got(talk) == answer
        assert told.heard.calls == [("search", {})]

    @pytest.mark.parametrize("status", [301, 307, 308])
    async def test_no_caller_is_led_past_the_hooks(self, status, provider):
        async with Talk(DIALECTS["chat"], provider) as talk:
            talk.hooks.swap(load_text(WATCHED).specs)
            provider.say(Raw([b""], status, {"location": "https://models.example/v1"}))
            reply = await talk.reply()
        assert reply.status == 502
        assert b"redirects" in reply.content
        assert not any(name == b"location" for name, _ in reply.headers)

    async def test_an_answer_that_only_the_caller_can_decode_is_refused(self, provider):
        async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
            talk.hooks.swap(load_text(BLOCKED).specs)
            provider.say(
                Raw([b"\x1f\x8b"], headers=STREAM | {"content-encoding": "identity, gzip"})
            )
            reply = await talk.reply()
        assert reply.status == 502
        assert b"compressed in a way that was not asked" in reply.content


class TestOddButHarmless:
    async def test_a_whole_message_at_the_end_that_says_the_same(self, provider):
        whole = MIXED | {"content": "Hello", "tool_calls": [call(name="search")], "name": "Max"}
        told = [chunk(delta={"content": "Hel"}), chunk(delta={"content": "lo"})]
        data = events(*told, calling(call(name="search")), chunk("stop", message=whole)) + DONE
        async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
            talk.hooks.swap(load_text(BLOCKED).specs)
            provider.say(Raw([data], headers=STREAM))
            assert await got(talk) == data

    async def test_a_custom_call_that_is_named_late(self, provider):
        late = {"index": 0, "custom": {"name": "search", "input": "x"}}
        data = events(calling({"index": 0, "id": "a", "type": "custom"}), calling(late))
        data += events(chunk("tool_calls")) + DONE
        async with Talk(DIALECTS["chat"], provider, stream=True) as talk:
            talk.hooks.swap(load_text(BLOCKED).specs)
            provider.say(Raw([data], headers=STREAM))
            assert await got(talk) == data

    @pytest.mark.parametrize(
        "data",
        [
            CALLS["an answer that says two things"][2],
            CALLS["a piece that says two things"][2],
            CALLS["a whole message beside the pieces"][2],
            CALLS["lines that mean nothing to most"][2],
        ],
        ids=["an answer", "a piece", "a message", "lines"],
    )
    async def test_who_only_watches_stops_nothing(self, data, provider, caplog):
        async with Talk(DIALECTS["chat"], provider, ask_usage=False) as talk:
            talk.hooks.swap(load_text(WATCHED).specs)
            provider.say(Raw([data], headers=kind_of(data)))
            assert await got(talk) == data


def sent(port: int, head: bytes, body: bytes) -> bytes:
    """Send a request that no client would send, and give what comes back."""
    lines = [head, b"host: 127.0.0.1", b"connection: close", b"content-length: %d" % len(body)]
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        return b"".join(iter(lambda: connection.recv(65536), b""))


ASKED = '{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'


class TestRequests:
    @pytest.mark.parametrize("http", ["h11", "httptools"])
    @pytest.mark.parametrize("line", ["post {}", "POST {}#x", "Post {}"])
    def test_no_request_line_leads_around_the_hooks(self, http, line, provider):
        registry = HookRegistry()
        registry.swap(load_text(NO_REQUESTS).specs)
        with gateway_at(*upstreams_at(provider), registry=registry, http=http) as address:
            port = int(address.rpartition(":")[2])
            head = f"{line.format(CHAT)} HTTP/1.1".encode()
            answer = sent(port, head, ASKED.encode())
        assert answer.split()[1] in (b"400", b"403")
        assert provider.requests == []

    @pytest.mark.parametrize(
        "body",
        [
            ASKED.replace("{", '{"messages": [], ', 1),
            ASKED.replace('"content"', '"content": "x", "content"'),
            ASKED.replace('"content"', '"content": "x", "\\u0063ontent"'),
            ASKED.replace("{", '{"Messages": [], ', 1),
            ASKED.replace("{", '{"max_tokens": 1, "MAX_TOKENS": 2, ', 1),
            ASKED.replace('"content"', '"Content": "x", "content"'),
            ASKED.replace('"Hi"', '[{"type": "text", "text": "x", "Text": "y"}]'),
            ASKED.replace("{", '{"tools": [{"Function": {"name": "transfer"}}], ', 1),
            ASKED.replace("{", '{"tools": [{"function": {"Name": "transfer"}}], ', 1),
        ],
    )
    async def test_a_request_that_can_be_read_in_two_ways_is_refused(self, body, provider):
        async with Talk(DIALECTS["chat"], provider) as talk:
            talk.hooks.swap(load_text(WATCHED).specs)
            told = await talk.ask(body.encode())
        assert (told.status, told.heard.error["code"]) == (400, "invalid_request")
        assert provider.requests == []

    async def test_names_that_are_the_callers_own_are_spelled_as_they_like(self, provider):
        schema = {"type": "object", "properties": {"Name": {}, "name": {}}}
        tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
        body = {**json.loads(ASKED), "tools": [tool], "metadata": {"Type": "x"}, "safetyLevel": 1}
        async with Talk(DIALECTS["chat"], provider) as talk:
            talk.hooks.swap(load_text(WATCHED).specs)
            told = await talk.ask(body)
        assert (told.status, provider.last.json) == (200, body)


GUARDED = """
hooks:
  before_llm_call: [{name: clean, builtin: redact}]
  before_tool_call: [{name: limit, tools: [transfer], block: never}]
"""
OFFERED = {
    "chat": TOOLS,
    "messages": [{"name": name, "input_schema": {}} for name in ("transfer", "search")],
    "responses": [{"type": "function", "name": name} for name in ("transfer", "search")],
    "gemini": [{"functionDeclarations": [{"name": name} for name in ("transfer", "search")]}],
}
OFFERED |= dict.fromkeys(("bedrock", "vertex"), OFFERED["messages"])
REQUESTS = [pytest.param(way, id=how) for how, way in requests()]
ANSWERS = [pytest.param(api, data, id=how) for how, api, data in answers()]


@pytest.fixture(scope="module")
def recorder():
    with Provider() as made:
        yield made


@pytest.fixture(scope="module")
def guarded(recorder):
    registry = HookRegistry()
    registry.swap(load_text(GUARDED).specs)
    with gateway_at(*upstreams_at(recorder), registry=registry) as address:
        yield address


@pytest.fixture(scope="module")
def open_gateway(recorder):
    with gateway_at(*upstreams_at(recorder)) as address:
        yield address


def readings(received: Received) -> Iterator[str]:
    """Yield all that somebody might read in a request."""
    yield unquote(f"{received.path}?{received.query}") + str(received.headers)
    bodies = [received.body]
    for unpack in (gzip.decompress, zlib.decompress, brotli.decompress, zstandard.decompress):
        with contextlib.suppress(Exception):
            bodies.append(unpack(received.body))
    for body in bodies:
        for letters in ("utf-8", "utf-16", "utf-16-be", "utf-32", "cp500"):
            yield body.decode(letters, "ignore")
        with contextlib.suppress(ValueError, RecursionError):
            yield json.dumps(json.loads(body), ensure_ascii=False)


def exchanged(address: str, data: bytes) -> bytes:
    """Send bytes, and give what comes back until the connection ends."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


async def answer_to(address: str, api: str, data: bytes, recorder: Provider) -> bytes:
    """Call a model that answers with this, and give what comes of it."""
    name = PATHS[api]
    body = EVERY[name].request(stream=not data.startswith(b"{"), tools=OFFERED[name])
    path, body = EVERY[name].sent(api, body)
    path = path.partition("?")[0] if data.startswith(b"[") else path
    recorder.anew()
    recorder.say(Raw([data], headers=kind_of(data)))
    async with (
        aiohttp.ClientSession() as client,
        client.post(address + path, json=body) as response,
    ):
        return await response.read()


class TestTheList:
    """What somebody might try from outside, through a real gateway, past a real upstream."""

    def test_it_is_long_enough(self):
        assert len(REQUESTS) + len(ANSWERS) >= 170

    @pytest.mark.parametrize("way", REQUESTS)
    def test_no_request_carries_a_secret_past_the_hooks(self, way, guarded, recorder):
        recorder.anew()
        exchanged(guarded, way.write())
        for received in recorder.requests:
            assert not any(TAKEN_OUT in text for text in readings(received))

    @pytest.mark.parametrize(("api", "data"), ANSWERS)
    async def test_no_answer_carries_a_call_past_the_hooks(self, api, data, guarded, recorder):
        assert PAYLOAD.encode() not in await answer_to(guarded, api, data, recorder)
        assert len(recorder.requests) == 1

    @pytest.mark.parametrize("blocked_tool", ["continue", "drop"])
    async def test_no_call_arrives_whatever_becomes_of_a_blocked_one(self, blocked_tool, recorder):
        registry = HookRegistry()
        registry.swap(load_text(GUARDED).specs)
        upstreams = upstreams_at(recorder)
        with gateway_at(*upstreams, registry=registry, blocked_tool=blocked_tool) as at:
            for how, api, data in answers():
                assert PAYLOAD.encode() not in await answer_to(at, api, data, recorder), how

    async def test_without_hooks_the_calls_of_the_list_do_arrive(self, open_gateway, recorder):
        for how, api, data in answers():
            came = await answer_to(open_gateway, api, data, recorder)
            assert came == data, how

    def test_without_hooks_most_requests_of_the_list_do_arrive(self, open_gateway, recorder):
        arrived = 0
        for _, way in requests():
            recorder.anew()
            exchanged(open_gateway, way.write())
            told = (text for received in recorder.requests for text in readings(received))
            arrived += any(TAKEN_OUT in text for text in told)
        assert arrived >= 100


DOCS = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()
SECTION = DOCS.partition("## What no hook sees")[2].partition("\n## ")[0]
KIND = "content-type: application/json"
CALL_OF_CHAT = json.loads(completion({"tool_calls": [call(json.dumps({"note": PAYLOAD}))]}))
PLAIN = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'

UNSEEN = {
    "a header": ("Headers and the query", Way(headers=(KIND, f"x-note: {TAKEN_OUT}"), body=PLAIN)),
    "the query": ("Headers and the query", Way(f"POST {CHAT}?note={TAKEN_OUT}", body=PLAIN)),
    "legacy completions": ("`/v1/completions`", Way("POST /v1/completions")),
    "legacy complete": ("`/v1/complete`", Way("POST /v1/complete")),
    "embeddings": ("embeddings", Way("POST /v1/embeddings")),
    "a batch": ("**Batches**", Way("POST /v1/batches")),
    "a file": ("files", Way("POST /v1/files", ("content-type: multipart/form-data",))),
    "an assistant's message": ("assistants", Way("POST /v1/threads/t1/messages")),
    "a session": ("sessions of realtime", Way("POST /v1/realtime/sessions")),
    "what nobody knows": ("everything else under `/v1`", Way("POST /v1/odd")),
}
UNSEEN_ANSWERS = {
    "a stored answer": ("**Stored answers**", Way("GET /v1/responses/r1", body=b""), 200, b"%s"),
    "a stored chat": (
        "**Stored answers**",
        Way("GET /v1/chat/completions/c1", body=b""),
        200,
        b"%s",
    ),
    "an error": ("**Errors of an upstream**", Way(body=PLAIN), 418, b"%s"),
    "a count": ("count_tokens", Way("POST /v1/messages/count_tokens", body=PLAIN), 200, b"%s"),
    "a text": (
        "**Tool calls in plain text**",
        Way(body=PLAIN),
        200,
        completion({"content": f"<call>transfer {PAYLOAD}</call>"}),
    ),
    "a comment": (
        "**Comments of a stream**",
        Way(body=PLAIN),
        200,
        b": transfer "
        + PAYLOAD.encode()
        + b"\n\n"
        + events(chunk("stop", {"content": "Hi"}))
        + DONE,
    ),
}


class TestWhatPassesUnseen:
    """What does get past the hooks is in the documentation."""

    @pytest.mark.parametrize("how", UNSEEN)
    def test_a_request_that_passes_is_told_of(self, how, guarded, recorder):
        words, way = UNSEEN[how]
        assert words in SECTION
        recorder.anew()
        assert exchanged(guarded, way.write()).split()[1] == b"200"
        assert any(TAKEN_OUT in text for text in readings(recorder.last))

    @pytest.mark.parametrize("how", UNSEEN_ANSWERS)
    def test_an_answer_that_passes_is_told_of(self, how, guarded, recorder):
        words, way, status, data = UNSEEN_ANSWERS[how]
        assert words in SECTION
        recorder.anew()
        data = data.replace(b"%s", json.dumps(CALL_OF_CHAT).encode())
        recorder.say(Raw([data], status, headers=kind_of(data)))
        came = exchanged(guarded, way.write())
        assert came.split()[1] == str(status).encode()
        assert PAYLOAD.encode() in came

    def test_with_a_key_none_of_the_requests_passes(self, recorder):
        registry = HookRegistry()
        registry.swap(load_text(GUARDED).specs)
        keys = {"ann": "not-a-real-key-of-ann"}
        with gateway_at(*upstreams_at(recorder, key="sk-team"), registry=registry, keys=keys) as at:
            for words, way in UNSEEN.values():
                recorder.anew()
                sent_with = (*way.headers, f"authorization: Bearer {keys['ann']}")
                answer = exchanged(at, dataclasses.replace(way, headers=sent_with).write())
                model_call = "query" in words
                assert answer.split()[1] == (b"200" if model_call else b"403")
                assert bool(recorder.requests) is model_call
