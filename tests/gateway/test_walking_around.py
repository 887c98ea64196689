"""Ways around the hooks that somebody might try: odd callers, odd models, odd upstreams."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry

from .dialects import DIALECTS
from .provider import CHAT, Provider, Raw
from .serving import gateway_at, upstreams_at
from .talking import Talk

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
    return JSON if data.startswith(b"{") else STREAM


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
