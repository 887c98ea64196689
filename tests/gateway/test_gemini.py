"""What the Gemini API has of its own: its paths, spellings, keys, arrays, and calls without ids."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import aiohttp
import pytest
from google import genai
from google.genai import errors

from checkrail import Block, Continue, HookRegistry, Replace, Retry
from checkrail.builtin import BUILTINS
from checkrail.config.gateway import PassedPath, UpstreamConfig
from checkrail.engine.values import AssistantMessage
from checkrail.llm.gemini.api import open_gemini
from checkrail.llm.gemini.framing import ArraySplitter

from .dialects import DIALECTS, Gemini
from .provider import Fail, Provider, Raw, Say
from .provider_wire import GEMINI, gemini_chunks, whole
from .serving import gateway_at
from .talking import Talk

SECRET = "AKIAIOSFODNN7EXAMPLE"
TRANSFER = ("transfer", {"amount": 98765.25})
SEARCH = ("search", {"q": "x"})
JSON = {"content-type": "application/json"}
TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.fixture
def provider():
    with Provider() as running:
        yield running


class ArrayDialect(Gemini):
    """The same, asked for a stream without `alt=sse`."""

    def sent(self, path: str, body: Any) -> tuple[str, Any]:
        target, body = super().sent(path, body)
        return target.removesuffix("?alt=sse"), body

    def heard_stream(self, stream: bytes) -> Any:
        return self.heard_pieces(json.loads(stream))


@pytest.fixture(params=[DIALECTS["gemini"], ArrayDialect()], ids=["events", "array"])
async def talk(request, provider):
    async with Talk(request.param, provider, stream=True, keep_alive_seconds=20) as talking:
        yield talking


def redacting(hooks: HookRegistry, *points: str) -> None:
    redact = BUILTINS["redact"].make({"kinds": ["secrets"]})
    for point in points:
        hooks.register(redact, point, name=f"redact {point}")


def blocking(hooks: HookRegistry) -> None:
    hooks.register(lambda event: Block("too much"), "before_tool_call", tools=["transfer"])


@contextlib.asynccontextmanager
async def served(provider: Provider, registry: HookRegistry | None = None, **more: Any) -> Any:
    """Give a function that sends a request to a gateway, and reads its answer."""
    upstream = UpstreamConfig("gemini", "gemini", provider.url, retries=0, **more.pop("at", {}))
    with gateway_at(upstream, registry=registry, **more) as address:
        async with aiohttp.ClientSession() as session:

            async def send(
                path: str, body: Any = None, method: str = "POST", **headers: str
            ) -> Any:
                content = {"json": body} if body is not None else {}
                target = address + path
                async with session.request(method, target, headers=headers, **content) as answer:
                    return answer.status, json.loads(await answer.read())

            yield send


def asked(*parts: Any, **more: Any) -> Any:
    return {"contents": [{"role": "user", "parts": [*parts]}], **more}


HELLO = asked({"text": "Hello"})


class TestStreams:
    @pytest.mark.parametrize("cut", [1, 7, 64, None])
    async def test_a_secret_never_reaches_the_caller(self, talk, cut):
        redacting(talk.hooks, "after_llm_call")
        talk.provider.say(Say(f"The key is {SECRET}, keep it.", [SEARCH], cut=cut))
        got = await talk.ask()
        assert got.heard.text == "The key is [redacted:secrets], keep it."
        assert (got.heard.calls, got.heard.ended) == ([SEARCH], True)
        assert SECRET[:8].encode() not in got.raw

    @pytest.mark.parametrize("cut", [1, 7, 64, None])
    async def test_a_blocked_call_becomes_a_text_behind_what_was_sent(self, talk, cut):
        blocking(talk.hooks)
        talk.provider.say(Say("Look:", [TRANSFER, SEARCH], cut=cut))
        got = await talk.ask()
        assert got.heard.text == "Look:\n\ntransfer was not called: too much"
        assert (got.heard.calls, got.heard.ended) == ([SEARCH], True)

    @pytest.mark.parametrize("cut", [1, 7, None])
    @pytest.mark.parametrize("point", ["none", "before_tool_call", "after_llm_call"])
    async def test_what_no_hook_changes_keeps_every_byte(self, talk, point, cut):
        if point != "none":
            talk.hooks.register(lambda event: None, point)
        made = [json.dumps(one, indent=1) for one in gemini_chunks(Say('{["\\ä', [SEARCH]))]
        if isinstance(talk.dialect, ArrayDialect):
            raw = (" [" + "\n,\r\n".join(made) + "\n] \r\n").encode()
            kind = "application/json; charset=UTF-8"
        else:
            made = ["data: " + one.replace("\n", "\r\ndata: ") for one in made]
            raw = "\r\n\r\n".join([*made, ""]).encode()
            kind = "text/event-stream"
        size = cut or len(raw)
        pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
        talk.provider.say(Raw(pieces, headers={"content-type": kind}))
        reply = await talk.reply()
        assert b"".join([piece async for piece in reply.content]) == raw

    async def test_a_hook_answers_in_its_form(self, talk):
        talk.hooks.register(lambda event: Replace(AssistantMessage("known")), "before_llm_call")
        got = await talk.ask()
        assert (got.heard.text, got.heard.stop) == ("known", "STOP")
        assert got.headers[b"content-type"] == talk.format.stream_type

    async def test_signs_of_life_are_no_comments(self, provider, talk):
        async with Talk(talk.dialect, provider, stream=True, keep_alive_seconds=0.01) as quick:
            quick.hooks.register(lambda event: Block("We are closed"), "after_llm_call")
            provider.say(Say(TEXT, waits=2))
            reply = await quick.reply()
            got = await anext(reply.content)
            assert not got.strip()
            provider.go_on()
            got += b"".join([piece async for piece in reply.content])
        heard = quick.dialect.heard_stream(got)
        assert heard.error["message"] == "We are closed"
        assert heard.text == ""

    @pytest.mark.parametrize("rule", [None, "before_tool_call", "after_llm_call"])
    async def test_one_that_breaks_off_ends_as_its_form_does(self, talk, rule):
        if rule:
            talk.hooks.register(lambda event: None, rule)
        talk.provider.say(Say(TEXT, dies=5))
        got = await talk.ask()
        assert got.heard.error["code"] == 502
        assert got.heard.error["status"] == "UNAVAILABLE"
        assert TEXT.startswith(got.heard.text)

    @pytest.mark.parametrize("rule", [None, "before_tool_call", "after_llm_call"])
    async def test_an_error_of_the_upstream_ends_it(self, provider, rule):
        async with Talk(ArrayDialect(), provider, stream=True) as talk:
            if rule:
                talk.hooks.register(lambda event: None, rule)
            first, second, *_ = (json.dumps(one) for one in gemini_chunks(Say(TEXT)))
            error = '{"error": {"code": 503, "message": "overloaded"}}'
            raw = f"[{first},\n{second},\n{error}\n]".encode()
            provider.say(Raw([raw[:40], raw[40:]], headers=JSON))
            got = await talk.ask()
            assert got.heard.error == {"code": 503, "message": "overloaded"}
            assert got.heard.text == ("" if rule == "after_llm_call" else TEXT[:10])

    async def test_a_call_in_the_last_piece_does_not_pass(self, talk):
        blocking(talk.hooks)
        *most, last = gemini_chunks(Say("Look", [TRANSFER]))
        call = most.pop()["candidates"][0]["content"]["parts"]
        last["candidates"][0]["content"]["parts"] = [{"text": "!"}, *call]
        chunks = [json.dumps(one).encode() for one in [*most, last]]
        if isinstance(talk.dialect, ArrayDialect):
            talk.provider.say(Raw([b"[", b",".join(chunks), b"]"], headers=JSON))
        else:
            made = [b"data: " + one + b"\n\n" for one in chunks]
            talk.provider.say(Raw(made, headers={"content-type": "text/event-stream"}))
        got = await talk.ask()
        assert got.heard.calls == []
        assert got.heard.text == "Look!\n\ntransfer was not called: too much"

    async def test_another_kind_of_content_than_was_asked_for_is_no_way_around(self, talk):
        blocking(talk.hooks)
        chunks = [json.dumps(one) for one in gemini_chunks(Say("Look:", [TRANSFER]))]
        if isinstance(talk.dialect, ArrayDialect):
            made, kind = "".join(f"data: {one}\n\n" for one in chunks), "text/event-stream"
        else:
            made, kind = f"[{','.join(chunks)}]", "application/json"
        talk.provider.say(Raw([made.encode()], headers={"content-type": kind}))
        reply = await talk.reply()
        assert reply.status == 502
        assert b"transfer" not in reply.content

    async def test_arguments_in_pieces_are_refused_where_a_rule_stands(self, talk):
        blocking(talk.hooks)
        chunks = gemini_chunks(Say("", [TRANSFER]))
        call = chunks[0]["candidates"][0]["content"]["parts"][0]["functionCall"]
        call |= {"partialArgs": [{"jsonPath": "$.amount", "numberValue": 5}], "willContinue": True}
        made = [json.dumps(one).encode() for one in chunks]
        array = isinstance(talk.dialect, ArrayDialect)
        raw = b"[" + b",".join(made) + b"]"
        events = b"".join(b"data: " + one + b"\n\n" for one in made)
        kind = "application/json" if array else "text/event-stream"
        talk.provider.say(Raw([raw if array else events], headers={"content-type": kind}))
        got = await talk.ask()
        assert got.heard.error
        assert b"partialArgs" not in got.raw


class TestArrays:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
    def test_no_cut_loses_a_byte_or_changes_an_item(self, size):
        items = [{"a": '"}],[{\\"', "b": [{"c": []}]}, {}, {"d": "\\"}]
        raw = (" [ " + " ,\n".join(map(json.dumps, items)) + " ]\n ").encode()
        splitter = ArraySplitter()
        pieces = [
            piece for at in range(0, len(raw), size) for piece in splitter.feed(raw[at : at + size])
        ]
        pieces += splitter.finish()
        assert b"".join(piece.raw for piece in pieces) == raw
        assert [json.loads(piece.data) for piece in pieces if piece.data] == items
        assert not any(piece.odd for piece in pieces)

    @pytest.mark.parametrize(
        "raw", [b'[{"a": 1} "x" {}]', b'"x" [{}]', b'{"a": {"b": 1}}', b'[{"a"']
    )
    def test_what_is_no_array_of_objects_is_odd(self, raw):
        splitter = ArraySplitter()
        pieces = [*splitter.feed(raw), *splitter.finish()]
        assert b"".join(piece.raw for piece in pieces) == raw
        assert any(piece.odd for piece in pieces)


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "target"),
        [
            ("/v1beta/models/m-1:generateContent", None),
            ("/v1/models/m-1:generateContent", None),
            ("/v1alpha/models/m-1:generateContent", None),
            ("/models/m-1:generateContent", "/v1beta/models/m-1:generateContent"),
            ("//v1beta/models/m-1:generateContent", "/v1beta/models/m-1:generateContent"),
            ("/V1BETA/Models/m-1:GENERATECONTENT", "/v1beta/models/m-1:generateContent"),
            ("/v1beta/./models/m-1%3AgenerateContent", "/v1beta/models/m-1:generateContent"),
            ("/v1beta/models/m-1:generateContent/", "/v1beta/models/m-1:generateContent"),
            ("/v1beta/tunedModels/Mine:generateContent", None),
        ],
    )
    async def test_hooks_hold_however_it_is_spelled(self, provider, path, target):
        registry = HookRegistry()
        redacting(registry, "before_llm_call")
        async with served(provider, registry) as send:
            status, _ = await send(path, asked({"text": f"I am {SECRET}"}))
        assert status == 200
        assert provider.last.path == target or path
        assert SECRET.encode() not in provider.last.body

    @pytest.mark.parametrize(
        "path",
        [
            "/v1beta/openai/chat/completions",
            "/v1beta/x/models/m:generateContent",
            "/v1beta/models/../x:generateContent",
            "/v1beta/interactions",
            "/v1beta/models:generateContent",
            "/upload/v1beta/models/m:streamGenerateContent",
        ],
    )
    async def test_no_other_path_calls_a_model(self, provider, path):
        async with served(provider, HookRegistry()) as send:
            status, told = await send(path, HELLO)
        assert (status, told["error"]["status"]) == (404, "NOT_FOUND")
        assert provider.requests == []

    async def test_what_no_hook_sees_is_passed_on_to_google_alone(self, provider):
        async with served(provider) as send:
            for path in ("/v1beta/models/m:embedContent", "/v1/models/m:batchEmbedContents"):
                assert await send(path, HELLO) == (
                    200,
                    {"path": path, "bytes": len(json.dumps(HELLO))},
                )
            status, _ = await send("/upload/v1beta/files", HELLO)
            assert (status, provider.last.path) == (200, "/upload/v1beta/files")
            assert (await send("/v1/embeddings", HELLO))[0] == 404

    async def test_with_hooks_what_may_call_a_model_has_to_be_named(self, provider):
        registry = HookRegistry()
        redacting(registry, "before_llm_call")
        path = "/v1beta/models/m:embedContent"
        async with served(provider, registry) as send:
            status, told = await send(path, HELLO)
            assert (status, told["error"]["status"]) == (404, "NOT_FOUND")
            assert told["error"]["message"].endswith(f'pass_through: ["POST {path.lower()}"]')
            assert (await send("/v1beta/cachedContents", HELLO))[0] == 200
        named = (PassedPath("/v1beta/models/*:embedContent"),)
        async with served(provider, registry, pass_through=named) as send:
            assert (await send(path, HELLO))[0] == 200
            assert (await send("/v1beta/cachedContents", HELLO))[0] == 403

    async def test_without_passing_on_only_the_list_of_models_is_there(self, provider):
        async with served(provider, pass_through=False) as send:
            assert (await send("/v1beta/models/m:embedContent", HELLO))[0] == 403
            assert (await send("/v1beta/cachedContents", HELLO))[0] == 403
            assert (await send("/v1beta/models", method="GET"))[0] == 200
            assert (await send("/v1beta/models/m:countTokens", HELLO))[0] == 200

    async def test_a_model_is_asked_for_under_its_own_name(self, provider):
        async with served(provider, at={"models": ("google/*",)}) as send:
            assert (await send("/v1beta/models/google/m-1:generateContent", HELLO))[0] == 200
            assert provider.last.path == "/v1beta/models/m-1:generateContent"
            status, told = await send("/v1beta/models/other:generateContent", HELLO)
            assert (status, told["error"]["status"]) == (404, "NOT_FOUND")

    async def test_models_are_listed_as_they_are_asked_for(self, provider):
        listed = {"models": [{"name": "models/a-1"}, {"name": "models/b-1"}]}
        provider.say(Raw([json.dumps(listed).encode()], headers=JSON))
        async with served(provider, at={"models": ("google/a-*",)}) as send:
            _, told = await send("/v1beta/models", method="GET")
        assert told == {"models": [{"name": "models/google/a-1"}]}

    def test_a_model_stands_in_its_path(self):
        assert open_gemini("/v1beta/models/a/b c:generateContent").model == "a/b c"
        assert open_gemini("/v1beta/tunedmodels/a:generateContent").model == "tunedModels/a"
        made = open_gemini("/v1/models/a:streamGenerateContent", "alt=sse")
        assert made.target_path(made.path, "b?c") == "/v1/models/b%3Fc:streamGenerateContent"
        assert made.target_path(made.path, "tunedModels/t") == (
            "/v1/tunedModels/t:streamGenerateContent"
        )
        assert open_gemini("/v1beta/models/a:embedContent") is None


class TestKeys:
    PATH = "/v1beta/models/m:generateContent"

    @pytest.mark.parametrize(
        ("query", "headers"),
        [
            ("?key=not-a-real-key-of-ann", {}),
            ("?%6bey=not-a-real-key-of-ann&x=1", {}),
            ("?$key=not-a-real-key-of-ann", {}),
            ("?access_token=not-a-real-key-of-ann", {}),
            ("", {"x-goog-api-key": "not-a-real-key-of-ann"}),
            ("", {"authorization": "Bearer not-a-real-key-of-ann"}),
        ],
    )
    async def test_the_gateways_key_is_taken_and_not_passed_on(self, provider, query, headers):
        keys = {"ann": "not-a-real-key-of-ann"}
        async with served(provider, keys=keys, at={"key": "AIza-of-the-team"}) as send:
            assert (await send(self.PATH + query, HELLO, **headers))[0] == 200
            status, told = await send(self.PATH + "?key=another", HELLO)
        assert (status, told["error"]["status"]) == (401, "UNAUTHENTICATED")
        (sent,) = provider.requests
        assert sent.header("x-goog-api-key") == "AIza-of-the-team"
        assert "not-a-real" not in f"{sent.query}{sent.headers}"

    async def test_the_callers_key_is_passed_on_as_a_header(self, provider):
        async with served(provider) as send:
            await send(self.PATH + "?alt=json&key=AIza%2Bmine&x=%20", HELLO)
        assert provider.last.header("x-goog-api-key") == "AIza+mine"
        assert provider.last.query == "alt=json&x=%20"

    async def test_nothing_of_other_apis_goes_to_google(self, provider):
        async with served(provider) as send:
            headers = {"authorization": "Bearer sk-of-openai"}
            assert (await send("/v1/files?key=x", HELLO, **headers))[0] == 404
            assert (await send("/v1/chat/completions?key=x", HELLO, **headers))[0] == 404
        assert provider.requests == []

    async def test_nothing_of_google_goes_to_other_apis(self, provider):
        upstream = UpstreamConfig("openai", "chat", provider.url, retries=0)
        with gateway_at(upstream) as address:
            async with aiohttp.ClientSession() as session:
                for path in ("/v1beta/models/m:embedContent", "/v1/models/m:embedContent"):
                    async with session.post(address + path, json=HELLO) as answer:
                        assert answer.status == 404
                async with session.get(f"{address}/v1/models?key=AIza") as answer:
                    assert answer.status == 404
        assert provider.requests == []

    async def test_of_several_keys_the_first_counts_and_is_sent(self, provider):
        async with served(provider) as send:
            await send(self.PATH + "?key=second", HELLO, **{"x-goog-api-key": "first"})
        assert provider.last.header("x-goog-api-key") == "first"


class TestSpellings:
    async def test_both_spellings_are_read(self, provider):
        seen = []
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event, request: seen.append(request), "before_llm_call")
            snake = {
                "system_instruction": {"parts": {"text": "Be short."}},
                "contents": {"role": "user", "parts": {"text": "Hi"}},
                "tools": {"function_declarations": {"name": "f", "parameters_json_schema": {}}},
                "generation_config": {"max_output_tokens": 5, "thinking_config": {"a_b": 1}},
            }
            await talk.ask({"model": "m", **snake})
        (request,) = seen
        assert [message["role"] for message in request.messages] == ["system", "user"]
        assert [tool["function"]["name"] for tool in request.tools] == ["f"]
        settings = request.params["generationConfig"]
        assert settings == {"maxOutputTokens": 5, "thinkingConfig": {"aB": 1}}

    async def test_a_result_is_redacted_in_either(self, provider):
        async with Talk(DIALECTS["gemini"], provider) as talk:
            redacting(talk.hooks, "after_tool_call")
            result = {"function_response": {"name": "f", "response": {"a": [{"b": SECRET}]}}}
            call = {"role": "model", "parts": [{"function_call": {"name": "f"}}]}
            contents = [call, {"role": "user", "parts": [result]}]
            await talk.ask({"model": "m", "contents": contents})
            sent = talk.provider.last.json["contents"]
        told = sent[1]["parts"][0]["functionResponse"]["response"]
        assert told == {"a": [{"b": "[redacted:secrets]"}]}
        assert sent[0] == call

    @pytest.mark.parametrize(
        "body",
        [
            {"contents": [], "system_instruction": {}, "systemInstruction": {}},
            {"contents": [], "System_Instruction": {}},
            {"contents": [], "messages": [{"role": "user", "content": "x"}]},
            {"Contents": []},
            asked({"functionCall": {"name": "f"}, "function_call": {"name": "g"}}),
            asked({"functionCall": {"name": "f"}, "text": "x"}),
            asked({"functioncall": {"name": "f"}}),
            asked({"text": ["x"]}),
            asked("x"),
            {"contents": "x"},
            {"contents": [{"role": 7, "parts": []}]},
            {"contents": [], "systemInstruction": "x"},
            {"contents": [], "tools": [{"functionDeclarations": ["f"]}]},
            asked({"functionCall": {"name": "f", "args": "x"}}),
            asked({"functionResponse": {"name": "f", "response": "x"}}),
            {"contents": [], "generationConfig": {"top_k": 1, "topK": 2}},
        ],
    )
    async def test_what_might_be_read_in_two_ways_is_refused(self, provider, body):
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event: None, "before_llm_call")
            got = await talk.ask({"model": "m", **body})
        assert (got.status, got.heard.error["status"]) == (400, "INVALID_ARGUMENT")
        assert provider.requests == []


class TestConversations:
    async def test_results_belong_to_calls_by_name_and_order(self, provider):
        seen = []
        calls = [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate("aba")]
        results = [
            {"functionResponse": {"name": name, "response": {"output": f"{name}{n}"}}}
            for n, name in enumerate("baa")
        ]
        turns = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event, request: seen.append(request), "before_llm_call")
            for _ in range(2):
                await talk.ask({"model": "m", "contents": turns})
        first, second = (request.messages for request in seen)
        assert first == second
        said, *told = first
        ids = [call["id"] for call in said["tool_calls"]]
        assert len({*ids}) == 3
        assert [message["tool_call_id"] for message in told] == [ids[1], ids[0], ids[2]]

    async def test_an_error_of_a_tool_is_one(self, provider):
        seen = []
        call = {"functionCall": {"id": "c1", "name": "f"}}
        result = {"functionResponse": {"id": "c1", "name": "f", "response": {"error": "no"}}}
        turns = [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(
                lambda event, result: seen.append((result.id, result.name, result.error)),
                "on_tool_error",
            )
            await talk.ask({"model": "m", "contents": turns})
        assert seen == [("c1", "f", "no")]

    async def test_a_blocked_result_is_an_error_for_the_model(self, provider):
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event: Block("not for you"), "after_tool_call")
            await talk.ask(talk.dialect.with_result("secret"))
        sent = provider.last.json["contents"][-1]["parts"][0]["functionResponse"]
        assert sent == {"name": "read", "response": {"error": "not for you"}}

    async def test_a_model_that_is_told_of_a_blocked_call_gets_its_signature_back(self, provider):
        provider.say(Say("", [TRANSFER]), Say("Then not."))
        async with Talk(DIALECTS["gemini"], provider, blocked_tool="continue") as talk:
            blocking(talk.hooks)
            got = await talk.ask()
        assert got.heard.text == "Then not."
        call, result = (content["parts"] for content in provider.last.json["contents"][1:])
        name, args = TRANSFER
        made = {"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2lnbmVk"}
        assert call == [made]
        told = {"name": name, "response": {"error": "too much"}}
        assert result == [{"functionResponse": told}]

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_signature_outlives_the_call_that_it_came_with(self, provider, stream):
        provider.say(Say("", [TRANSFER, SEARCH]))
        async with Talk(DIALECTS["gemini"], provider, stream=stream, blocked_tool="drop") as talk:
            blocking(talk.hooks)
            got = await talk.ask()
        assert got.heard.calls == [SEARCH]
        assert b'"thoughtSignature":"c2lnbmVk"' in got.raw

    async def test_a_changed_tool_stays_where_it_was(self, provider):
        def shorten(event, request):
            first, *others = [dict(tool) for tool in request.tools]
            first["function"] = {**first["function"], "description": "short"}
            return Continue(type(request)(**{**vars_of(request), "tools": [first, *others]}))

        function = {"name": "f", "description": "long", "parameters": {"type": "OBJECT"}}
        tools = [{"functionDeclarations": [function]}, {"googleSearch": {}}]
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(shorten, "before_llm_call")
            await talk.ask({"model": "m", **HELLO, "tools": tools})
        assert provider.last.json["tools"] == [
            {"functionDeclarations": [{**function, "description": "short"}]},
            {"googleSearch": {}},
        ]

    async def test_what_hooks_inject_stands_behind(self, provider):
        again = {"role": "system", "content": "Be brief."}
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event: Continue(inject=[again]), "before_llm_call")
            await talk.ask()
        first, last = provider.last.json["contents"]
        assert first == HELLO["contents"][0]
        assert last == {"role": "user", "parts": [{"text": "Be brief."}]}


def vars_of(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__slots__}


class TestAnswers:
    async def ask_of(self, provider: Provider, body: Any, *points: str, **more: Any) -> Any:
        provider.say(Raw([json.dumps(body).encode()], headers=JSON))
        async with Talk(DIALECTS["gemini"], provider) as talk:
            redacting(talk.hooks, *points)
            if more:
                talk.hooks.register(more["hook"], "after_llm_call")
            return await talk.ask()

    async def test_every_candidate_is_read_and_written(self, provider):
        first, second = (f"{name} {SECRET}" for name in ("One", "Two"))
        body = whole(GEMINI, Say("x"))
        body["candidates"] = [
            {
                "content": {"role": "model", "parts": [{"text": text}]},
                "index": n,
                "finishReason": "STOP",
            }
            for n, text in enumerate([first, second, "Three"])
        ]
        got = await self.ask_of(provider, body, "after_llm_call")
        found = json.loads(got.raw)["candidates"]
        texts = [one["content"]["parts"] for one in found]
        assert texts == [
            [{"text": "One [redacted:secrets]"}],
            [{"text": "Two [redacted:secrets]"}],
            [{"text": "Three"}],
        ]
        assert found[2] == body["candidates"][2]

    async def test_what_google_withheld_has_a_reason(self, provider):
        seen = []
        body = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "m"}
        provider.say(Raw([json.dumps(body).encode()], headers=JSON))
        async with Talk(DIALECTS["gemini"], provider) as talk:
            talk.hooks.register(lambda event, said: seen.append(said), "after_llm_call")
            reply = await talk.reply()
        assert json.loads(reply.content) == body
        assert [(said.content, said.stop_reason) for said in seen] == [("", "content_filter")]

    async def test_sources_of_a_text_go_with_it(self, provider):
        body = whole(GEMINI, Say(f"The key is {SECRET}."))
        segment = {"segment": {"text": f"is {SECRET}"}}
        body["candidates"][0]["groundingMetadata"] = {"groundingSupports": [segment]}
        body["candidates"][0]["logprobsResult"] = {"chosenCandidates": [{"token": SECRET}]}
        got = await self.ask_of(provider, body, "after_llm_call")
        assert got.heard.text == "The key is [redacted:secrets]."
        assert SECRET.encode() not in got.raw

    async def test_thoughts_cached_tokens_and_tools_count(self, provider):
        seen = []
        body = whole(GEMINI, Say("Hi", thinking="Hm"))
        body["usageMetadata"] |= {
            "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 3,
            "toolUsePromptTokenCount": 2,
            "totalTokenCount": 25,
        }
        await self.ask_of(provider, body, hook=lambda event, said: seen.append(said.usage))
        assert seen == [
            {
                "input_tokens": 13,
                "output_tokens": 12,
                "total_tokens": 25,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 5},
            }
        ]


class TestCounting:
    PATH = "/v1beta/models/m:countTokens"

    @pytest.mark.parametrize("within", [False, True])
    async def test_a_request_is_redacted_for_its_counting(self, provider, within):
        registry = HookRegistry()
        redacting(registry, "before_llm_call")
        body = asked({"text": f"I am {SECRET}"})
        if within:
            body = {"generateContentRequest": {"model": "models/m", **body}}
        async with served(provider, registry) as send:
            assert (await send(self.PATH, body))[0] == 200
        assert SECRET.encode() not in provider.last.body
        sent = provider.last.json.get("generateContentRequest", provider.last.json)
        assert sent["contents"][0]["parts"] == [{"text": "I am [redacted:secrets]"}]

    async def test_a_request_that_no_model_would_see_has_no_tokens(self, provider):
        registry = HookRegistry()
        registry.register(lambda event: Replace(AssistantMessage("known")), "before_llm_call")
        async with served(provider, registry) as send:
            assert await send(self.PATH, HELLO) == (200, {"totalTokens": 0})
        assert provider.requests == []


class TestSdk:
    @pytest.fixture
    def client(self, provider):
        registry = HookRegistry()
        registry.register(
            lambda event: Block("We are closed"), "before_llm_call", when=self.is_late
        )
        registry.register(
            lambda event: Block("Not so often", status=429),
            "before_llm_call",
            when=lambda event: "often" in event.value.text,
        )
        registry.register(lambda event: Block("No moves"), "before_tool_call", tools=["transfer"])
        registry.register(
            lambda event, said: Retry("Again") if said.text == "Bad" else None, "after_llm_call"
        )
        upstream = UpstreamConfig("gemini", "gemini", provider.url, retries=0)
        with gateway_at(upstream, registry=registry) as address:
            again = genai.types.HttpRetryOptions(attempts=3, initial_delay=0.01, jitter=0.01)
            options = genai.types.HttpOptions(base_url=address, retry_options=again)
            with genai.Client(api_key="AIza-caller", http_options=options) as made:
                yield made

    asked: list[str]

    @pytest.fixture(autouse=True)
    def count_requests(self):
        self.asked = []

    def is_late(self, event: Any) -> bool:
        self.asked.append(event.value.text)
        return "late" in event.value.text

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_block_is_final(self, client, provider, stream):
        ask = client.models.generate_content_stream if stream else client.models.generate_content
        with pytest.raises(errors.ClientError, match="We are closed") as caught:
            [*ask(model="m", contents="It is late")]
        assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
        assert len(self.asked) == 1
        assert provider.requests == []

    def test_it_goes_by_the_status_alone(self, client, provider):
        with pytest.raises(errors.ClientError, match="Not so often"):
            client.models.generate_content(model="m", contents="Ask often")
        assert len(self.asked) == 3
        assert provider.requests == []

    def test_what_the_upstream_refuses_is_told_in_its_words(self, client, provider):
        provider.say(Fail(404, "no such model"))
        with pytest.raises(errors.ClientError, match="no such model"):
            client.models.generate_content(model="m", contents="Hi")

    def test_a_blocked_call_and_a_second_try(self, client, provider):
        provider.say(Say("Bad"), Say("Look:", [TRANSFER, SEARCH]))
        answer = client.models.generate_content(model="m", contents="Move it")
        assert "No moves" in answer.candidates[0].content.parts[0].text
        assert [call.name for call in answer.function_calls] == ["search"]
        assert len(provider.requests) == 2

    @pytest.mark.parametrize("rule", [None, "before_tool_call"])
    def test_an_error_within_a_stream_is_raised(self, provider, rule):
        provider.say(Say(TEXT, dies=3))
        registry = HookRegistry()
        if rule:
            registry.register(lambda event: None, rule)
        upstream = UpstreamConfig("gemini", "gemini", provider.url, retries=0)
        with gateway_at(upstream, registry=registry) as address:
            options = genai.types.HttpOptions(base_url=address)
            with genai.Client(api_key="AIza-caller", http_options=options) as client:
                stream = client.models.generate_content_stream(model="m", contents="Hi")
                assert next(stream).text == TEXT[:5]
                with pytest.raises(errors.APIError, match="broke off"):
                    list(stream)

    def test_tokens_are_counted_and_models_listed(self, client, provider):
        provider.say(Raw([b'{"totalTokens": 3}'], headers=JSON))
        assert client.models.count_tokens(model="m", contents="Hi").total_tokens == 3
        provider.say(Raw([b'{"models": [{"name": "models/m"}]}'], headers=JSON))
        assert [model.name for model in client.models.list()] == ["models/m"]
